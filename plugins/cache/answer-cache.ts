import type { Answer } from '../../core/pipeline/answer.ts';
import { defineKey } from '../../core/pipeline/context-key.ts';
import type { AnswerFacts } from '../../core/dialects/dialect.ts';
import type {
  AttemptContext,
  HookResult,
  MaybePromise,
  Outcome,
  RequestContext,
} from '../../core/pipeline/context.ts';
import type { Cache } from '../../core/ports/cache.ts';
import { headerValue, type HeaderList } from '../../core/ports/header-list.ts';
import type { Similar } from '../../core/ports/vector-index.ts';
import { AnswerStore } from './answer-store.ts';
import { rememberBody } from './cache-key.ts';
import { streamTypeOf } from './convert.ts';
import { CollectingBudget, collectStream } from './collect-stream.ts';
import { Flight, type Flights, type Landing } from './flights.ts';
import { LookUps, type LookUp, type LookUpSetup } from './look-up.ts';
import { replay } from './replay.ts';
import { headersToKeep, type StoredAnswer } from './stored-answer.ts';
import { wholeJson, wholeStream } from './whole-answer.ts';

/** What all streams that are being collected may hold together. */
const maxCollectedBytes = 64 * 1024 * 1024;
/** Of the present attempt: each replaces it, and undefined says that nothing is wanted of this one. */
const lookUpKey = defineKey<LookUp | undefined>('cache-look-up');

type Status = 'HIT' | 'SEMANTIC HIT' | 'MISS' | 'SEMANTIC MISS' | 'REFRESH' | 'DISABLED';

export interface AnswerCacheSetup extends LookUpSetup {
  readonly cache: Cache;
  readonly flights: Pick<Flights, 'find' | 'takeOff'>;
  readonly maxValueBytes: number;
  readonly maxWaitMs: number;
}

/** What the cache does at the attempts of one pipeline: answers from the store, or keeps what the provider answers. */
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

  /** Looks the answer up; waits for it when the same is being asked already. */
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
    // Who asks the same while the store is being read waits for that, too.
    this.lead(context, lookUp);
    return found.then((read) => this.read(context, lookUp, read));
  }

  /** Keeps what the provider answered, if it is worth it; a stream is collected while it flows by. */
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
      // A stream that is one JSON document may have been collected.
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

  /** Whoever still waits for this request's answer is told: a call that broke off is made again by one of them. */
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
      // Its leader may have been content with less.
      const isWanted =
        similarity === undefined || (lookUp.question !== undefined && similarity >= lookUp.threshold);
      const answer = isWanted ? this.hit(context, lookUp, stored, similarity) : undefined;
      if (answer !== undefined) return answer;
    }
    return this.miss(context, lookUp);
  }

  /** `similarity` of the answered question; undefined: it is the very same. */
  private hit(
    context: AttemptContext,
    lookUp: LookUp,
    stored: StoredAnswer,
    similarity?: number,
  ): Answer | undefined {
    const answer = replay(context, stored, this.setup.clock.now());
    if (answer === undefined) return undefined;
    this.tell(context, similarity === undefined ? 'HIT' : 'SEMANTIC HIT');
    if (similarity === undefined) rememberBody(context);
    lookUp.flight?.land(stored, similarity);
    return answer;
  }

  private miss(context: AttemptContext, { question }: LookUp): undefined {
    return this.tell(context, question === undefined ? 'MISS' : 'SEMANTIC MISS');
  }

  /** From now on, whoever asks the same waits for this attempt's answer. Nobody else leads: that was looked up just now. */
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
      headers: headersToKeep(headers),
      body,
      model: found.model ?? '',
      finishReason: found.finishReason ?? '',
      // The provider told the gateway, and maybe not the client.
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

/** For an attempt that leads or follows; one that is answered from the store at once has nobody to tell. */
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
  /** Undefined for an answer that must not be kept. */
  readonly found: AnswerFacts | undefined;
}
