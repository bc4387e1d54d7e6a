import type { Similar, VectorIndex } from '../../core/ports/vector-index.ts';
import type { QuestionVectors } from './question-vectors.ts';
import type { Question, QuestionRules } from './question.ts';

export interface SimilarQuestionsSetup {
  readonly vectors: Pick<QuestionVectors, 'of'>;
  readonly index: VectorIndex;
  readonly rules: QuestionRules;
  /** Least cosine, unless a config says otherwise. */
  readonly threshold: number;
  /** Questions that the index may hold. */
  readonly maxEntries: number;
}

/** Questions that were answered, found again by what they mean; the index knows them by the keys of their answers. */
export class SimilarQuestions {
  readonly rules: QuestionRules;
  readonly threshold: number;
  private readonly setup: SimilarQuestionsSetup;

  constructor(setup: SimilarQuestionsSetup) {
    this.setup = setup;
    this.rules = setup.rules;
    this.threshold = setup.threshold;
  }

  /** The key of the answer to the most similar one. */
  find({ text, partition }: Question, threshold: number): Similar | undefined | Promise<Similar | undefined> {
    const { vectors, index } = this.setup;
    const vector = vectors.of(text);
    if (vector === undefined) return undefined;
    if (!('then' in vector)) return index.nearest(partition, vector, threshold);
    return vector.then((made) =>
      made === undefined ? undefined : index.nearest(partition, made, threshold),
    );
  }

  /** The answer is kept under this key. Nobody waits for it. */
  remember({ text, partition }: Question, key: string, ttlMs: number): void {
    const { vectors, index, maxEntries } = this.setup;
    const add = (vector: Float32Array | undefined): void => {
      if (vector !== undefined) void index.add(partition, key, vector, { ttlMs, maxEntries });
    };
    const vector = vectors.of(text);
    if (vector !== undefined && 'then' in vector) void vector.then(add);
    else add(vector);
  }

  /** There is no answer under this key any more. */
  forget({ partition }: Question, key: string): void {
    void this.setup.index.remove(partition, key);
  }
}
