import type { ResourcesReader } from '../../ports/resources.ts';
import type { RecipientReason } from './alert-message.ts';

/** Upper bound of recipients of one event. */
const maxRecipients = 100;
const firstPage = { offset: 0, limit: maxRecipients };

/** A recipient of mail. */
export interface Recipient {
  readonly address: string;
  readonly reason: RecipientReason;
}

/** Collects recipients, each address once, in the order of addition. */
export class Recipients {
  readonly #reader: Pick<ResourcesReader, 'members' | 'users'>;
  readonly #organisationId: string;
  readonly #found = new Map<string, Recipient>();

  constructor(reader: Pick<ResourcesReader, 'members' | 'users'>, organisationId: string) {
    this.#reader = reader;
    this.#organisationId = organisationId;
  }

  /** The first hundred. */
  get told(): readonly Recipient[] {
    return [...this.#found.values()].slice(0, maxRecipients);
  }

  /** Number of recipients beyond that bound. */
  get leftOut(): number {
    return Math.max(0, this.#found.size - maxRecipients);
  }

  /** Adds an address, unless it is the placeholder of a first user without one. */
  add(address: string, reason: RecipientReason): void {
    const key = address.toLowerCase();
    if (key.endsWith('@localhost')) return;
    if (!this.#found.has(key)) this.#found.set(key, { address, reason });
  }

  /** Adds a user of the organisation, if present. */
  async addUser(id: string, reason: RecipientReason): Promise<void> {
    const user = await this.#reader.users.find(this.#organisationId, id);
    if (user !== undefined) this.add(user.email, reason);
  }

  /** Adds the managers of a workspace. */
  async addManagers(workspaceId: string): Promise<void> {
    const filter = { role: 'manager' } as const;
    const { data } = await this.#reader.members.list(this.#organisationId, workspaceId, filter, firstPage);
    for (const { user } of data) this.add(user.email, 'manager');
  }

  /** Adds the owners and admins of the organisation. */
  async addAdministrators(): Promise<void> {
    for (const role of ['owner', 'admin'] as const) {
      const { data } = await this.#reader.users.list(this.#organisationId, { role }, firstPage);
      for (const { email } of data) this.add(email, 'administrator');
    }
  }
}
