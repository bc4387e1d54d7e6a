import type { Outcome, RequestContext, Scope } from '../pipeline/plugin.ts';
import { callerKey } from '../pipeline/keys.ts';
import type { Counter } from '../ports/metrics.ts';
import type { AuditEntry, Resources } from '../ports/resources.ts';
import { auditEntry, type AuditedAction } from './audit-entry.ts';

const batchMs = 1000;
/** Per organisation and second. */
const maxPerSecond = 10;
/** Waiting for the store, of all organisations. */
const maxWaiting = 1000;

/**
 * Puts attempts that were refused into the audit trail, in batches: a flood of them costs a few rows a second, and what
 * is beyond that is counted in `weir_audit_denied_dropped_total`. One for each plugin instance; what waits when its
 * generation ends is written then.
 */
export class RefusedAttempts {
  private readonly scope: Scope;
  private readonly resources: Resources;
  private readonly dropped: Counter;
  private waiting: AuditEntry[] = [];
  private second = 0;
  private readonly inSecond = new Map<string, number>();
  private flushing: Promise<void> | undefined;

  constructor(scope: Scope, resources: Resources) {
    this.scope = scope;
    this.resources = resources;
    this.dropped = scope.metrics.counter({
      name: 'weir_audit_denied_dropped_total',
      help: 'Refused attempts that are not in the audit trail: too many at once, or no store.',
      labels: [],
    })({});
    scope.setInterval(() => this.flush(), batchMs);
    // What came while a batch was on its way goes with the second one.
    scope.onDispose(() => this.flush().then(() => this.flush()));
  }

  /** Notes a request that was refused when it tried this. */
  note(context: RequestContext, action: AuditedAction, { status, error }: Outcome): void {
    // Auth tells whose key it is even when it refuses it; strangers are everybody's and nobody's.
    const organisationId = context.facts.organisationId || this.scope.directory.defaultOrganisationId;
    if (!this.admit(organisationId)) {
      this.dropped.inc();
      return;
    }
    const { workspaceId, apiKeyId } = context.facts;
    const subject = { organisationId, workspaceId, resourceId: '', status, error };
    const entry = auditEntry(context, action, context.get(callerKey), subject);
    this.waiting.push(entry.actorId === '' ? { ...entry, actorId: apiKeyId } : entry);
  }

  private admit(organisationId: string): boolean {
    const second = Math.floor(this.scope.clock.now() / 1000);
    if (second !== this.second) {
      this.second = second;
      this.inSecond.clear();
    }
    const count = this.inSecond.get(organisationId) ?? 0;
    if (count >= maxPerSecond || this.waiting.length >= maxWaiting) return false;
    this.inSecond.set(organisationId, count + 1);
    return true;
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
          for (const entry of entries) await audit.append(entry);
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
