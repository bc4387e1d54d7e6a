// A separate thread: runs one model over texts. Its packages are optional: they are loaded from where the gateway found them.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';

/** Start data of the thread. */
export interface ClassifierData {
  readonly folder: string;
  /** Tokens of one run of the model, those that it puts around a text included. */
  readonly maxTokens: number;
  readonly threads: number;
  readonly labels: readonly string[];
  /** Each label has a probability of its own; else they add up to 1. */
  readonly isMultiLabel: boolean;
  /** Where the packages are. */
  readonly runtime: string;
  readonly tokenizers: string;
}

/** A question to the thread. */
export interface TextsToClassify {
  readonly id: number;
  readonly texts: readonly string[];
}

/** Messages of the thread: it is ready, it has failed, or the answer to a question. */
export type ClassifierTold = { readonly ready: true } | ClassifierAnswer | { readonly failed: string };

/** The answer to a question: by text, the probability of each label. */
export type ClassifierAnswer = { readonly id: number } & (
  { readonly scores: readonly (readonly number[])[] } | { readonly failed: string }
);

/** Used part of `onnxruntime-node`. */
interface Runtime {
  readonly Tensor: new (type: 'int64', data: BigInt64Array, dims: readonly number[]) => unknown;
  readonly InferenceSession: {
    create(file: string, options: object): Promise<Session>;
  };
}

interface Session {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  run(feeds: Readonly<Record<string, unknown>>): Promise<Readonly<Record<string, Output>>>;
}

interface Output {
  readonly data: ArrayLike<number>;
  readonly dims: readonly number[];
}

/** Used part of `@huggingface/tokenizers`. */
interface Tokenizers {
  readonly Tokenizer: new (tokenizer: object, config: object) => Encoder;
}

interface Encoder {
  encode(text: string): { readonly ids: readonly number[] };
}

/** Letters that the pieces of a long text share, so that no passage is cut in two. */
const overlap = 64;

const data = workerData as ClassifierData;

async function start(): Promise<(texts: readonly string[]) => Promise<number[][]>> {
  const { folder, threads, runtime, tokenizers } = data;
  const { InferenceSession, Tensor } = (await import(runtime)) as Runtime;
  const { Tokenizer } = (await import(tokenizers)) as Tokenizers;
  const settings = await readFile(path.join(folder, 'tokenizer_config.json'), 'utf8').catch(() => '{}');
  const tokenizer = new Tokenizer(
    JSON.parse(await readFile(path.join(folder, 'tokenizer.json'), 'utf8')) as object,
    JSON.parse(settings) as object,
  );
  const session = await InferenceSession.create(path.join(folder, 'model.onnx'), {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionProviders: ['cpu'],
  });
  const output = session.outputNames.includes('logits') ? 'logits' : (session.outputNames[0] ?? '');

  async function scoresOf(ids: readonly number[]): Promise<number[]> {
    const filled = (value: (at: number) => number): unknown =>
      new Tensor(
        'int64',
        BigInt64Array.from(ids, (_, at) => BigInt(value(at))),
        [1, ids.length],
      );
    const known: Readonly<Record<string, () => unknown>> = {
      input_ids: () => filled((at) => ids[at] ?? 0),
      attention_mask: () => filled(() => 1),
      token_type_ids: () => filled(() => 0),
    };
    const feeds = Object.fromEntries(
      session.inputNames.map((name) => {
        const made = known[name];
        if (made === undefined) throw new Error(`The model wants an input "${name}", and no text has one.`);
        return [name, made()];
      }),
    );
    const { [output]: told } = await session.run(feeds);
    if (told === undefined) throw new Error('The model has no output.');
    return probabilities(told);
  }

  async function scores(text: string): Promise<number[]> {
    const { ids } = tokenizer.encode(text);
    if (ids.length <= data.maxTokens) return scoresOf(ids);
    const middle = Math.ceil(text.length / 2);
    // Splitting again would not shorten it: the last tokens stay unread.
    if (middle <= overlap) return scoresOf(ids.slice(0, data.maxTokens));
    const parts = [text.slice(0, middle + overlap / 2), text.slice(middle - overlap / 2)];
    return highest(await Promise.all(parts.map((part) => scores(part))));
  }

  return async (texts) => {
    const found: number[][] = [];
    for (const text of texts) found.push(await scores(text));
    return found;
  };
}

/** Of a whole text, or the highest of its tokens where the model labels those. */
function probabilities({ data: logits, dims }: Output): number[] {
  const size = data.labels.length;
  if (dims.at(-1) !== size)
    throw new Error(`The model tells ${dims.at(-1) ?? 0} labels, and its config.json has ${size}.`);
  const rows: number[][] = [];
  for (let at = 0; at < logits.length; at += size)
    rows.push(probable(Array.from({ length: size }, (_, index) => Number(logits[at + index]))));
  return highest(rows);
}

function probable(logits: readonly number[]): number[] {
  if (data.isMultiLabel || logits.length === 1) return logits.map((logit) => 1 / (1 + Math.exp(-logit)));
  const most = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

function highest(rows: readonly (readonly number[])[]): number[] {
  return data.labels.map((_, label) => Math.max(...rows.map((row) => row[label] ?? 0)));
}

function tell(told: ClassifierTold): void {
  parentPort?.postMessage(told);
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

start().then(
  (classify) => {
    parentPort?.on('message', ({ id, texts }: TextsToClassify) => {
      classify(texts).then(
        (scores) => tell({ id, scores }),
        (error: unknown) => tell({ id, failed: reasonOf(error) }),
      );
    });
    tell({ ready: true });
  },
  (error: unknown) => tell({ failed: reasonOf(error) }),
);
