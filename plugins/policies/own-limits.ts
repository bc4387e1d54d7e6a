import type { KeyRecord } from '../../core/ports/directory.ts';
import { LimitCharges } from '../../core/access/limit-charges.ts';
import type { RateLimit } from '../../core/ports/limits.ts';

interface KeyCharges {
  readonly ofWorkspace: readonly RateLimit[] | undefined;
  readonly charges: LimitCharges;
}

/** What requests are counted in by the limits of their key and of its workspace; each made once, until they change. */
export class OwnLimits {
  readonly #ofKeys = new WeakMap<KeyRecord, KeyCharges>();
  /** For keys without limits of their own: there may be many. */
  readonly #ofWorkspaces = new WeakMap<readonly RateLimit[], LimitCharges>();

  /** Undefined for no limits, which is what most keys have. */
  of(key: KeyRecord, ofWorkspace: readonly RateLimit[] | undefined): LimitCharges | undefined {
    const { rateLimits } = key;
    if (rateLimits === undefined) return ofWorkspace && this.#chargesOf(key, ofWorkspace);
    const known = this.#ofKeys.get(key);
    if (known !== undefined && known.ofWorkspace === ofWorkspace) return known.charges;
    const { id, name, organisationId } = key;
    const charges = new LimitCharges();
    charges.addLimits(rateLimits, {
      prefix: `key:${organisationId}:${id}`,
      organisationId,
      name: `key ${JSON.stringify(name)}`,
    });
    if (ofWorkspace !== undefined) charges.addAll(this.#chargesOf(key, ofWorkspace));
    this.#ofKeys.set(key, { ofWorkspace, charges });
    return charges;
  }

  #chargesOf({ organisationId, workspaceId: id }: KeyRecord, limits: readonly RateLimit[]): LimitCharges {
    let charges = this.#ofWorkspaces.get(limits);
    if (charges !== undefined) return charges;
    charges = new LimitCharges();
    const prefix = `workspace:${organisationId}:${id}`;
    charges.addLimits(limits, { prefix, organisationId, name: `workspace "${id}"` });
    this.#ofWorkspaces.set(limits, charges);
    return charges;
  }
}
