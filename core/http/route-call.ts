import { auditEntry } from './audit-trail.ts';
import type { Features } from '../access/features.ts';
import { roleOf, type Role } from '../access/roles.ts';
import { noStore } from '../organisation/without-store.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { Directory, KeyRecord } from '../ports/directory.ts';
import type { Resources, ResourcesReader, ResourcesWriter } from '../ports/resources.ts';
import type { AuditedChange, RouteDefinition, RouteInput } from '../pipeline/define-route.ts';

/** What was sent, validated. */
export interface RouteParts {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
}

/** What a call of a route is made of beside what was sent. */
export interface RoutePlace {
  readonly route: RouteDefinition;
  readonly resources: Resources | undefined;
  /** What the configuration owns, where there is no store; for reading alone. */
  readonly owned?: Pick<Resources, 'read'> | undefined;
  readonly directory: Directory;
  readonly features: Features;
}

/** One call of an administration route, as its handler sees it. */
export class RouteCall implements RouteInput<unknown, unknown, unknown> {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
  readonly key: KeyRecord;
  readonly context: Exchange;
  private readonly route: RouteDefinition;
  private readonly resources: Resources | undefined;
  private readonly place: RoutePlace;
  private readonly directory: Directory;
  /** False while the operator has switched the audit trail off. */
  private readonly audits: boolean;
  private audited = false;

  constructor(parts: RouteParts, key: KeyRecord, exchange: Exchange, place: RoutePlace) {
    this.params = parts.params;
    this.query = parts.query;
    this.body = parts.body;
    this.key = key;
    this.context = exchange;
    this.route = place.route;
    this.resources = place.resources;
    this.place = place;
    this.directory = place.directory;
    this.audits = place.features.isOn('audit_logs');
  }

  get role(): Role {
    return roleOf(this.key, this.directory);
  }

  // Handlers take these out of their input one by one.
  readonly read = async <T>(work: (reader: ResourcesReader) => Promise<T>): Promise<T> =>
    storeReader(this.place)(work);

  readonly write = async <T>(work: (writer: ResourcesWriter) => Promise<AuditedChange<T>>): Promise<T> => {
    if (this.route.audit === null)
      throw new TypeError(`The route "${this.route.id}" changes something and names no audit action.`);
    const result = await storeOf(this.resources).write(this.key.organisationId, async (writer) => {
      const change = await work(writer);
      if (this.audits) await writer.audit.append(this.entry(change.id, change.workspaceId ?? ''));
      return change.result;
    });
    this.audited = true;
    return result;
  };

  readonly requireVersion = (version: number): void => {
    const wanted = this.context.header('if-match');
    if (wanted === undefined || wanted.trim() === '*') return;
    // A proxy that compresses makes a weak tag of ours.
    const tags = wanted.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
    if (tags.includes(`"${version}"`)) return;
    throw new GatewayError(
      'version_mismatch',
      `The record has version ${version} now, and If-Match asks for ${wanted.slice(0, 64)}. Read it again, then repeat your change with its ETag.`,
    );
  };

  readonly sendVersion = (version: number): void => {
    this.context.replaceResponseHeader('etag', `"${version}"`);
  };

  /** The entry of an action that changed no record: those have been audited together with the change. */
  async auditAction(): Promise<void> {
    const { route, resources, key } = this;
    if (route.audit === null || this.audited || !this.audits || resources === undefined) return;
    const entry = this.entry('', key.workspaceId);
    await resources.write(key.organisationId, (writer) => writer.audit.append(entry));
  }

  private entry(resourceId: string, workspaceId: string) {
    const { organisationId } = this.key;
    return auditEntry(this.context, this.route, this.key, {
      ...{ organisationId, workspaceId, resourceId },
      status: 200,
    });
  }
}

/** Reads what is administered: of the store, or else what the configuration owns. Rejects with `not_supported` without both. */
export function storeReader({
  resources,
  owned,
}: Pick<RoutePlace, 'resources' | 'owned'>): RouteInput<unknown, unknown, unknown>['read'] {
  return async (work) => (resources ?? owned ?? storeOf(resources)).read(work);
}

function storeOf(resources: Resources | undefined): Resources {
  if (resources !== undefined) return resources;
  throw noStore();
}
