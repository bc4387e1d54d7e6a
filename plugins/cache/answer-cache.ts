import type { Answer } from '../../core/pipeline/answer.ts';
import { defineKey } from '../../core/pipeline/context-key.ts';
import type { AnswerFacts } from '../../core/dialects/dialect.ts';
import type { AttemptContext, HookResult, Outcome, RequestContext } from '../../core/pipeline/context.ts';
import type { Cache, CachedValue } from '../../core/ports/cache.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { headerValue, type HeaderList } from '../../core/ports/header-list.ts';
import { cacheKey } from './cache-key.ts';
import { streamTypeOf } from './convert.ts';
import { CollectingBudget, collectStream } from './collect-stream.ts';
import { Flight, type Flights, type Landing } from './flights.ts';
import { replay } from './replay.ts';
import { decodeAnswer, encodeAnswer, headersToKeep, type StoredAnswer } from './stored-answer.ts';
import { wholeJson, wholeStream } from './whole-answer.ts';

/** What all streams that are being collected may hold together. */
const maxCollectedBytes = 64 * 1024 * 1024;

/** A request whose answer is wanted for the cache. */
interface LookUp {
  readonly key: string;
  /** Others wait for this request's answer. */
  flight: Flight | undefined;
  /** The request is over; a lead that comes now has to be passed on. */
  settled: boolean;
}

const lookUpKey = defineKey<LookUp>('cache-look-up');

export interface AnswerCacheSetup {
  readonly cache: Cache;
  readonly clock: Clock;
  readonly flights: Pick<Flights, 'find' | 'takeOff'>;
  /** Of the header that tells what the cache did. */
  readonly statusHeader: string;
  readonly maxAgeMs: number;
  readonly maxValueBytes: number;
  readonly maxWaitMs: number;
  readonly endpoints: ReadonlySet<string>;
}

/** What the cache does at the attempts of one pipeline: answers from the store, or keeps what the provider answers. */
export class AnswerCache {
  private readonly setup: AnswerCacheSetup;
  private readonly budget = new CollectingBudget(maxCollectedBytes);

  constructor(setup: AnswerCacheSetup) {
    this.setup = setup;
  }

  /** Looks the answer up; waits for it when the same is being asked already. */
  attempt(context: AttemptContext): HookResult {
    const { cache, clock, flights, maxWaitMs, endpoints } = this.setup;
    const wanted = endpoints.has(context.endpoint.id) && context.service('debug') !== 'false';
    const key = wanted ? cacheKey(context) : undefined;
    if (key === undefined) return this.tell(context, 'DISABLED');
    // Of an attempt before this one, which brought nothing.
    context.get(lookUpKey)?.flight?.release();
    const lookUp: LookUp = { key, flight: undefined, settled: false };
    context.set(lookUpKey, lookUp);
    if (context.service('cache-force-refresh')?.toLowerCase() === 'true')
      return this.tell(context, 'REFRESH');
    const flying = maxWaitMs === 0 ? undefined : flights.find(key);
    if (flying !== undefined) {
      const landing = flying.follow(clock, maxWaitMs, context);
      if (landing === undefined) return this.tell(context, 'MISS');
      return landing.then((landed) => this.landed(context, lookUp, landed));
    }
    const found = cache.get(key);
    if (found === undefined || !('then' in found)) return this.read(context, lookUp, found);
    // Who asks the same while the store is being read waits for that, too.
    this.lead(lookUp);
    return found.then((read) => this.read(context, lookUp, read));
  }

  /** Keeps what the provider answered, if it is worth it; a stream is collected while it flows by. */
  attempted(context: AttemptContext, answer: Answer): Answer | undefined {
    const lookUp = context.get(lookUpKey);
    if (lookUp === undefined) return undefined;
    const { status, headers, body } = answer;
    const coding = headerValue(headers, 'content-encoding') ?? 'identity';
    const type = headerValue(headers, 'content-type') ?? '';
    const streamType = streamTypeOf(context);
    const isStream = /^text\/event-stream/i.test(type) || type.toLowerCase().startsWith(streamType);
    const readable = coding === 'identity' && (Buffer.isBuffer(body) || isStream);
    if (status !== 200 || body === null || !readable) {
      lookUp.flight?.release();
      return undefined;
    }
    if (Buffer.isBuffer(body)) {
      const found = wholeJson(context, body, answer.facts);
      // A stream that is one JSON document may have been collected.
      const form = context.facts.stream && streamType === 'application/json' ? 'stream' : 'json';
      this.keep(context, lookUp, { form, headers, body, found });
      return undefined;
    }
    const { maxValueBytes: maxBytes } = this.setup;
    const copied = collectStream(body, {
      ...{ maxBytes, budget: this.budget, tooLong: () => lookUp.flight?.release() },
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
    lookUp.settled = true;
    if (kind === 'cancelled') lookUp.flight?.handOver();
    else lookUp.flight?.release();
  }

  private read(context: AttemptContext, lookUp: LookUp, value: CachedValue | undefined): Answer | undefined {
    const stored = value === undefined ? undefined : decodeAnswer(value.bytes, value.storedAt);
    const answer = stored === undefined ? undefined : this.hit(context, stored);
    if (stored !== undefined && answer !== undefined) {
      lookUp.flight?.land(stored);
      return answer;
    }
    this.lead(lookUp);
    return this.tell(context, 'MISS');
  }

  private landed(context: AttemptContext, lookUp: LookUp, landing: Landing): Answer | undefined {
    if (landing instanceof Flight) {
      lookUp.flight = landing;
      if (lookUp.settled) landing.handOver();
    } else if (landing !== undefined) {
      const answer = this.hit(context, landing);
      if (answer !== undefined) return answer;
    }
    return this.tell(context, 'MISS');
  }

  private hit(context: AttemptContext, stored: StoredAnswer): Answer | undefined {
    const answer = replay(context, stored, this.setup.clock.now());
    if (answer !== undefined) this.tell(context, 'HIT');
    return answer;
  }

  /** From now on, whoever asks the same waits for this request's answer. */
  private lead(lookUp: LookUp): void {
    const { flights, maxWaitMs } = this.setup;
    if (maxWaitMs === 0 || lookUp.flight !== undefined || flights.find(lookUp.key) !== undefined) return;
    lookUp.flight = flights.takeOff(lookUp.key);
  }

  private tell(context: AttemptContext, status: 'HIT' | 'MISS' | 'REFRESH' | 'DISABLED'): undefined {
    context.facts.cacheStatus = status;
    context.addResponseHeader(this.setup.statusHeader, status);
  }

  private keep(context: AttemptContext, { key, flight }: LookUp, answered: Answered): void {
    const { cache, clock, maxAgeMs, maxValueBytes } = this.setup;
    const { form, headers, body, found } = answered;
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
      storedAt: clock.now(),
    };
    // Not waited for: a store that is away or slow has forgotten, which is all.
    void cache.set(key, encodeAnswer(stored), maxAgeMs);
    flight?.land(stored);
  }
}

interface Answered {
  readonly form: StoredAnswer['form'];
  readonly headers: HeaderList;
  readonly body: Buffer;
  /** Undefined for an answer that must not be kept. */
  readonly found: AnswerFacts | undefined;
}
