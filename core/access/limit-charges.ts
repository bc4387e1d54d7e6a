import { GatewayError } from '../errors/gateway-error.ts';
import type {
  Budget,
  BudgetRefusal,
  BudgetSubject,
  ExpectedUse,
  OwnedUsageLimit,
  RateLimit,
  UsageLimit,
} from '../ports/budgets.ts';
import type {
  Admission,
  Charges,
  Limiter,
  LimitReservation,
  OnStoreFailure,
  Window,
  WindowRefusal,
} from '../ports/counters.ts';
import type { StoredRecord } from '../ports/records.ts';
import { budgetPeriod } from './budget-period.ts';

const lengths: Readonly<Record<RateLimit['unit'], number>> = {
  rps: 1000,
  rpm: 60_000,
  rph: 3_600_000,
  rpd: 86_400_000,
  rpw: 604_800_000,
};

const periods: Readonly<Record<RateLimit['unit'], string>> = {
  rps: 'second',
  rpm: 'minute',
  rph: 'hour',
  rpd: '24 hours',
  rpw: '7 days',
};

/** Length of a limit's window in milliseconds. */
export function windowMsOf(unit: RateLimit['unit']): number {
  return lengths[unit];
}

/** A limit in words, for refusals: `100 requests per minute`. */
export function limitWords({ type, unit, value }: RateLimit): string {
  return `${value} ${value === 1 ? type.slice(0, -1) : type} per ${periods[unit]}`;
}

/** Windows that count the same amount of one request, and their limits. */
class LimitCharge {
  readonly windows: Window[] = [];
  /** For refusals, by window: `The rate limit of the key "ours" (100 requests per minute)`. */
  readonly words: string[] = [];
  smallest = Infinity;

  /** Counts in this window too. */
  add(window: Window, words: string): void {
    this.windows.push(window);
    this.words.push(words);
    if (window.limit < this.smallest) this.smallest = window.limit;
  }
}

/** Owner of limits. */
interface LimitOwner {
  /** Unique prefix of the counters: `key:<id>`. */
  readonly prefix: string;
  readonly organisationId: string;
  /** Name in refusals: `key "ours"`. */
  readonly name: string;
}

/** Name of the limit without the sentence around it: `key "ours" (100 requests per minute)`. */
export function limitName(words: string): string {
  return words.replace(/^The (?:rate limit of the )?/, '');
}

/** Everything that counts one request. */
export class LimitCharges implements Charges {
  /** Undefined without a limit of requests. */
  requests: LimitCharge | undefined;
  /** Undefined without a limit of tokens. */
  tokens: LimitCharge | undefined;
  /** Undefined without a usage limit. */
  budgets: Budget[] | undefined;
  /** Whether expected tokens matter. */
  needsTokens = false;
  /** Whether the expected cost matters. */
  needsCost = false;

  /** Counts in this window too. */
  add(type: RateLimit['type'], window: Window, words: string): void {
    if (type === 'requests') (this.requests ??= new LimitCharge()).add(window, words);
    else {
      this.needsTokens = true;
      (this.tokens ??= new LimitCharge()).add(window, words);
    }
  }

  /** Counts against the rate limits of a record too. A changed value keeps the counter of the old one. */
  addLimits(limits: readonly RateLimit[], { prefix, organisationId: group, name }: LimitOwner): void {
    for (const limit of limits) {
      const { type, unit, value } = limit;
      const key = `${prefix}:${type}:${unit}`;
      const words = `The rate limit of the ${name} (${limitWords(limit)})`;
      this.add(type, { key, group, limit: value, windowMs: windowMsOf(unit) }, words);
    }
  }

  /** Counts against this usage limit too. */
  addBudget(budget: Budget): void {
    if (budget.unit === 'tokens') this.needsTokens = true;
    if (budget.unit === 'cost') this.needsCost = true;
    (this.budgets ??= []).push(budget);
  }

  /** Counts against the usage limits of a record too, whose counters begin with `prefix`. */
  addUsageLimits(
    limits: readonly OwnedUsageLimit[],
    prefix: string,
    organisationId: string,
    subject: BudgetSubject,
  ): void {
    for (const { limit, createdAt, emails } of limits) {
      const of = emails === undefined || emails.length === 0 ? subject : { ...subject, emails };
      this.addBudget(
        budgetOf(limit, { key: usageLimitKey(prefix, limit), organisationId, createdAt, subject: of }),
      );
    }
  }

  /** Counts in everything of the other charges too. */
  addAll({ requests, tokens, budgets }: Pick<LimitCharges, 'requests' | 'tokens' | 'budgets'>): void {
    addTo('requests', this, requests);
    addTo('tokens', this, tokens);
    for (const budget of budgets ?? []) this.addBudget(budget);
  }
}

/** Bound of cached charges with the limiter's preparation for each: a few kilobytes. */
const maxRemembered = 4000;

/**
 * Charges with one more window or budget, each made once, so that the limiter's preparation serves later requests.
 * Charges that were extended must not change any more.
 */
export class LargerCharges {
  #larger = new WeakMap<LimitCharges, Map<Window | Budget, LimitCharges>>();
  #remembered = 0;

  /** With this window, which belongs to one list only. */
  withWindow(charges: LimitCharges, type: RateLimit['type'], window: Window, words: string): LimitCharges {
    const known = this.#larger.get(charges)?.get(window);
    if (known !== undefined) return known;
    const larger = this.#begin(charges, window);
    larger.add(type, window, words);
    return larger;
  }

  /** With this usage limit. */
  withBudget(charges: LimitCharges, budget: Budget): LimitCharges {
    const known = this.#larger.get(charges)?.get(budget);
    if (known !== undefined) return known;
    const larger = this.#begin(charges, budget);
    larger.addBudget(budget);
    return larger;
  }

  #begin(charges: LimitCharges, by: Window | Budget): LimitCharges {
    if (this.#remembered >= maxRemembered) {
      this.#larger = new WeakMap();
      this.#remembered = 0;
    }
    this.#remembered += 1;
    let larger = this.#larger.get(charges);
    if (larger === undefined) this.#larger.set(charges, (larger = new Map<Window | Budget, LimitCharges>()));
    const made = new LimitCharges();
    made.addAll(charges);
    larger.set(by, made);
    return made;
  }
}

function addTo(type: RateLimit['type'], charges: LimitCharges, added: LimitCharge | undefined): void {
  for (const [index, window] of added?.windows.entries() ?? [])
    charges.add(type, window, added?.words[index] ?? '');
}

/** Prefix of the budget keys of a service key; the unit follows. */
export function keyBudgetKey(organisationId: string, id: string): string {
  return `key:${organisationId}:${id}`;
}

/** The same for a workspace. */
export function workspaceBudgetKey(organisationId: string, id: string): string {
  return `workspace:${organisationId}:${id}`;
}

/** The same for a provider. */
export function providerBudgetKey(organisationId: string, id: string): string {
  return `provider:${organisationId}:${id}`;
}

/** The same for a workspace's access to an integration. */
export function integrationBudgetKey(organisationId: string, id: string, workspaceId: string): string {
  return `integration:${organisationId}:${id}:${workspaceId}`;
}

/** Budget key of one usage limit of a record: limits with other periods count separately. */
export function usageLimitKey(prefix: string, limit: UsageLimit): string {
  const { type, periodicReset, periodicResetDays: days } = limit;
  const period = periodicReset ?? (days === undefined ? '' : `${days}d`);
  return period === '' ? `${prefix}:${type}` : `${prefix}:${type}:${period}`;
}

/** Budget of a usage limit. */
function budgetOf(
  limit: UsageLimit,
  of: Pick<Budget, 'key' | 'organisationId' | 'subject'> & { readonly createdAt: number },
): Budget {
  return {
    key: of.key,
    organisationId: of.organisationId,
    unit: limit.type,
    limit: limit.creditLimit,
    threshold: limit.alertThreshold,
    period: budgetPeriod(limit, of.createdAt),
    subject: of.subject,
  };
}

/** Prefix of the budget keys of a usage-limit policy. */
export function policyBudgetPrefix({ organisationId, id }: StoredRecord<'usage_limit_policy'>): string {
  return `policy:${organisationId}:${id}:`;
}

/** Budget of one group (`metadata._user:alice`) of a usage-limit policy. */
export function budgetOfPolicy(policy: StoredRecord<'usage_limit_policy'>, valueKey: string): Budget {
  const { organisationId, workspaceId, id, name, createdAt, data } = policy;
  const { type, creditLimit, alertThreshold, periodicReset, periodicResetDays, nextResetAt } = data;
  return {
    key: policyBudgetPrefix(policy) + valueKey,
    organisationId,
    unit: type,
    limit: creditLimit,
    threshold: alertThreshold,
    period: budgetPeriod({ periodicReset, periodicResetDays, nextResetAt }, createdAt),
    subject: { type: 'usage_limit_policy', id, name, workspaceId, valueKey },
  };
}

/** Options of counting a request. */
interface LimitTaking {
  readonly limiter: Limiter;
  /** Estimated use; needed only where tokens or dollars are limited. */
  readonly expected: ExpectedUse;
  /** Default `local`. */
  readonly onStoreFailure?: OnStoreFailure | undefined;
  /** Error code of refusals. */
  readonly code: 'rate_limited' | 'provider_rate_limited';
  /** Called with the refusing window before the refusal. */
  readonly refusedBy?: ((window: Window) => void) | undefined;
}

type Taken = LimitReservation | undefined;

/**
 * Counts one request and reserves its estimated use until the actual use is known; for windows, at most what fits into
 * an empty one. Throws or rejects with a `GatewayError` when a limit is used up, and then counts nothing: with `code`
 * for rate limits, `budget_exhausted` or `provider_budget_exhausted` for usage limits. Returns a promise only where the
 * limiter does.
 */
export function takeCharges(charges: LimitCharges, taking: LimitTaking): Taken | Promise<Taken> {
  const admission = taking.limiter.admit(charges, taking.expected, taking.onStoreFailure);
  if (admission === undefined || !('then' in admission)) return taken(admission, charges, taking);
  return admission.then((decided) => taken(decided, charges, taking));
}

function taken(admission: Admission, charges: LimitCharges, taking: LimitTaking): Taken {
  if (admission === undefined || admission.isAdmitted) return admission;
  if ('budget' in admission) throw budgetRefusal(admission, taking);
  const window = charges[admission.list]?.windows[admission.index];
  if (window !== undefined) taking.refusedBy?.(window);
  throw windowRefusal(admission, charges, taking);
}

const subjects: Readonly<Record<BudgetSubject['type'], string>> = {
  api_key: 'key',
  workspace: 'workspace',
  provider: 'provider',
  integration: 'integration',
  usage_limit_policy: 'usage-limit policy',
};

/** An amount in words: `$0.5`, `1 token`. */
function amountWords(amount: number, unit: Budget['unit']): string {
  if (unit === 'cost') return `$${amount}`;
  return `${amount} ${amount === 1 ? unit.slice(0, -1) : unit}`;
}

function budgetRefusal(
  { budget, isExhausted, used, resetsAt }: BudgetRefusal,
  { code }: LimitTaking,
): GatewayError {
  const { subject, unit, limit } = budget;
  const group = subject.valueKey === undefined ? '' : ` for ${subject.valueKey}`;
  const owner = `${subjects[subject.type]} ${JSON.stringify(subject.name)}`;
  const name = `${owner}${group} (${amountWords(limit, unit)})`;
  const ofProvider = code === 'provider_rate_limited';
  if (!isExhausted)
    return new GatewayError(
      code,
      `Requests under way have reserved what is left of the usage limit of the ${name}. Try again in 1 s.`,
      { limit: name, headers: ['retry-after', '1'] },
    );
  const anew =
    resetsAt === undefined
      ? 'Raise the limit, or reset its usage.'
      : `It begins anew at ${new Date(resetsAt).toISOString()}; until then, raise the limit or reset its usage.`;
  return new GatewayError(
    ofProvider ? 'provider_budget_exhausted' : 'budget_exhausted',
    `The usage limit of the ${name} is exhausted: ${amountWords(used, unit)} used. ${anew}`,
    { limit: name },
  );
}

function windowRefusal(
  { list, index, window }: WindowRefusal,
  charges: LimitCharges,
  { code }: LimitTaking,
): GatewayError {
  // Something is left, but not enough: a fraction of the window is the earliest moment for more.
  const waitMs = window.resetMs || window.windowMs / 60;
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  const remedy =
    window.limit < 1
      ? 'lets nothing through. Ask for a higher one.'
      : `is used up. Try again in ${seconds} s.`;
  const limit = charges[list]?.words[index] ?? 'A rate limit';
  return new GatewayError(code, `${limit} ${remedy}`, {
    limit: limitName(limit),
    headers: [
      'retry-after',
      String(seconds),
      // OpenAI's header names, which its clients parse.
      `x-ratelimit-limit-${list}`,
      String(window.limit),
      `x-ratelimit-remaining-${list}`,
      String(window.remaining),
      `x-ratelimit-reset-${list}`,
      `${seconds}s`,
    ],
  });
}
