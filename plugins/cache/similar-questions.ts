import { isJsonObject } from '../../core/base/json.ts';
import type {
  Embeddings,
  EmbeddingSettings,
  Similar,
  VectorIndex,
  VectorPartition,
} from '../../core/ports/cache.ts';
import { chatEndpoints } from '../../core/dialects/endpoint.ts';
import type { ConversationText } from '../../core/dialects/dialect.ts';
import type { AttemptContext, JsonObject, JsonValue } from '../../core/pipeline/context.ts';
import { cacheKeys } from './cache-key.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Counter, Metrics } from '../../core/ports/metrics.ts';
import { PassingMap, RecentMap } from '../../core/base/recent-map.ts';
import { sha256 } from '../../core/base/bytes.ts';
import { messageOf } from '../../core/errors/gateway-error.ts';

/** Number of cached vectors: questions repeat. */
const maxRemembered = 500;
/** Concurrent embeddings; further questions go on without a vector. */
const maxUnderWay = 256;
/** After so many failures in a row no question is embedded for `pauseMs` milliseconds. */
const failuresUntilPause = 3;
const pauseMs = 5000;
/** At most one warning in this time, in milliseconds. */
const warnEveryMs = 60_000;

interface QuestionVectorsSetup {
  readonly embeddings: Embeddings;
  readonly settings: EmbeddingSettings;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Vectors of questions; requests with the same question share one. A request goes on without one when it fails. */
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
      help: 'Embeddings of questions for the cache: made, failed, or skipped while the provider fails or too many wait.',
      labels: ['result'],
    });
    this.count = {
      made: counter({ result: 'made' }),
      failed: counter({ result: 'failed' }),
      skipped: counter({ result: 'skipped' }),
    };
  }

  /** Undefined when none is available now. Never rejects. */
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
    log.warn('Questions cannot be embedded: similar questions are not found until embeddings work again', {
      provider: settings.provider,
      model: settings.model,
      failed: this.unwarned,
      error: messageOf(error),
    });
    this.warnedAt = now;
    this.unwarned = 0;
  }
}

/** Longer conversations are rarely repeated in other words, and the last turn would hardly affect the vector. */
const maxMessages = 4;
/** Embedded texts are shorter than 8,191 tokens; a token counts as 4 bytes. */
const maxBytes = 8190 * 4;

/** Members of a body that hold the turns of a conversation. */
const turnMembers: ReadonlySet<string> = new Set(['messages', 'input', 'contents']);
const instructing: ReadonlySet<string> = new Set(['system', 'developer']);

/** Parts of a request: the text compared by similarity, and the partition that must be equal. */
export interface Question {
  /** Texts of user and assistant. */
  readonly text: string;
  /** Questions of one partition may share answers when their texts are similar. */
  readonly partition: VectorPartition;
}

/** Rules for separating the question from the rest of a request. */
export interface QuestionRules {
  /** Texts of `system` and `developer` may differ. */
  readonly ignoreSystemPrompt: boolean;
  /** Names the maker of the vectors: those of different models cannot be compared. */
  readonly space: string;
}

/**
 * The question of a request. Undefined when no similar one is searched: no conversation, no text of a user, more than
 * four messages (without instructions), or 8,191 tokens and more.
 */
export function questionOf(context: AttemptContext, rules: QuestionRules): Question | undefined {
  const { json } = context.attempt.body;
  if (!chatEndpoints.has(context.endpoint.id) || !isJsonObject(json)) return undefined;
  const { texts } = context.dialect.decodeConversation(context.endpoint.id, json);
  const said = texts.filter(({ role }) => role === 'user' || role === 'assistant');
  if (!said.some(({ role, text }) => role === 'user' && text.trim() !== '')) return undefined;
  if (messageCount(json, said) > maxMessages) return undefined;
  const text =
    said.length === 1
      ? (said[0] as ConversationText).text
      : said.map((one) => `${one.role}: ${one.text}`).join('\n\n');
  if (Buffer.byteLength(text, 'utf8') > maxBytes) return undefined;
  const rest = withoutTexts(json, said);
  if (rules.ignoreSystemPrompt)
    removeTexts(
      rest,
      texts.filter(({ role }) => instructing.has(role)),
    );
  const digest = cacheKeys.question(context, rest, rules.space);
  if (digest === undefined) return undefined;
  return { text, partition: { organisationId: context.facts.organisationId, digest } };
}

function messageCount(json: JsonObject, said: readonly ConversationText[]): number {
  for (const name of turnMembers) {
    const turns = json[name];
    if (!Array.isArray(turns)) continue;
    return turns.filter((turn) => !isInstruction(turn)).length;
  }
  return said.length;
}

/** A list or an object, by index or name. */
type Node = Record<string | number, JsonValue>;

/** Copies the document with each text replaced by `true`, which no wire has there. Parts without texts are shared. */
function withoutTexts(json: JsonObject, texts: readonly ConversationText[]): JsonObject {
  const own = new Set<unknown>();
  const root = copyNode(json, own);
  for (const { path } of texts) {
    let node: Node = root;
    for (let i = 0; i < path.length - 1; i++) {
      const step = path[i] as string | number;
      const child = node[step] as JsonObject | JsonValue[];
      const copy = own.has(child) ? child : copyNode(child, own);
      node[step] = copy;
      node = copy as Node;
    }
    node[path.at(-1) as string | number] = true;
  }
  return root;
}

function copyNode<T extends JsonObject | JsonValue[]>(node: T, own: Set<unknown>): T {
  // Without a prototype, so that `__proto__` is an ordinary member.
  const copy = (
    Array.isArray(node) ? Array.from(node) : Object.assign(Object.create(null) as object, node)
  ) as T;
  own.add(copy);
  return copy;
}

/** Removes the messages or members that hold these texts from a document, in place. */
function removeTexts(json: JsonObject, texts: readonly ConversationText[]): void {
  const turns = new Map<string, Set<number>>();
  for (const { path } of texts) {
    const [name, index] = path as [string, string | number | undefined];
    if (turnMembers.has(name) && typeof index === 'number') {
      const found = turns.get(name) ?? new Set();
      turns.set(name, found.add(index));
    } else delete json[name];
  }
  for (const [name, left] of turns) {
    json[name] = (json[name] as JsonValue[]).filter((_, index) => !left.has(index));
  }
}

function isInstruction(turn: JsonValue): boolean {
  const role = isJsonObject(turn) ? turn['role'] : undefined;
  return typeof role === 'string' && instructing.has(role);
}

interface SimilarQuestionsSetup {
  readonly vectors: Pick<QuestionVectors, 'of'>;
  readonly index: VectorIndex;
  readonly rules: QuestionRules;
  /** Least cosine, unless a config says otherwise. */
  readonly threshold: number;
  /** Upper bound of questions in the index. */
  readonly maxEntries: number;
}

/** Answered questions, found by their meaning; the index identifies each by the key of its answer. */
export class SimilarQuestions {
  readonly rules: QuestionRules;
  readonly threshold: number;
  private readonly setup: SimilarQuestionsSetup;

  constructor(setup: SimilarQuestionsSetup) {
    this.setup = setup;
    this.rules = setup.rules;
    this.threshold = setup.threshold;
  }

  /** The most similar question with the key of its answer. */
  find({ text, partition }: Question, threshold: number): Similar | undefined | Promise<Similar | undefined> {
    const { vectors, index } = this.setup;
    const vector = vectors.of(text);
    if (vector === undefined) return undefined;
    if (!('then' in vector)) return index.nearest(partition, vector, threshold);
    return vector.then((made) =>
      made === undefined ? undefined : index.nearest(partition, made, threshold),
    );
  }

  /** Indexes the question by the key of its answer. No request waits for it. */
  remember({ text, partition }: Question, key: string, ttlMs: number): void {
    const { vectors, index, maxEntries } = this.setup;
    const add = (vector: Float32Array | undefined): void => {
      if (vector !== undefined) void index.add(partition, key, vector, { ttlMs, maxEntries });
    };
    const vector = vectors.of(text);
    if (vector !== undefined && 'then' in vector) void vector.then(add);
    else add(vector);
  }

  /** Removes the question of an answer that is gone. */
  forget({ partition }: Question, key: string): void {
    void this.setup.index.remove(partition, key);
  }
}
