import { GatewayError } from '../errors/gateway-error.ts';
import type { Counters, Decision, OnStoreFailure, Window } from '../ports/counters.ts';
import type { RateLimit } from '../ports/limits.ts';

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

/** The length of a limit's window in milliseconds. */
export function windowMsOf(unit: RateLimit['unit']): number {
  return lengths[unit];
}

/** A limit in words, for refusals: `100 requests per minute`. */
export function limitWords({ type, unit, value }: RateLimit): string {
  return `${value} ${value === 1 ? type.slice(0, -1) : type} per ${periods[unit]}`;
}

/** Windows that one request is counted in with the same amount, and what they limit. */
class LimitCharge {
  readonly windows: Window[] = [];
  /** For refusals, by window: `The rate limit of the key "ours" (100 requests per minute)`. */
  readonly words: string[] = [];

  /** Counts in this window as well. */
  add(window: Window, words: string): void {
    this.windows.push(window);
    this.words.push(words);
  }

  /** The smallest limit: more at once fits into none of the windows. */
  get smallest(): number {
    let least = Infinity;
    for (const { limit } of this.windows) if (limit < least) least = limit;
    return least;
  }
}

/** Whose limits they are. */
interface LimitOwner {
  /** Of the counters, unique: `key:<id>`. */
  readonly prefix: string;
  readonly organisationId: string;
  /** As refusals call it: `key "ours"`. */
  readonly name: string;
}

/** The limit without what makes a sentence of it: `key "ours" (100 requests per minute)`. */
export function limitName(words: string): string {
  return words.replace(/^The (?:rate limit of the )?/, '');
}

/** Everything that one request is counted in. */
export class LimitCharges {
  /** Undefined when nothing limits requests. */
  requests: LimitCharge | undefined;
  /** Undefined when nothing limits tokens. */
  tokens: LimitCharge | undefined;

  /** Counts in this window as well. */
  add(type: RateLimit['type'], window: Window, words: string): void {
    if (type === 'requests') (this.requests ??= new LimitCharge()).add(window, words);
    else (this.tokens ??= new LimitCharge()).add(window, words);
  }

  /** Counts by the limits of a record as well. A changed value goes on counting where the old one was. */
  addLimits(limits: readonly RateLimit[], { prefix, organisationId: group, name }: LimitOwner): void {
    for (const limit of limits) {
      const { type, unit, value } = limit;
      const key = `${prefix}:${type}:${unit}`;
      const words = `The rate limit of the ${name} (${limitWords(limit)})`;
      this.add(type, { key, group, limit: value, windowMs: windowMsOf(unit) }, words);
    }
  }

  /** Counts in everything of the other ones as well. */
  addAll({ requests, tokens }: LimitCharges): void {
    addTo('requests', this, requests);
    addTo('tokens', this, tokens);
  }
}

function addTo(type: RateLimit['type'], charges: LimitCharges, added: LimitCharge | undefined): void {
  for (const [index, window] of added?.windows.entries() ?? [])
    charges.add(type, window, added?.words[index] ?? '');
}

/** Tokens that were taken for a request whose use is not known yet. */
export class TokenReservation {
  readonly tokens: number;
  readonly #counters: Counters;
  readonly #windows: readonly Window[];

  constructor(counters: Counters, windows: readonly Window[], tokens: number) {
    this.#counters = counters;
    this.#windows = windows;
    this.tokens = tokens;
  }

  /** Counts what was used instead of what was taken; once, when it is known. What is no number changes nothing. */
  settle(used: number): void | Promise<void> {
    const difference = used - this.tokens;
    if (difference === 0 || !Number.isFinite(difference)) return undefined;
    return this.#counters.adjust(this.#windows, difference);
  }
}

/** How a request is counted. */
interface LimitTaking {
  readonly counters: Counters;
  /** What it will probably use; looked at only where tokens are limited. */
  readonly tokens: number;
  /** Default `local`. */
  readonly onStoreFailure?: OnStoreFailure | undefined;
  /** Of refusals. */
  readonly code: 'rate_limited' | 'provider_rate_limited';
}

/**
 * Counts one request, and takes the tokens that it will probably use until that is known: at most what would fit into an
 * empty window. Throws, or rejects with, a `GatewayError` of the code when a limit is used up, and has counted nothing
 * then. A promise only where the counters answer with one.
 */
export function takeCharges(
  charges: LimitCharges,
  taking: LimitTaking,
): TokenReservation | undefined | Promise<TokenReservation | undefined> {
  const { requests } = charges;
  if (requests === undefined) return reserve(charges, taking);
  const decision = taking.counters.take(requests.windows, 1, taking.onStoreFailure);
  if ('then' in decision)
    return decision.then((decided) => afterRequests(decided, requests, charges, taking));
  return afterRequests(decision, requests, charges, taking);
}

function afterRequests(
  decision: Decision,
  requests: LimitCharge,
  charges: LimitCharges,
  taking: LimitTaking,
): ReturnType<typeof takeCharges> {
  if (!decision.allowed) throw refusal(decision, requests, taking);
  return reserve(charges, taking);
}

function reserve(charges: LimitCharges, taking: LimitTaking): ReturnType<typeof takeCharges> {
  const { tokens } = charges;
  if (tokens === undefined) return undefined;
  const amount = Math.max(1, Math.min(taking.tokens, tokens.smallest));
  const decision = taking.counters.take(tokens.windows, amount, taking.onStoreFailure);
  const reservation = new TokenReservation(taking.counters, tokens.windows, amount);
  if ('then' in decision)
    return decision.then((decided) => afterTokens(decided, reservation, charges, taking));
  return afterTokens(decision, reservation, charges, taking);
}

function afterTokens(
  decision: Decision,
  reservation: TokenReservation,
  { requests, tokens }: LimitCharges,
  taking: LimitTaking,
): ReturnType<typeof takeCharges> {
  // A store that is away and lets everything through has counted nothing.
  if (decision.allowed) return decision.windows.length > 0 ? reservation : undefined;
  const refused = refusal(decision, tokens as LimitCharge, taking);
  // What was refused counts nowhere.
  const returned = requests === undefined ? undefined : taking.counters.adjust(requests.windows, -1);
  if (returned === undefined) throw refused;
  return returned.then(() => {
    throw refused;
  });
}

function refusal(
  { refusedBy, windows }: Decision,
  { words }: LimitCharge,
  { code }: LimitTaking,
): GatewayError {
  const state = windows[refusedBy];
  // With something left, though not enough: a part of the window is the soonest that more is.
  const waitMs = state === undefined ? 0 : state.resetMs || state.windowMs / 60;
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  const remedy =
    state !== undefined && state.limit < 1
      ? 'lets nothing through. Ask for a higher one.'
      : `is used up. Try again in ${seconds} s.`;
  const limit = words[refusedBy] ?? 'A rate limit';
  return new GatewayError(code, `${limit} ${remedy}`, {
    limit: limitName(limit),
    headers: ['retry-after', String(seconds)],
  });
}
