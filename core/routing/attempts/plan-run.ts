import { GatewayError } from '../../errors/gateway-error.ts';
import { asGatewayError } from '../../pipeline/settle.ts';
import { type Answer, clientLeft, isStreamSource } from '../../pipeline/answer.ts';
import { isPromise } from '../../base/turns.ts';
import type { MaybePromise } from '../../pipeline/context.ts';
import type { Exchange } from '../../pipeline/exchange.ts';
import type { AttemptRecord } from '../../pipeline/facts.ts';
import type { RouteOptions, Target, AttemptOptions } from '../../pipeline/router.ts';
import { sentUsage } from '../../pipeline/estimated-usage.ts';
import { type PlanStep, RequestEnvironment, type SharedEnvironment } from '../plan/environment.ts';
import type { CompiledConfig, PlanLeaf } from '../plan/plan-node.ts';
import { PlanWalk } from '../plan/plan-walk.ts';
import { runAttempt, settleTargetLimits, type AttemptSetup } from '../attempt.ts';
import { type BudgetAmounts, nothingUsed } from '../../ports/budgets.ts';
import { type AttemptParts, CurrentAttempt } from '../upstream-request.ts';
import { retryDelay } from './attempt-times.ts';
import type { BreakerAttempt } from '../../base/breaker.ts';
import type { AttemptOutcome, Breakers } from './breakers.ts';
import type { Clock } from '../../ports/clock.ts';

/** One of the concurrent attempts. */
export interface Contender {
  readonly leaf: PlanLeaf;
  readonly fork: Exchange;
  readonly startedAt: number;
  /** Never rejects. */
  readonly result: Promise<TargetResult>;
}

interface RaceSetup {
  readonly clock: Clock;
  /** Time without an answer from the latest attempt after which the next one starts beside it. */
  readonly afterMs: number;
  start(leaf: PlanLeaf): Contender;
  /** Called for an answer that arrives after the end of the race. */
  tooLate(result: TargetResult): void;
}

interface RaceResult {
  readonly winner: TargetResult;
  /** The aborted attempts. */
  readonly losers: readonly Contender[];
  /** All attempts of the race. */
  readonly started: readonly Contender[];
}

/** Reason for the abort of the attempts that lost. */
const lostRace = new GatewayError('client_closed', 'Another attempt answered first.');

/**
 * Starts the first target, and each of the others when the earlier ones have not answered within `afterMs` or have all
 * failed. The first good answer or final failure wins; else the last failure.
 */
export function race(leaves: readonly PlanLeaf[], setup: RaceSetup): Promise<RaceResult> {
  return new Promise((resolve) => new Race(leaves, setup, resolve).next());
}

class Race {
  private readonly leaves: readonly PlanLeaf[];
  private readonly setup: RaceSetup;
  private readonly resolve: (result: RaceResult) => void;
  private readonly started: Contender[] = [];
  private readonly running = new Set<Contender>();
  private stopTimer: (() => void) | undefined;
  private over = false;

  constructor(leaves: readonly PlanLeaf[], setup: RaceSetup, resolve: (result: RaceResult) => void) {
    this.leaves = leaves;
    this.setup = setup;
    this.resolve = resolve;
  }

  next(): void {
    this.stopTimer?.();
    const { leaves, started, setup } = this;
    const contender = setup.start(leaves[started.length] as PlanLeaf);
    started.push(contender);
    this.running.add(contender);
    void contender.result.then((result) => this.ended(contender, result));
    if (started.length < leaves.length) this.stopTimer = setup.clock.after(setup.afterMs, () => this.next());
  }

  private ended(contender: Contender, result: TargetResult): void {
    this.running.delete(contender);
    if (this.over) return this.setup.tooLate(result);
    const isGood = result.status >= 200 && result.status <= 299;
    if (isGood || result.final) return this.finish(result);
    if (this.started.length < this.leaves.length) this.next();
    else if (this.running.size === 0) this.finish(result);
  }

  private finish(winner: TargetResult): void {
    this.over = true;
    this.stopTimer?.();
    const losers = [...this.running];
    this.resolve({ winner, losers, started: this.started });
    for (const { fork } of losers) {
      fork.failure = lostRace;
      fork.abort();
    }
  }
}

/** Result of the attempts at one target: an answer or an error. */
interface TargetResult {
  readonly exchange: Exchange;
  readonly leaf: PlanLeaf;
  /** Status that a client would see. */
  readonly status: number;
  /** True when another target cannot do better. */
  readonly final: boolean;
  readonly answer: Answer | undefined;
  readonly error: GatewayError | undefined;
}

/** Dependencies of plan runs; one per generation. */
export interface PlanRunSetup extends AttemptSetup, SharedEnvironment {
  readonly breakers: Breakers;
  /** Prefix of service keys. */
  readonly keyPrefix: string;
  /** Builds the target. Throws the error that prevents it. */
  targetOf(exchange: Exchange, leaf: PlanLeaf, place: TargetPlace): MaybePromise<Target>;
  /** The options, overridden by the target's settings and the request's headers. */
  optionsOf(exchange: Exchange, leaf: PlanLeaf, options: RouteOptions): AttemptOptions;
}

/** Context of a target. */
export interface TargetPlace {
  readonly config: CompiledConfig;
  readonly options: RouteOptions;
}

/** Upper bound of recorded attempts of one request. */
const maxRecords = 64;

/** The attempt loop of requests with a config: target after target, each with the retries of its settings. */
export class PlanRun {
  private readonly exchange: Exchange;
  private readonly config: CompiledConfig;
  private readonly options: RouteOptions;
  private readonly setup: PlanRunSetup;
  /** The path before any attempt put another model into it. */
  private readonly path: string;
  /** Whether the body can be sent more than once. */
  private readonly repeatable: boolean;

  /** A body that is not in memory by now is streamed, so it can be sent only once. */
  constructor(exchange: Exchange, config: CompiledConfig, options: RouteOptions, setup: PlanRunSetup) {
    this.exchange = exchange;
    this.config = config;
    this.options = options;
    this.setup = setup;
    this.path = exchange.path;
    this.repeatable = exchange.upgrade === undefined && (exchange.body.loaded || !exchange.body.present);
  }

  /** The answer of the last attempt. Throws that attempt's failure, and synchronously the errors of the plan. */
  run(): Promise<Answer> {
    const { exchange, config, setup } = this;
    const walk = new PlanWalk(config.root, new RequestEnvironment(exchange, setup, exchange.trace));
    return this.take(walk, walk.first());
  }

  /**
   * Takes this step and continues from its result. Not an async function, and with the usual attempt inlined: each
   * frame, closure and promise in between costs time (2 µs by `npm run bench -- --only plan`).
   */
  private take(walk: PlanWalk, { leaf, hedge }: PlanStep): Promise<Answer> {
    const { exchange } = this;
    let taken: Promise<TargetResult>;
    if (hedge !== undefined && this.repeatable) taken = this.race(leaf, hedge);
    else if (leaf.settings.retry !== undefined) taken = this.withRetries(exchange, leaf);
    else {
      const opening = this.open(exchange, leaf);
      return this.send(opening).then(
        (answer) => this.goOn(walk, this.ended(opening, answer, undefined)),
        (thrown: unknown) => this.goOn(walk, this.ended(opening, undefined, asGatewayError(thrown))),
      );
    }
    return taken.then((result) => this.goOn(walk, result));
  }

  /** Continues after an attempt with another one or with its answer. */
  private goOn(walk: PlanWalk, last: TargetResult): MaybePromise<Answer> {
    const step = this.repeatable ? walk.next(last) : undefined;
    if (step !== undefined) {
      this.lose(last);
      return this.take(walk, step);
    }
    this.exchange.facts.option = last.leaf.path;
    if (last.answer !== undefined) return last.answer;
    throw last.error as GatewayError;
  }

  /** Tries one target until it succeeds, its retries are used up, or its failure is not retryable. */
  private async withRetries(exchange: Exchange, leaf: PlanLeaf): Promise<TargetResult> {
    const { runtime, random } = this.setup;
    const { retry } = leaf.settings;
    let waitedMs = 0;
    for (let made = 0; ; made++) {
      const result = await this.attempt(exchange, leaf);
      const { status, final, answer, error } = result;
      // A limit of the gateway itself: a retry before there is room would send nothing.
      const isLimited = error !== undefined && isTargetExhausted(error);
      const isWanted = retry?.onStatusCodes.has(status) === true && !final && !isLimited;
      let delay: number | undefined;
      if (isWanted && this.repeatable && !exchange.aborted) {
        const headers = answer?.headers ?? error?.headers ?? [];
        const now = runtime.clock.now();
        delay = retryDelay(retry, { retry: made, status, headers, waitedMs, now }, random);
      }
      if (delay === undefined) {
        const isGood = status >= 200 && status <= 299;
        exchange.facts.retries = isWanted || (made > 0 && !isGood) ? -1 : made;
        return result;
      }
      this.lose(result);
      waitedMs += delay;
      const left = await pause(exchange, delay, runtime.clock);
      if (left !== undefined)
        return { exchange, leaf, status: left.status, final: true, answer: undefined, error: left };
    }
  }

  private async attempt(exchange: Exchange, leaf: PlanLeaf): Promise<TargetResult> {
    const opening = this.open(exchange, leaf);
    try {
      return this.ended(opening, await this.send(opening), undefined);
    } catch (thrown) {
      return this.ended(opening, undefined, asGatewayError(thrown));
    }
  }

  private open(exchange: Exchange, leaf: PlanLeaf): Opening {
    const { breakers } = this.setup;
    const { facts } = exchange;
    exchange.path = this.path;
    facts.upstreamStartedAt = 0;
    facts.retries = 0;
    return { exchange, leaf, watched: breakers.begin(leaf, facts.organisationId), startedAt: this.now() };
  }

  /** Rejects with the error that prevents the target or the attempt. */
  private send({ exchange, leaf }: Opening): Promise<Answer> {
    const { setup, options, config } = this;
    try {
      const target = setup.targetOf(exchange, leaf, { config, options });
      if (isPromise(target)) return target.then((found) => this.sendTo(found, exchange, leaf));
      return this.sendTo(target, exchange, leaf);
    } catch (thrown) {
      return Promise.reject(asGatewayError(thrown));
    }
  }

  private sendTo(target: Target, exchange: Exchange, leaf: PlanLeaf): Promise<Answer> {
    const { setup, options } = this;
    const { params, cache, guardrails } = leaf.settings;
    const parts: AttemptParts = {
      exchange,
      target,
      options: setup.optionsOf(exchange, leaf, options),
      keyPrefix: setup.keyPrefix,
      params,
      cache,
      guardrails,
      judged: this.judges(leaf),
    };
    return runAttempt(parts, setup);
  }

  private ended(
    { exchange, leaf, watched, startedAt }: Opening,
    answer: Answer | undefined,
    error: GatewayError | undefined,
  ): TargetResult {
    const status = answer?.status ?? (error as GatewayError).status;
    const result = { exchange, leaf, status, final: error !== undefined && isFinal(error), answer, error };
    // Unsent and abandoned attempts do not count as failures.
    const counts = exchange.facts.upstreamStartedAt !== 0 && exchange.failure !== lostRace;
    watched?.end(counts ? { status } : 'abandoned');
    if (exchange.reservation !== undefined) this.giveBack(exchange, status);
    this.learn(result, startedAt);
    return result;
  }

  /** A failed attempt has used no tokens; an aborted one has used at least the tokens that it sent. */
  private giveBack(exchange: Exchange, status: number): void {
    const isLost = exchange.failure === lostRace && exchange.facts.upstreamStartedAt !== 0;
    if (isLost) settleTargetLimits(exchange, leastUsed(exchange));
    else if (status < 200 || status > 299) settleTargetLimits(exchange, { ...nothingUsed, requests: 1 });
  }

  /** Whether a stream is held until its first event, because another attempt could replace it. */
  private judges(leaf: PlanLeaf): boolean {
    if (!this.repeatable) return false;
    const { retry } = leaf.settings;
    return this.config.leaves.length > 1 || leaf.hedge !== undefined || (retry?.attempts ?? 0) > 0;
  }

  /** Records the result of an attempt for latencies and the log. */
  private learn({ exchange, leaf, status, error }: TargetResult, startedAt: number): void {
    const { state } = this.setup;
    const { facts } = exchange;
    if (exchange.failure === lostRace) return;
    if (error?.limit !== undefined) this.passOver(error.limit);
    if (this.config.ranksByLatency && facts.upstreamStartedAt !== 0 && status !== 499) {
      if (status >= 500 || error !== undefined) state.recordFailure(leaf.id);
      else state.recordLatency(leaf.id, (facts.firstByteAt || this.now()) - facts.upstreamStartedAt);
    }
    // For a request that its first attempt served, the facts hold everything already.
    const { trace, facts: kept } = this.exchange;
    const isFirst = exchange === this.exchange && kept.attemptRecords.length === 0;
    if (status === 200 && error === undefined && trace === undefined && isFirst) return;
    const skipped = error !== undefined && isTargetExhausted(error) ? error.message : undefined;
    const note = { option: leaf.path, status, error: error?.code ?? '', startedAt, lost: false, skipped };
    this.record(exchange, note);
  }

  /** Records that this limit made the request skip a target. */
  private passOver(limit: string): void {
    const { facts: kept } = this.exchange;
    if (!kept.limits.includes(limit) && kept.limits.length < maxRecords)
      kept.limits = [...kept.limits, limit];
  }

  private record({ facts }: Exchange, note: AttemptNote): void {
    const { option, status, error, startedAt, lost, skipped } = note;
    const { facts: kept, startedMonotonic: accepted } = this.exchange;
    if (kept.attemptRecords.length >= maxRecords) return;
    const { provider, modelRequested: model } = facts;
    const startedMs = startedAt - accepted;
    const endedMs = this.now() - accepted;
    const made: AttemptRecord = { option, provider, model, status, error, startedMs, endedMs, lost, skipped };
    kept.attemptRecords = kept.attemptRecords.length === 0 ? [made] : [...kept.attemptRecords, made];
  }

  private now(): number {
    return this.setup.runtime.clock.monotonic();
  }

  /** Discards this attempt, because another one follows. */
  private lose(result: TargetResult): void {
    leaveAnswered(result);
    const record = this.exchange.facts.attemptRecords.findLast(
      ({ option, lost }) => option === result.leaf.path && !lost,
    );
    if (record !== undefined) record.lost = true;
  }

  private async race(leaf: PlanLeaf, { afterMs, others }: Hedge): Promise<TargetResult> {
    const { exchange, setup } = this;
    const { clock } = setup.runtime;
    const { winner, losers, started } = await race([leaf, ...others], {
      clock,
      afterMs,
      start: (one) => this.contender(one),
      tooLate: (late) => leaveAnswered(late),
    });
    const { attempts, attemptRecords, lostCost } = exchange.facts;
    exchange.adopt(winner.exchange);
    exchange.facts.attemptRecords = attemptRecords;
    exchange.facts.lostCost = lostCost;
    exchange.facts.attempts = started.reduce(
      (sum, { fork }) => sum + fork.facts.attempts - attempts,
      attempts,
    );
    for (const loser of losers) this.recordLoser(loser);
    return winner;
  }

  private contender(leaf: PlanLeaf): Contender {
    const fork = this.exchange.fork();
    return { leaf, fork, startedAt: this.now(), result: this.withRetries(fork, leaf) };
  }

  /** Records the cost of an aborted attempt: the provider had the request, and bills at least that. */
  private recordLoser({ fork, leaf, startedAt }: Contender): void {
    const { facts, startedAt: at } = fork;
    this.record(fork, { option: leaf.path, status: 0, error: 'lost_race', startedAt, lost: true });
    if (facts.upstreamStartedAt === 0) return;
    const usage = facts.usage ?? sentUsage(fork);
    const { cost } = this.setup.prices.price(
      usage,
      facts.pricedBy ?? facts.aiService,
      facts.modelRequested,
      at,
    );
    this.exchange.facts.lostCost += Number(cost);
  }
}

/** Discards the result of this attempt and settles its limits, because another answer is served. */
function leaveAnswered(result: TargetResult): void {
  const { exchange } = result;
  leaveAttempt(result);
  if (exchange.reservation !== undefined) settleTargetLimits(exchange, leastUsed(exchange));
}

/** Minimum usage of an aborted attempt: the provider had the request. */
function leastUsed(exchange: Exchange): BudgetAmounts {
  const tokens = (exchange.facts.usage ?? sentUsage(exchange)).totalTokens;
  return { cost: exchange.reservation?.reserved.cost ?? 0, tokens, requests: 1 };
}

/** A started attempt. */
interface Opening {
  readonly exchange: Exchange;
  readonly leaf: PlanLeaf;
  readonly watched: BreakerAttempt<AttemptOutcome> | undefined;
  readonly startedAt: number;
}

type Hedge = NonNullable<PlanStep['hedge']>;

type AttemptNote = Pick<AttemptRecord, 'option' | 'status' | 'error' | 'lost' | 'skipped'> & {
  readonly startedAt: number;
};

/** Discards this attempt: stops its stream and notifies its hooks. */
function leaveAttempt({ exchange, answer }: TargetResult): void {
  const body = answer?.body ?? null;
  if (isStreamSource(body))
    body.cancel(new GatewayError('client_closed', 'Another attempt is made instead.'));
  const { latestAttempt } = exchange;
  if (latestAttempt instanceof CurrentAttempt) latestAttempt.abandon();
}

/** Waits; resolves early, with the reason, when the client disconnects or the attempt loses its race. */
function pause(exchange: Exchange, ms: number, clock: Clock): Promise<GatewayError | undefined> {
  return new Promise((resolve) => {
    const stopTimer = clock.after(ms, () => {
      stopListening();
      resolve(undefined);
    });
    const stopListening = exchange.onAbort(() => {
      stopTimer();
      resolve(exchange.failure ?? clientLeft());
    });
  });
}

/** A failure that another target cannot avoid: the client has disconnected, or its request is invalid. */
function isFinal(error: GatewayError): boolean {
  return finalCodes.has(error.code);
}

/** The target was skipped because one of its limits is used up; another one may have room. */
function isTargetExhausted({ code }: GatewayError): boolean {
  return code === 'provider_rate_limited' || code === 'provider_budget_exhausted';
}

const finalCodes: ReadonlySet<string> = new Set<GatewayError['code']>([
  'client_closed',
  'client_stalled',
  'invalid_json',
  'body_too_large',
  'body_encoding_unsupported',
  'body_timeout',
  'overloaded',
  'shutting_down',
  'internal',
]);
