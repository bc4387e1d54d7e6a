import type { Clock } from '../../core/ports/clock.ts';
import type { Embeddings, EmbeddingSettings } from '../../core/ports/vector-index.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Counter, Metrics } from '../../core/ports/metrics.ts';
import { PassingMap, RecentMap } from '../../core/base/recent-map.ts';
import { sha256 } from '../../core/base/sha256.ts';

/** Vectors that are remembered: the same questions come again. */
const maxRemembered = 500;
/** Questions that are being embedded at once; the next one has to do without. */
const maxUnderWay = 256;
/** So many failures in a row, and nobody waits for the provider for a while, in milliseconds. */
const failuresUntilPause = 3;
const pauseMs = 5000;
/** At most one warning in this time, in milliseconds. */
const warnEveryMs = 60_000;

export interface QuestionVectorsSetup {
  readonly embeddings: Embeddings;
  readonly settings: EmbeddingSettings;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** The vectors of questions, each made once for all who ask the same. Who gets none goes on without. */
export class QuestionVectors {
  private readonly setup: QuestionVectorsSetup;
  private readonly count: Readonly<Record<'made' | 'failed' | 'skipped', Counter>>;
  /** By the digest of their text. */
  private readonly known = new RecentMap<Float32Array>(maxRemembered);
  private readonly underWay = new PassingMap<string, Promise<Float32Array | undefined>>();
  private failures = 0;
  private pausedUntil = -Infinity;
  private warnedAt = -Infinity;
  private unwarned = 0;

  constructor(setup: QuestionVectorsSetup) {
    this.setup = setup;
    const counter = setup.metrics.counter({
      name: 'weir_cache_embeddings_total',
      help: 'Questions that the cache had embedded: made, failed, or skipped while the provider fails or too many wait.',
      labels: ['result'],
    });
    this.count = {
      made: counter({ result: 'made' }),
      failed: counter({ result: 'failed' }),
      skipped: counter({ result: 'skipped' }),
    };
  }

  /** Undefined when none is to be had now. Never rejects. */
  of(text: string): Float32Array | undefined | Promise<Float32Array | undefined> {
    const digest = sha256(text, 'base64url');
    const vector = this.known.touch(digest);
    if (vector !== undefined) return vector;
    const waiting = this.underWay.get(digest);
    if (waiting !== undefined) return waiting;
    if (this.underWay.size >= maxUnderWay || this.setup.clock.monotonic() < this.pausedUntil) {
      this.count.skipped.inc();
      return undefined;
    }
    const making = this.make(text, digest);
    this.underWay.set(digest, making);
    return making;
  }

  private async make(text: string, digest: string): Promise<Float32Array | undefined> {
    const { embeddings, settings } = this.setup;
    try {
      const vector = await embeddings.embed(text, settings);
      this.count.made.inc();
      this.failures = 0;
      this.known.set(digest, vector);
      return vector;
    } catch (error) {
      this.failed(error);
      return undefined;
    } finally {
      this.underWay.delete(digest);
    }
  }

  private failed(error: unknown): void {
    const { clock, log, settings } = this.setup;
    this.count.failed.inc();
    this.unwarned++;
    const now = clock.monotonic();
    if (++this.failures >= failuresUntilPause) this.pausedUntil = now + pauseMs;
    if (now - this.warnedAt < warnEveryMs) return;
    log.warn('Questions cannot be embedded: similar ones are not found meanwhile', {
      provider: settings.provider,
      model: settings.model,
      failed: this.unwarned,
      error: error instanceof Error ? error.message : String(error),
    });
    this.warnedAt = now;
    this.unwarned = 0;
  }
}
