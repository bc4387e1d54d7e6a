import type { AttemptContext } from '../../core/pipeline/context.ts';
import type { CacheArea } from '../../core/base/cache-namespace.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { cacheKey, namespaceOf } from './cache-key.ts';
import type { Flight } from './flights.ts';
import { questionOf, type Question } from './question.ts';
import type { SimilarQuestions } from './similar-questions.ts';

/** An answer is used for so long at the least, in milliseconds, whatever a config says. */
const minAgeMs = 1000;

/** An attempt whose answer is wanted for the cache. */
export interface LookUp {
  readonly key: string;
  readonly area: CacheArea;
  readonly maxAgeMs: number;
  /** Similar ones are looked for. */
  readonly question: Question | undefined;
  /** Least cosine of those. */
  readonly threshold: number;
  /** Milliseconds since the epoch. */
  readonly askedAt: number;
  /** Others wait for this attempt's answer. */
  flight: Flight | undefined;
  /** The attempt is over; a lead that comes now has to be passed on. */
  over: boolean;
}

/** What decides what is wanted of the cache. */
export interface LookUpSetup {
  readonly clock: Clock;
  readonly log: Log;
  /** Where no config says anything; `config`: nothing is cached then. */
  readonly mode: 'simple' | 'semantic' | 'config';
  readonly maxAgeMs: number;
  /** Of what configs may ask for. */
  readonly maxAgeLimitMs: number;
  readonly endpoints: ReadonlySet<string>;
  /** Undefined: only the very same questions are found. */
  readonly similar: SimilarQuestions | undefined;
}

/** What attempts want of the cache, by the plugin's options, their config and their headers. */
export class LookUps {
  private readonly setup: LookUpSetup;
  private warned = false;

  constructor(setup: LookUpSetup) {
    this.setup = setup;
  }

  /** Undefined for an attempt that the cache has nothing to do with. */
  of(context: AttemptContext): LookUp | undefined {
    const { endpoints, clock, maxAgeMs, maxAgeLimitMs, similar } = this.setup;
    const asked = context.attempt.cache;
    const mode = asked?.mode ?? this.setup.mode;
    if (mode === 'off' || mode === 'config' || !endpoints.has(context.endpoint.id)) return undefined;
    if (context.service('debug')?.toLowerCase() === 'false') return undefined;
    const key = cacheKey(context);
    if (key === undefined) return undefined;
    const { organisationId, workspaceId } = context.facts;
    const askedAge = asked?.maxAgeMs;
    return {
      key,
      area: { organisationId, workspaceId, namespace: namespaceOf(context) },
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
