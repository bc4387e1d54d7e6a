import type { RateLimit, UsageLimit } from './limits.ts';

/** What a budget counts. */
export type BudgetUnit = UsageLimit['type'];

/** The record that a budget belongs to, as alerts and refusals name it. */
export interface BudgetSubject {
  readonly type: 'api_key' | 'workspace' | 'provider' | 'integration' | 'usage_limit_policy';
  readonly id: string;
  readonly name: string;
  /** Undefined for what belongs to the organisation. */
  readonly workspaceId: string | undefined;
  /** The group of a policy (`metadata._user:alice`). */
  readonly valueKey?: string;
  /** Further addresses for alerts. */
  readonly emails?: readonly string[];
}

/** One usage limit over one group of requests. */
export interface Budget {
  /** What is counted, unique: `key:<organisation>:<id>`. */
  readonly key: string;
  readonly organisationId: string;
  readonly unit: BudgetUnit;
  /** US dollars, tokens or requests. */
  readonly limit: number;
  /** When to alert, in the same unit. */
  readonly threshold: number | undefined;
  /** When the period began that `at` is in, and when the next one begins. Milliseconds since the epoch; 0 and undefined without periods. */
  period(at: number): { readonly start: number; readonly end: number | undefined };
  readonly subject: BudgetSubject;
}

/** What one request is expected to use, and what it has used. Cost in US dollars. */
export type BudgetAmounts = Readonly<Record<BudgetUnit, number>>;

/** What one request will probably use. */
export interface ExpectedUse {
  readonly tokens: number;
  /** US dollars; undefined where nothing says what its tokens cost. */
  readonly cost: number | undefined;
}

/** Of a request of which neither tokens nor dollars are limited. */
export const nothingExpected: ExpectedUse = { tokens: 0, cost: undefined };

/** Of a request that has used nothing. */
export const nothingUsed: BudgetAmounts = { cost: 0, tokens: 0, requests: 0 };

/** Usage is counted in whole numbers: a billion of them is a US dollar. */
const perDollar = 1e9;

/** An amount in whole units: requests, tokens, or billionths of a US dollar. NaN counts as nothing. */
export function wholeUnits(amount: number, unit: BudgetUnit): number {
  if (!Number.isFinite(amount)) return 0;
  return unit === 'cost' ? Math.round(amount * perDollar) : Math.ceil(amount);
}

/** The other way round. */
export function shownUnits(amount: number, unit: BudgetUnit): number {
  return unit === 'cost' ? amount / perDollar : amount;
}

/** Why a request is refused. */
export interface BudgetRefusal {
  readonly isAdmitted: false;
  readonly budget: Budget;
  /** False when nothing is left because requests under way have reserved the rest. */
  readonly isExhausted: boolean;
  /** In the unit of the budget. */
  readonly used: number;
  /** When the budget begins anew; undefined for never by itself. */
  readonly resetsAt: number | undefined;
}

/** What requests under way have reserved. */
export interface BudgetReservation {
  readonly isAdmitted: true;
  /** What is reserved of the first budget of each unit; 0 without one. */
  readonly reserved: BudgetAmounts;
  /** Counts what was used instead; once. */
  settle(used: BudgetAmounts): void;
}

/** How much of a budget is used. */
export interface BudgetUsage {
  readonly used: number;
  readonly isExhausted: boolean;
  /** When it last began anew; undefined for never. */
  readonly lastResetAt: number | undefined;
  /** The present threshold is reached; false without one. */
  readonly isThresholdReached: boolean;
}

/** What is used of budgets. What is counted lives here and in a ledger behind it, never in a plugin: no reload and no restart resets it. */
export interface Budgets {
  /** How much of these budgets is used now. */
  usage(budget: Pick<Budget, 'key' | 'unit' | 'limit' | 'threshold' | 'period'>): BudgetUsage;
  /** Keys of budgets that begin so and have been used, with what is used of each: groups of a policy. */
  groups(prefix: string): readonly string[];
  /** Begins the count of a budget anew. Resolves with its epoch when the ledger holds it; rejects when it cannot be stored. */
  reset(key: string, organisationId: string): Promise<number>;
  /** Hands over that a limit which is counted elsewhere is reached, as `UsageAlerts.crossed`. */
  tell(crossing: UsageCrossing): void;
}

/** Begins the keys of crossings that belong to no budget: those of rate limits. */
export const rateCrossingPrefix = 'rate-limit:';

/** What a process knows of a budget now. Whole units. */
export interface BudgetCount {
  /** When its period began, or when it was last begun anew; the later one counts. */
  readonly epoch: number;
  readonly used: number;
  /**
   * What a request reserves of it that is expected to use this. Where nothing says what the request costs, what those
   * before it have cost; nothing without any.
   */
  amountFor(expected: ExpectedUse): number;
}

/**
 * Counts usage against budgets in this process. A request is admitted while every one of its budgets has something left,
 * and reserves what it will probably use, which may be more than is left: overshoot is at most what was under way when a
 * budget was exhausted.
 */
export interface LocalBudgets extends Budgets {
  /** False: everything is admitted, and nothing counted. */
  readonly enforces: boolean;
  /**
   * Reserves of all budgets, or of none: one atomic decision. `replicas` gateways decide alone at this time: this one
   * takes no more than its share of what was left when all were last known to have used something. Default 1.
   */
  reserve(
    budgets: readonly Budget[],
    expected: ExpectedUse,
    replicas?: number,
  ): BudgetReservation | BudgetRefusal;
  /** Reserves without a decision: a shared store, or the operator, has admitted the request. Whole units by budget. */
  hold(budgets: readonly Budget[], amounts: readonly number[]): BudgetReservation;
  /** What is known of a budget, in its present period. */
  countOf(budget: Budget): BudgetCount;
  /** The same as of all budgets; the new epoch is later than `after`. */
  reset(key: string, organisationId: string, after?: number): Promise<number>;
  /** All processes together have used so much, in whole units; less than what is known changes nothing. */
  learn(budget: Budget, epoch: number, used: number): void;
}

/** What a process has counted since it last said so. */
export interface UsageDelta {
  readonly key: string;
  readonly organisationId: string;
  /** When the period began, or when the count was last begun anew; the later one counts. Milliseconds since the epoch. */
  readonly epoch: number;
  /** Whole units: requests, tokens, or billionths of a US dollar. */
  readonly added: number;
  /** Since when requests are counted in this period, milliseconds since the epoch: a limit may be younger than its period. */
  readonly since: number;
}

/** What is counted by all processes. */
export interface UsageRow {
  readonly key: string;
  readonly organisationId: string;
  readonly epoch: number;
  readonly used: number;
  /** Since when requests are counted in this period: the earliest that was said. Undefined for not known. */
  readonly since: number | undefined;
  /** How often the count was corrected. */
  readonly corrections: number;
  /** The marks that were claimed last, by kind; empty for none. */
  readonly claimed: Readonly<Record<UsageCrossing['kind'], string>>;
}

/** What a count misses of a period. */
export interface UsageCorrection extends Pick<UsageRow, 'key' | 'epoch' | 'corrections'> {
  /** Whole units. */
  readonly added: number;
}

/** That somebody tells of a crossing: of each mark once. */
export interface AlertClaim extends Pick<UsageCrossing, 'key' | 'organisationId' | 'kind' | 'mark'> {
  /** The claimant: letters and digits. */
  readonly by: string;
}

/** Keeps usage over restarts, and brings the counts of several processes together. */
export interface UsageLedger {
  /** Other processes count in it too: it has to be read even when nothing was counted here. */
  readonly isShared: boolean;
  /**
   * Adds what was counted, and returns the rows that changed since `after` (an earlier `mark`; empty for all).
   * Rejects when nothing was stored.
   */
  exchange(
    deltas: readonly UsageDelta[],
    after: string,
  ): Promise<{ readonly rows: readonly UsageRow[]; readonly mark: string }>;
  /**
   * Adds what a count misses, unless its period is over or somebody has corrected it since it was read. Resolves with the
   * keys of those that were corrected.
   */
  correct(corrections: readonly UsageCorrection[]): Promise<ReadonlySet<string>>;
  /** True for the first one that claims this mark, also when it claims it again. Nothing need have been exchanged before. */
  claim(claim: AlertClaim): Promise<boolean>;
}

/** That usage has reached a threshold, or the limit itself. */
export interface UsageCrossing {
  /** The same crossing has the same id, on every gateway and after a restart. */
  readonly id: string;
  readonly kind: 'threshold' | 'exhausted';
  /** Of the budget. */
  readonly key: string;
  /** The period and the limits that it is about, digits and colons: others are another crossing. */
  readonly mark: string;
  readonly organisationId: string;
  /** Undefined for what belongs to the organisation as a whole. */
  readonly workspaceId: string | undefined;
  /** Whose usage it is. */
  readonly subject: {
    readonly type:
      'api_key' | 'workspace' | 'provider' | 'integration' | 'usage_limit_policy' | 'rate_limit_policy';
    readonly id: string;
    readonly name: string;
    /** Of a policy that counts by group: the group, such as `metadata._user=ann`. */
    readonly valueKey?: string;
  };
  readonly unit: 'cost' | 'tokens' | 'requests';
  readonly limit: number;
  /** Of a rate limit: its window. */
  readonly per?: RateLimit['unit'];
  /** Undefined when the limit has none. */
  readonly threshold: number | undefined;
  readonly used: number;
  /** When counting begins anew, milliseconds since the epoch; undefined for never. */
  readonly resetsAt: number | undefined;
  /** When it was crossed, milliseconds since the epoch. */
  readonly at: number;
  /** Of a key: its `alert_emails`, which are told besides. */
  readonly emails?: readonly string[];
}

/** Tells people and systems of crossings, as the block `alerts` of the configuration says. Without it nothing is told. */
export interface UsageAlerts {
  /**
   * Hands a crossing over. Never throws and never waits: it is stored and sent beside requests. The same one may come
   * several times, from every gateway and after a restart, until it is claimed: it is told once.
   */
  crossed(crossing: UsageCrossing): void;
}
