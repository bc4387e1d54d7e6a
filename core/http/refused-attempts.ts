import { isIPv6 } from 'node:net';
import type { Outcome, RequestContext, Scope } from '../pipeline/plugin.ts';
import { callerKey } from '../pipeline/keys.ts';
import type { Counter } from '../ports/metrics.ts';
import type { AuditEntry, Resources } from '../ports/resources.ts';
import { auditEntry, repeatedEntry, type AuditedAction } from './audit-entry.ts';

const batchMs = 1000;
/** Attempts that are alike within this time become two entries at the most: the first, and how often it was repeated. */
const groupMs = 3_600_000;
/** Groups of one organisation at a time; what is beyond them shares one. */
const maxGroups = 200;
/** Waiting for the store, of all organisations. */
const maxWaiting = 1000;

/** Attempts that are alike: of one caller, at one action, refused for one reason; those of strangers at any action. */
interface Group {
  readonly first: AuditEntry;
  readonly since: number;
  repeats: number;
  lastAt: number;
}

/**
 * Puts attempts that were refused into the audit trail, in batches. The first of a group is written at once; its repeats
 * are counted, and one entry says after an hour, or when the instance ends, how many there were. So a caller costs a few
 * entries an hour however often it tries, and callers that change their addresses 402 an hour and organisation at the
 * most. One for each plugin instance.
 */
export class RefusedAttempts {
  private readonly scope: Scope;
  private readonly resources: Resources;
  private readonly dropped: Counter;
  private waiting: AuditEntry[] = [];
  private readonly groups = new Map<string, Map<string, Group>>();
  private flushing: Promise<void> | undefined;

  constructor(scope: Scope, resources: Resources) {
    this.scope = scope;
    this.resources = resources;
    this.dropped = scope.metrics.counter({
      name: 'weir_audit_denied_dropped_total',
      help: 'Entries about refused attempts that are not in the audit trail: the store was away for too long.',
      labels: [],
    })({});
    scope.setInterval(() => this.tick(), batchMs);
    scope.onDispose(() => {
      this.closeGroups(Number.POSITIVE_INFINITY);
      // What came while a batch was on its way goes with the second one.
      return this.flush().then(() => this.flush());
    });
  }

  /** Notes a request that was refused when it tried this. */
  note(context: RequestContext, action: AuditedAction, { status, error }: Outcome): void {
    // Auth tells whose key it is even when it refuses it; strangers are everybody's and nobody's.
    const organisationId = context.facts.organisationId || this.scope.directory.defaultOrganisationId;
    const { workspaceId, apiKeyId } = context.facts;
    const key = context.get(callerKey);
    const caller = key?.id ?? apiKeyId;
    const name =
      caller === ''
        ? `${networkOf(context.remoteAddress)} ${status} ${error?.code ?? ''}`
        : `${caller} ${action.id} ${status} ${error?.code ?? ''}`;
    const now = this.scope.clock.now();
    const group = this.groupOf(organisationId, name);
    if (group.found !== undefined) {
      group.found.repeats += 1;
      group.found.lastAt = now;
      return;
    }
    const subject = { organisationId, workspaceId, resourceId: '', status, error };
    const entry = auditEntry(context, action, key, subject);
    const first = entry.actorId === '' ? { ...entry, actorId: apiKeyId } : entry;
    group.of.set(group.name, { first, since: now, repeats: 0, lastAt: now });
    this.wait(first);
  }

  private groupOf(organisationId: string, name: string) {
    let of = this.groups.get(organisationId);
    if (of === undefined) this.groups.set(organisationId, (of = new Map<string, Group>()));
    const own = of.get(name);
    if (own !== undefined || of.size < maxGroups) return { of, name, found: own };
    return { of, name: '', found: of.get('') };
  }

  /** Ends the groups that began so long ago; those that were repeated leave an entry that says so. */
  private closeGroups(now: number): void {
    for (const [organisationId, of] of this.groups) {
      for (const [name, group] of of) {
        if (now - group.since < groupMs) continue;
        of.delete(name);
        if (group.repeats > 0) this.wait(repeatedEntry(group.first, { ...group, isMixed: name === '' }));
      }
      if (of.size === 0) this.groups.delete(organisationId);
    }
  }

  private wait(entry: AuditEntry): void {
    if (this.waiting.length >= maxWaiting) this.dropped.inc();
    else this.waiting.push(entry);
  }

  private tick(): Promise<void> {
    this.closeGroups(this.scope.clock.now());
    return this.flush();
  }

  /** Stores what waits; while the store is away it goes on waiting, within its bound. */
  private flush(): Promise<void> {
    this.flushing ??= this.store().finally(() => (this.flushing = undefined));
    return this.flushing;
  }

  private async store(): Promise<void> {
    const batch = this.waiting;
    this.waiting = [];
    for (const organisationId of new Set(batch.map((entry) => entry.organisationId))) {
      const entries = batch.filter((entry) => entry.organisationId === organisationId);
      try {
        await this.resources.write(organisationId, async ({ audit }) => {
          for (const entry of entries) await audit.appendRefused(entry);
        });
      } catch (error) {
        this.keep(entries, error);
      }
    }
  }

  private keep(entries: readonly AuditEntry[], error: unknown): void {
    const room = Math.max(0, maxWaiting - this.waiting.length);
    this.waiting.unshift(...entries.slice(0, room));
    if (entries.length > room) this.dropped.inc(entries.length - room);
    this.scope.log.warn('Refused attempts could not be put into the audit trail yet', {
      waiting: this.waiting.length,
      error: error instanceof Error ? error.message : String(error),
    });
  }
}

/** One client has a whole network of 64 bits in IPv6. */
function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = '', tail = ''] = address.split('::');
  const left = head.split(':').filter((part) => part !== '');
  const right = tail.split(':').filter((part) => part !== '');
  const zeros = address.includes('::') ? Math.max(0, 8 - left.length - right.length) : 0;
  return [...left, ...Array.from({ length: zeros }, () => '0'), ...right].slice(0, 4).join(':');
}
