/** Unit of a budget. */
type BudgetUnit = UsageLimit['type'];

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
  /** Unique name of the count: `key:<organisation>:<id>`. */
  readonly key: string;
  readonly organisationId: string;
  readonly unit: BudgetUnit;
  /** US dollars, tokens or requests. */
  readonly limit: number;
  /** Usage at which an alert is sent, in the same unit. */
  readonly threshold: number | undefined;
  /** Start and end of the period that contains `at`. Milliseconds since the epoch; 0 and undefined without periods. */
  period(at: number): { readonly start: number; readonly end: number | undefined };
  readonly subject: BudgetSubject;
}

/** Amounts of one request, expected or used. Cost in US dollars. */
export type BudgetAmounts = Readonly<Record<BudgetUnit, number>>;

/** Expected usage of one request. */
export interface ExpectedUse {
  readonly tokens: number;
  /** US dollars; undefined when the price of its tokens is unknown. */
  readonly cost: number | undefined;
}

/** For a request without limits of tokens or dollars. */
export const nothingExpected: ExpectedUse = { tokens: 0, cost: undefined };

/** For a request that used nothing. */
export const nothingUsed: BudgetAmounts = { cost: 0, tokens: 0, requests: 0 };

/** Cost is counted in whole numbers of a billionth of a US dollar. */
const perDollar = 1e9;

/** An amount in whole units: requests, tokens, or billionths of a US dollar. NaN counts as nothing. */
export function wholeUnits(amount: number, unit: BudgetUnit): number {
  if (!Number.isFinite(amount)) return 0;
  return unit === 'cost' ? Math.round(amount * perDollar) : Math.ceil(amount);
}

/** Inverse of `wholeUnits`. */
export function shownUnits(amount: number, unit: BudgetUnit): number {
  return unit === 'cost' ? amount / perDollar : amount;
}

/** Whole units of a budget that a request is expected to use; undefined for a cost that is not known. */
export function expectedUnits(unit: BudgetUnit, { tokens, cost }: ExpectedUse): number | undefined {
  if (unit === 'requests') return 1;
  if (unit === 'tokens') return wholeUnits(tokens, unit);
  return cost === undefined ? undefined : wholeUnits(cost, unit);
}

/** Refusal of a request by a budget. */
export interface BudgetRefusal {
  readonly isAdmitted: false;
  readonly budget: Budget;
  /** False when requests in flight have reserved the rest. */
  readonly isExhausted: boolean;
  /** In the unit of the budget. */
  readonly used: number;
  /** Time of the next automatic reset; undefined for none. */
  readonly resetsAt: number | undefined;
}

/** Reservation of a request in flight. */
export interface BudgetReservation {
  readonly isAdmitted: true;
  /** Amount reserved in the first budget of each unit; 0 without one. */
  readonly reserved: BudgetAmounts;
  /** Replaces the reservation by the usage; call it once. */
  settle(used: BudgetAmounts): void;
}

/** Present usage of a budget. */
export interface BudgetUsage {
  readonly used: number;
  readonly isExhausted: boolean;
  /** Time of the last reset; undefined for never. */
  readonly lastResetAt: number | undefined;
  /** Usage has reached the present threshold; false without one. */
  readonly isThresholdReached: boolean;
}

/** Usage of budgets. Counts live here and in the ledger behind it, not in plugins: no reload and no restart resets them. */
export interface Budgets {
  /** Present usage of a budget. */
  usage(budget: Pick<Budget, 'key' | 'unit' | 'limit' | 'threshold' | 'period'>): BudgetUsage;
  /** Keys of used budgets with this prefix: the groups of a policy. */
  groups(prefix: string): readonly string[];
  /** Resets the count of a budget. Resolves with its epoch when the ledger has stored it; rejects when it cannot. */
  reset(key: string, organisationId: string): Promise<number>;
  /** Reports the crossing of a limit that is counted elsewhere, as `UsageAlerts.crossed`. */
  tell(crossing: UsageCrossing): void;
}

/** The same budgets, with another way to reset one. */
export function resettingBy(budgets: Budgets, reset: Budgets['reset']): Budgets {
  return {
    usage: (budget) => budgets.usage(budget),
    groups: (prefix) => budgets.groups(prefix),
    reset,
    tell: (crossing) => budgets.tell(crossing),
  };
}

/** Prefix of the keys of crossings of rate limits, which belong to no budget. */
export const rateCrossingPrefix = 'rate-limit:';

/** A process's present count of a budget. Whole units. */
export interface BudgetCount {
  /** Start of its period, or its last reset, whichever is later. */
  readonly epoch: number;
  readonly used: number;
  /**
   * Amount that a request with this expected usage reserves. When its cost is unknown: the cost of earlier requests, or
   * 0 without any.
   */
  amountFor(expected: ExpectedUse): number;
}

/**
 * Counts usage against budgets in this process. A request is admitted while something is left in every one of its
 * budgets. It reserves its expected usage, which may be more than is left: the overshoot is at most the usage of the
 * requests in flight when a budget is exhausted.
 */
export interface LocalBudgets extends Budgets {
  /** False: admits every request and counts nothing. */
  readonly enforces: boolean;
  /**
   * Reserves in all budgets, or in none: one atomic decision. `replicas` is the number of gateways that now decide
   * independently: this one takes at most its share of the amount that was left at the last shared count. Default 1.
   */
  reserve(
    budgets: readonly Budget[],
    expected: ExpectedUse,
    replicas?: number,
  ): BudgetReservation | BudgetRefusal;
  /** Reserves without a decision, because a shared store or the operator has admitted the request. Whole units by budget. */
  hold(budgets: readonly Budget[], amounts: readonly number[]): BudgetReservation;
  /** Count of a budget in its present period. */
  countOf(budget: Budget): BudgetCount;
  /** As `Budgets.reset`; the new epoch is later than `after`. */
  reset(key: string, organisationId: string, after?: number): Promise<number>;
  /** Takes over the usage of all processes together, in whole units; less than the present count changes nothing. */
  learn(budget: Budget, epoch: number, used: number): void;
}

/** Usage that a process has counted since its last exchange. */
export interface UsageDelta {
  readonly key: string;
  readonly organisationId: string;
  /** Start of the period, or the last reset, whichever is later. Milliseconds since the epoch. */
  readonly epoch: number;
  /** Whole units: requests, tokens, or billionths of a US dollar. */
  readonly added: number;
  /** Start of counting in this period, milliseconds since the epoch: a limit may be younger than its period. */
  readonly since: number;
}

/** Count of all processes together. */
export interface UsageRow {
  readonly key: string;
  readonly organisationId: string;
  readonly epoch: number;
  readonly used: number;
  /** Start of counting in this period: the earliest one reported. Undefined for not known. */
  readonly since: number | undefined;
  /** Number of corrections of the count. */
  readonly corrections: number;
  /** The last claimed mark of each kind; empty for none. */
  readonly claimed: Readonly<Record<UsageCrossing['kind'], string>>;
}

/** Usage that is missing in the count of a period. */
export interface UsageCorrection extends Pick<UsageRow, 'key' | 'epoch' | 'corrections'> {
  /** Whole units. */
  readonly added: number;
}

/** Claim to send the alert of a crossing; each mark is claimed once. */
export interface AlertClaim extends Pick<UsageCrossing, 'key' | 'organisationId' | 'kind' | 'mark'> {
  /** The claimant: letters and digits. */
  readonly by: string;
}

/** Keeps usage over restarts, and merges the counts of several processes. */
export interface UsageLedger {
  /** Other processes write to it too: this one must read it even when it has counted nothing. */
  readonly isShared: boolean;
  /**
   * Adds the deltas, and returns the rows that changed since `after` (an earlier `mark`; empty for all).
   * Rejects when nothing was stored.
   */
  exchange(
    deltas: readonly UsageDelta[],
    after: string,
  ): Promise<{ readonly rows: readonly UsageRow[]; readonly mark: string }>;
  /**
   * Adds missing usage to counts, unless the period is over or the count was corrected since it was read. Resolves with
   * the keys that it corrected.
   */
  correct(corrections: readonly UsageCorrection[]): Promise<ReadonlySet<string>>;
  /** True for the first claimant of this mark, also when it claims it again. Needs no exchange before. */
  claim(claim: AlertClaim): Promise<boolean>;
}

/** The event that usage reaches a threshold, or the limit itself. */
export interface UsageCrossing {
  /** Stable: the same crossing has the same id on every gateway and after a restart. */
  readonly id: string;
  readonly kind: 'threshold' | 'exhausted';
  /** Of the budget. */
  readonly key: string;
  /** Period and limits, as digits and colons: a different mark is a different crossing. */
  readonly mark: string;
  readonly organisationId: string;
  /** Undefined for a subject of the whole organisation. */
  readonly workspaceId: string | undefined;
  /** Record whose usage crossed. */
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
  /** Time of the next reset, milliseconds since the epoch; undefined for never. */
  readonly resetsAt: number | undefined;
  /** Time of the crossing, milliseconds since the epoch. */
  readonly at: number;
  /** Of a key: its `alert_emails`, as additional recipients. */
  readonly emails?: readonly string[];
}

/** Sends alerts of crossings, as the block `alerts` of the configuration says. Without the block it sends none. */
export interface UsageAlerts {
  /**
   * Queues the alert of a crossing. Never throws and never waits: the alert is stored and sent in the background. The
   * same crossing may be passed several times, from every gateway and after a restart; its alert is sent once.
   */
  crossed(crossing: UsageCrossing): void;
}

/** Upper bound of usage in US dollars, tokens or requests. */
export interface UsageLimit {
  readonly type: 'cost' | 'tokens' | 'requests';
  readonly creditLimit: number;
  readonly alertThreshold?: number;
  readonly periodicReset?: 'monthly' | 'weekly';
  /** 1 to 365; instead of `periodicReset`. */
  readonly periodicResetDays?: number;
  readonly nextResetAt?: number;
}

/** A usage limit as the request path sees it. */
export interface OwnedUsageLimit {
  readonly limit: UsageLimit;
  /** Creation time of its record, milliseconds since the epoch: periods of `periodicResetDays` count from it. */
  readonly createdAt: number;
  /** Addresses that the record names for alerts. */
  readonly emails?: readonly string[];
}

export interface RateLimit {
  readonly type: 'requests' | 'tokens';
  /** Per second, minute, hour, day, week. */
  readonly unit: 'rps' | 'rpm' | 'rph' | 'rpd' | 'rpw';
  readonly value: number;
}

/** Budgets of which a part can be lent. Whole units. See `LendableWindows`. */
export interface LendableBudgets {
  /** Amount that is neither used nor reserved nor lent. 0 where budgets are not enforced. */
  leftOf(budget: Budget): number;
  /** Lends: the amount is reserved. */
  lend(budget: Budget, amount: number): void;
  /** Ends a part of a loan, with what `requests` settled requests have used together; 0 requests: nothing is learnt. */
  repay(budget: Budget, amount: number, used: number, requests: number): void;
}
