import {
  type Budget,
  type BudgetCount,
  type ExpectedUse,
  expectedUnits,
  type UsageRow,
} from '../../core/ports/budgets.ts';

/** Weight of a new request in the moving average of costs. */
const learning = 0.2;
/** Assumed time between acceptance and count of a request: its body is read in between. */
export const acceptedBeforeMs = 50;

const nothingTold: UsageRow['claimed'] = { threshold: '', exhausted: '' };

/** Count of one budget, in whole units. */
export class Count implements BudgetCount {
  readonly key: string;
  readonly organisationId: string;
  /** Start of the counted period; earlier use does not count. */
  epoch = 0;
  /** Time since which requests are counted in this period. */
  since: number;
  used = 0;
  /** Reserved by running requests. */
  reserved = 0;
  /** Average cost of a request. 0: unknown. */
  usual = 0;
  /** Counted here, and not yet reported to the ledger. */
  pending = 0;
  /** Counted here since the last contact with the shared store. */
  alone = 0;
  isDirty = false;
  /** The period that the ledger has. */
  #storedEpoch = -1;
  /** The last counted budget: its limits apply to alerts. Set before a crossing is noted. */
  budget: Budget | undefined;
  /** Marks of the last crossings that were reported here, or claimed by any process. */
  told: UsageRow['claimed'] = nothingTold;

  constructor(key: string, organisationId: string, since: number) {
    this.key = key;
    this.organisationId = organisationId;
    this.since = since;
  }

  /** True when the ledger has a count for this period. */
  get isStored(): boolean {
    return this.#storedEpoch === this.epoch;
  }

  /** Notes that the ledger has the present period. */
  stored(): void {
    this.#storedEpoch = this.epoch;
  }

  /** Starts a new period at `epoch` when that is later, for a request counted at `now`. */
  beginAt(epoch: number, now: number): void {
    if (epoch > this.epoch) this.restart(epoch, Math.max(epoch, now - acceptedBeforeMs));
  }

  restart(epoch: number, since: number): void {
    this.epoch = epoch;
    this.since = since;
    this.used = 0;
    this.pending = 0;
    this.alone = 0;
  }

  /** Learns what `requests` requests have cost together. */
  learnUsual(used: number, requests: number): void {
    const each = used / requests;
    const weight = requests === 1 ? learning : 1 - (1 - learning) ** requests;
    this.usual = this.usual === 0 ? each : this.usual + (each - this.usual) * weight;
  }

  amountFor(expected: ExpectedUse): number {
    return expectedUnits(this.budget?.unit ?? 'cost', expected) ?? Math.ceil(this.usual);
  }

  /** Adopts claims of other processes. */
  hear(claimed: UsageRow['claimed']): void {
    const threshold = this.told.threshold || claimed.threshold;
    const exhausted = this.told.exhausted || claimed.exhausted;
    if (threshold !== '' || exhausted !== '') this.told = { threshold, exhausted };
  }

  learn(epoch: number, used: number, now: number): void {
    this.beginAt(epoch, now);
    this.alone = 0;
    if (epoch === this.epoch && used > this.used) this.used = used;
  }

  /** True when this gateway, one of `replicas`, has used its share of the remainder. */
  isShareTaken(limit: number, replicas: number): boolean {
    const left = limit - (this.used - this.alone);
    return this.alone + this.reserved >= Math.ceil(left / replicas);
  }
}
