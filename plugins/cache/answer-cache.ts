import type { Answer } from '../../core/pipeline/answer.ts';
import {
  type AttemptContext,
  defineKey,
  type HookResult,
  type MaybePromise,
  type Outcome,
  type RequestContext,
} from '../../core/pipeline/context.ts';
import type { AnswerFacts } from '../../core/dialects/dialect.ts';
import type { Cache, Similar } from '../../core/ports/cache.ts';
import { type HeaderList, headerValue } from '../../core/ports/header-list.ts';
import { AnswerStore, type StoredAnswer, storedForm } from './stored-answer.ts';
import { cacheKeys } from './cache-key.ts';
import { CollectingBudget, collectStream, replay, streamTypeOf } from './replay.ts';
import type { CacheArea } from '../../core/base/cache-namespace.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { type Question, questionOf, type SimilarQuestions } from './similar-questions.ts';
import { PassingMap } from '../../core/base/recent-map.ts';
import { chatEndpoints, type EndpointId } from '../../core/dialects/endpoint.ts';

/** Requests that may wait for one answer; the others make their own call. */
const maxFollowers = 256;

/** A shared answer for all followers. */
interface Landed {
  readonly answer: StoredAnswer;
  /** Similarity of the answered question; undefined for an exact match. */
  readonly similarity: number | undefined;
}

/** Result of waiting: the answer, the flight that this request now leads, or undefined (make a call of your own). */
export type Landing = Landed | Flight | undefined;

/** Anything whose client may leave. */
interface Leaving {
  readonly aborted: boolean;
  onAbort(run: () => void): () => void;
}

/** Open calls by key: a request with the same key waits for the answer instead of making a call. */
export class Flights {
  private readonly open = new PassingMap<string, Flight>();

  /** The open call for this key. */
  find(key: string): Flight | undefined {
    return this.open.get(key);
  }

  /** Opens a flight. The caller must `land`, `release` or `handOver` it in the end. Call it only when there is none. */
  takeOff(key: string): Flight {
    const flight = new Flight(this.open, key);
    this.open.set(key, flight);
    return flight;
  }
}

/** One call and its followers. `land`, `release` and `handOver` do nothing after the end. */
export class Flight {
  private readonly open: PassingMap<string, Flight>;
  private readonly key: string;
  /** Created for the first follower: most calls have none. */
  private followers: Set<(landing: Landing) => void> | undefined;
  private over = false;

  /** The flight stays in `open` under this key until it ends. */
  constructor(open: PassingMap<string, Flight>, key: string) {
    this.open = open;
    this.key = key;
  }

  /** Waits for the answer at most `waitMs`, or until the client leaves. Undefined when too many wait already. */
  follow(clock: Clock, waitMs: number, client: Leaving): Promise<Landing> | undefined {
    const followers = (this.followers ??= new Set());
    if (followers.size >= maxFollowers) return undefined;
    if (client.aborted) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const done = (landing: Landing): void => {
        followers.delete(done);
        stopTimer();
        stopListening();
        resolve(landing);
      };
      followers.add(done);
      const stopTimer = clock.after(waitMs, () => done(undefined));
      const stopListening = client.onAbort(() => done(undefined));
    });
  }

  /** Gives the answer to all followers. */
  land(answer: StoredAnswer, similarity?: number): void {
    this.end({ answer, similarity });
  }

  /** Ends without an answer: all followers go on alone at once. */
  release(): void {
    this.end(undefined);
  }

  /** For a leader whose client has left: the longest waiting follower leads now, and the others go on waiting. */
  handOver(): void {
    if (this.over) return;
    for (const next of this.followers ?? []) return next(this);
    this.end(undefined);
  }

  private end(landing: Landed | undefined): void {
    if (this.over) return;
    this.over = true;
    this.open.delete(this.key);
    if (this.followers === undefined) return;
    for (const follower of this.followers) follower(landing);
  }
}

/** Least maximum age of an answer, in milliseconds; a smaller value in a config is raised to it. */
const minAgeMs = 1000;

/** Cache parameters of one attempt. */
interface LookUp {
  readonly key: string;
  readonly area: CacheArea;
  readonly maxAgeMs: number;
  /** Set when similar questions are searched, too. */
  readonly question: Question | undefined;
  /** Least cosine of similar questions. */
  readonly threshold: number;
  /** Milliseconds since the epoch. */
  readonly askedAt: number;
  /** Set when this attempt leads: others wait for its answer. */
  flight: Flight | undefined;
  /** The attempt is over; a flight handed to it now must be handed over. */
  over: boolean;
}

/** Options that determine the cache parameters of an attempt. */
interface LookUpSetup {
  readonly clock: Clock;
  readonly log: Log;
  /** Mode of requests whose config sets none; `config`: these are not cached. */
  readonly mode: 'simple' | 'semantic' | 'config';
  readonly maxAgeMs: number;
  /** Upper bound of the maximum age that a config may set. */
  readonly maxAgeLimitMs: number;
  readonly endpoints: ReadonlySet<string>;
  /** Undefined: only exact matches are found. */
  readonly similar: SimilarQuestions | undefined;
}

/** Derives an attempt's cache parameters from the plugin's options, its config and its headers. */
class LookUps {
  private readonly setup: LookUpSetup;
  private warned = false;

  constructor(setup: LookUpSetup) {
    this.setup = setup;
  }

  /** Undefined for an attempt that does not use the cache. */
  of(context: AttemptContext): LookUp | undefined {
    const { endpoints, clock, maxAgeMs, maxAgeLimitMs, similar } = this.setup;
    const asked = context.attempt.cache;
    const mode = asked?.mode ?? this.setup.mode;
    if (mode === 'off' || mode === 'config' || !endpoints.has(context.endpoint.id)) return undefined;
    if (context.service('debug')?.toLowerCase() === 'false') return undefined;
    const key = cacheKeys.of(context);
    if (key === undefined) return undefined;
    const { organisationId, workspaceId } = context.facts;
    const askedAge = asked?.maxAgeMs;
    return {
      key,
      area: { organisationId, workspaceId, namespace: cacheKeys.namespace(context) },
      maxAgeMs: askedAge === undefined ? maxAgeMs : Math.min(Math.max(askedAge, minAgeMs), maxAgeLimitMs),
      question: mode === 'semantic' ? this.question(context) : undefined,
      threshold: asked?.threshold ?? similar?.threshold ?? 1,
      askedAt: clock.now(),
      flight: undefined,
      over: false,
    };
  }

  private question(context: AttemptContext): Question | undefined {
    const { similar, log } = this.setup;
    if (similar !== undefined) return questionOf(context, similar.rules);
    if (!this.warned) {
      this.warned = true;
      log.warn(
        'A config asks for the semantic cache, and the plugin "cache" has none: only the very same questions are found. Give the plugin the option "semantic" with a provider.',
        { config: context.facts.config },
      );
    }
    return undefined;
  }
}

/** Bytes of all streams that are being collected, together. */
const maxCollectedBytes = 64 * 1024 * 1024;
/** Look-up of the present attempt; undefined when this attempt does not use the cache. */
const lookUpKey = defineKey<LookUp | undefined>('cache-look-up');

type Status = 'HIT' | 'SEMANTIC HIT' | 'MISS' | 'SEMANTIC MISS' | 'REFRESH' | 'DISABLED';

interface AnswerCacheSetup extends LookUpSetup {
  readonly cache: Cache;
  readonly flights: Pick<Flights, 'find' | 'takeOff'>;
  readonly maxValueBytes: number;
  readonly maxWaitMs: number;
}

/** Cache of one pipeline's attempts: answers from the store, or stores the provider's answer. */
export class AnswerCache {
  private readonly setup: AnswerCacheSetup;
  private readonly lookUps: LookUps;
  private readonly store: AnswerStore;
  private readonly budget = new CollectingBudget(maxCollectedBytes);

  constructor(setup: AnswerCacheSetup) {
    this.setup = setup;
    this.lookUps = new LookUps(setup);
    this.store = new AnswerStore(setup.cache, setup.clock);
  }

  /** Looks up the answer; waits for it when a call with the same key is open. */
  attempt(context: AttemptContext): HookResult {
    const { clock, flights, maxWaitMs } = this.setup;
    const lookUp = this.lookUps.of(context);
    context.set(lookUpKey, lookUp);
    if (lookUp === undefined) return this.tell(context, 'DISABLED');
    if (context.service('cache-force-refresh')?.toLowerCase() === 'true')
      return this.tell(context, 'REFRESH');
    const flying = maxWaitMs === 0 ? undefined : flights.find(lookUp.key);
    if (flying !== undefined) {
      endWhenAbandoned(context, lookUp);
      const landing = flying.follow(clock, maxWaitMs, context);
      if (landing === undefined) return this.miss(context, lookUp);
      return landing.then((landed) => this.landed(context, lookUp, landed));
    }
    const found = this.store.read(lookUp.key, lookUp.area, lookUp.maxAgeMs);
    if (found === undefined || !('then' in found)) return this.read(context, lookUp, found);
    // Requests with the same key wait during the read of the store, too.
    this.lead(context, lookUp);
    return found.then((read) => this.read(context, lookUp, read));
  }

  /** Stores the provider's answer, if it may be cached; a stream is collected while it passes through. */
  attempted(context: AttemptContext, answer: Answer): Answer | undefined {
    const lookUp = context.get(lookUpKey);
    if (lookUp === undefined) return undefined;
    const { status, headers, body } = answer;
    const coding = headerValue(headers, 'content-encoding') ?? 'identity';
    if (status !== 200 || coding !== 'identity' || body === null) {
      lookUp.flight?.release();
      return undefined;
    }
    const streamType = streamTypeOf(context);
    if (Buffer.isBuffer(body)) {
      const found = wholeJson(context, body, answer.facts);
      // A stream in the form of one JSON document may arrive collected in a buffer.
      const form = context.facts.stream && streamType === 'application/json' ? 'stream' : 'json';
      this.keep(context, lookUp, { form, headers, body, found });
      return undefined;
    }
    const type = headerValue(headers, 'content-type')?.toLowerCase() ?? '';
    if (!type.startsWith('text/event-stream') && !type.startsWith(streamType)) {
      lookUp.flight?.release();
      return undefined;
    }
    const { maxValueBytes: maxBytes } = this.setup;
    const copied = collectStream(body, {
      maxBytes,
      budget: this.budget,
      tooLong: () => lookUp.flight?.release(),
      whole: (bytes) => {
        const found = wholeStream(context, bytes);
        this.keep(context, lookUp, { form: 'stream', headers, body: bytes, found });
      },
    });
    return { ...answer, body: copied };
  }

  /** Ends the flight: after a cancelled request one follower makes the call again, otherwise all go on alone. */
  settled(context: RequestContext, { kind }: Outcome): void {
    const lookUp = context.get(lookUpKey);
    if (lookUp === undefined) return;
    lookUp.over = true;
    if (kind === 'cancelled') lookUp.flight?.handOver();
    else lookUp.flight?.release();
  }

  private read(
    context: AttemptContext,
    lookUp: LookUp,
    stored: StoredAnswer | undefined,
  ): MaybePromise<Answer | undefined> {
    const answer = stored === undefined ? undefined : this.hit(context, lookUp, stored);
    if (answer !== undefined) return answer;
    this.lead(context, lookUp);
    const { similar } = this.setup;
    if (lookUp.question === undefined || similar === undefined) return this.miss(context, lookUp);
    const found = similar.find(lookUp.question, lookUp.threshold);
    if (found === undefined || !('then' in found)) return this.readSimilar(context, lookUp, found);
    return found.then((one) => this.readSimilar(context, lookUp, one));
  }

  private readSimilar(
    context: AttemptContext,
    lookUp: LookUp,
    similar: Similar | undefined,
  ): MaybePromise<Answer | undefined> {
    if (similar === undefined) return this.miss(context, lookUp);
    const found = this.store.read(similar.id, lookUp.area, lookUp.maxAgeMs);
    if (found === undefined || !('then' in found)) return this.similarRead(context, lookUp, similar, found);
    return found.then((stored) => this.similarRead(context, lookUp, similar, stored));
  }

  private similarRead(
    context: AttemptContext,
    lookUp: LookUp,
    { id, similarity }: Similar,
    stored: StoredAnswer | undefined,
  ): Answer | undefined {
    const answer = stored === undefined ? undefined : this.hit(context, lookUp, stored, similarity);
    if (answer !== undefined) return answer;
    if (stored === undefined && lookUp.question !== undefined)
      this.setup.similar?.forget(lookUp.question, id);
    return this.miss(context, lookUp);
  }

  private landed(context: AttemptContext, lookUp: LookUp, landing: Landing): Answer | undefined {
    if (landing instanceof Flight) {
      lookUp.flight = landing;
      if (lookUp.over) landing.handOver();
    } else if (landing !== undefined) {
      const { answer: stored, similarity } = landing;
      // The leader may have a lower threshold than this request.
      const isWanted =
        similarity === undefined || (lookUp.question !== undefined && similarity >= lookUp.threshold);
      const answer = isWanted ? this.hit(context, lookUp, stored, similarity) : undefined;
      if (answer !== undefined) return answer;
    }
    return this.miss(context, lookUp);
  }

  /** `similarity` of the answered question; undefined for an exact match. */
  private hit(
    context: AttemptContext,
    lookUp: LookUp,
    stored: StoredAnswer,
    similarity?: number,
  ): Answer | undefined {
    const answer = replay(context, stored, this.setup.clock.now());
    if (answer === undefined) return undefined;
    this.tell(context, similarity === undefined ? 'HIT' : 'SEMANTIC HIT');
    if (similarity === undefined) cacheKeys.rememberBody(context);
    lookUp.flight?.land(stored, similarity);
    return answer;
  }

  private miss(context: AttemptContext, { question }: LookUp): undefined {
    return this.tell(context, question === undefined ? 'MISS' : 'SEMANTIC MISS');
  }

  /** Requests with the same key wait for this attempt from now on. The caller has checked that none leads yet. */
  private lead(context: AttemptContext, lookUp: LookUp): void {
    const { flights, maxWaitMs } = this.setup;
    if (maxWaitMs === 0 || lookUp.over || lookUp.flight !== undefined) return;
    lookUp.flight = flights.takeOff(lookUp.key);
    endWhenAbandoned(context, lookUp);
  }

  private tell(context: AttemptContext, status: Status): undefined {
    context.facts.cacheStatus = status;
  }

  private keep(context: AttemptContext, lookUp: LookUp, answered: Answered): void {
    const { clock, maxValueBytes, similar } = this.setup;
    const { form, headers, body, found } = answered;
    const { key, question, maxAgeMs, askedAt, flight } = lookUp;
    if (found === undefined || body.length > maxValueBytes) return flight?.release();
    const stored: StoredAnswer = {
      form,
      headers: storedForm.headers(headers),
      body,
      model: found.model ?? '',
      finishReason: found.finishReason ?? '',
      // The gateway may have received usage that the client's stream does not carry.
      usage: found.usage ?? context.facts.usage,
      tellsUsage: found.usage !== undefined,
      askedAt,
      storedAt: clock.now(),
    };
    this.store.write(key, stored, maxAgeMs);
    flight?.land(stored);
    if (question !== undefined) similar?.remember(question, key, maxAgeMs);
  }
}

/** For attempts that lead or follow; one answered from the store at once has no followers. */
function endWhenAbandoned({ attempt }: AttemptContext, lookUp: LookUp): void {
  attempt.onAbandon(() => {
    lookUp.over = true;
    lookUp.flight?.release();
  });
}

interface Answered {
  readonly form: StoredAnswer['form'];
  readonly headers: HeaderList;
  readonly body: Buffer;
  /** Undefined for an answer that must not be cached. */
  readonly found: AnswerFacts | undefined;
}

/** Finish reasons of failed answers. */
const broken: ReadonlySet<string> = new Set(['error', 'failed', 'cancelled']);

/**
 * Facts of a JSON answer that may be cached: complete and without an error. Undefined for any other. `known` holds the
 * facts that are parsed already.
 */
function wholeJson(
  { dialect, endpoint }: AttemptContext,
  body: Buffer,
  known: AnswerFacts | undefined,
): AnswerFacts | undefined {
  const facts = known ?? dialect.scanAnswer(endpoint.id, body);
  // Facts are found only in what can be parsed; an answer without any still has to prove that it is JSON.
  if (facts.usage === undefined && facts.finishReason === undefined && !isJsonObject(body)) return undefined;
  return isCacheable(endpoint.id, facts) ? facts : undefined;
}

/** The same for the bytes of a stream: it must have come to its own end marker. */
function wholeStream({ dialect, endpoint }: AttemptContext, bytes: Buffer): AnswerFacts | undefined {
  const scanner = dialect.streamScanner(endpoint.id);
  scanner.scan(bytes);
  return scanner.ended && isCacheable(endpoint.id, scanner.facts) ? scanner.facts : undefined;
}

function isCacheable(endpoint: EndpointId, { errorMessage, finishReason }: AnswerFacts): boolean {
  if (errorMessage !== undefined) return false;
  if (finishReason === undefined) return !chatEndpoints.has(endpoint);
  return !finishReason.split(',').some((reason) => broken.has(reason));
}

function isJsonObject(body: Buffer): boolean {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
