import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Worker } from 'node:worker_threads';
import { startThread } from '../../core/base/start-thread.ts';
import type { ClassifierAnswer, ClassifierData, ClassifierTold, TextsToClassify } from './classify-texts.ts';

/** Files that a model's folder must hold. */
const files = ['model.onnx', 'tokenizer.json', 'config.json'] as const;
/** The packages that run models: none of the gateway's own. */
const packages = { runtime: 'onnxruntime-node', tokenizers: '@huggingface/tokenizers' } as const;
const usualTokens = 512;

/** A model's folder and the settings of its run. */
interface ClassifierOptions {
  readonly folder: string;
  readonly maxTokens: number | undefined;
  readonly threads: number;
  /** Questions that may wait for the thread; one more is refused. */
  readonly maxWaiting: number;
}

/** Content of a model's `config.json`. */
interface ModelConfig {
  readonly labels: readonly string[];
  readonly isMultiLabel: boolean;
  readonly maxTokens: number;
}

/** Why models cannot be run here: a package that is missing; undefined when they can. */
export function packagesMissing(): string | undefined {
  const missing = Object.values(packages).filter((name) => located(name) === undefined);
  if (missing.length === 0) return undefined;
  return `a local model needs ${missing.join(' and ')}, which the gateway does not bring; run: npm i ${Object.values(packages).join(' ')}`;
}

function located(name: string): string | undefined {
  try {
    return import.meta.resolve(name);
  } catch {
    return undefined;
  }
}

/** Why the folder holds no usable model; undefined when it does. Starts nothing. */
export async function folderFault(folder: string): Promise<string | undefined> {
  const named = `the folder of the model, ${JSON.stringify(folder)},`;
  if (!path.isAbsolute(folder)) return `${named} is no absolute path; begin it at the root of the machine`;
  for (const name of files) {
    const found = await stat(path.join(folder, name)).catch(() => undefined);
    if (found?.isFile() !== true)
      return `${named} has no file ${name}; a model is a folder with ${files.join(', ')}, as exporters to ONNX write it`;
  }
  const read = await readConfig(folder);
  return typeof read === 'string' ? `${named} ${read}` : undefined;
}

async function readConfig(folder: string): Promise<ModelConfig | string> {
  let config: unknown;
  try {
    config = JSON.parse(await readFile(path.join(folder, 'config.json'), 'utf8'));
  } catch {
    return 'has a config.json that is no JSON';
  }
  const { id2label, problem_type, max_position_embeddings } = Object(config) as Readonly<
    Record<string, unknown>
  >;
  const labels = labelsOf(id2label);
  if (labels === undefined)
    return 'has a config.json without the labels of the model; it needs id2label, such as {"0": "SAFE", "1": "INJECTION"}';
  const most = typeof max_position_embeddings === 'number' ? max_position_embeddings : usualTokens;
  return {
    labels,
    isMultiLabel: problem_type === 'multi_label_classification',
    maxTokens: Math.max(8, Math.min(most, usualTokens)),
  };
}

function labelsOf(id2label: unknown): readonly string[] | undefined {
  if (typeof id2label !== 'object' || id2label === null) return undefined;
  const found = id2label as Readonly<Record<string, unknown>>;
  const labels = Object.keys(found).map((_, id) => found[String(id)]);
  const areTexts = labels.every((label): label is string => typeof label === 'string');
  return areTexts && labels.length > 0 ? labels : undefined;
}

/** A question under way. */
interface Asked {
  readonly question: TextsToClassify;
  resolve(scores: readonly (readonly number[])[]): void;
  reject(error: Error): void;
}

/**
 * A model that classifies texts, in a thread of its own. Questions queue, up to `maxWaiting`. A thread that ends by itself
 * is started again with the next question.
 */
export class LocalClassifier {
  readonly labels: readonly string[];
  readonly #data: ClassifierData;
  readonly #maxWaiting: number;
  #worker: Worker | undefined;
  #starting: Promise<void> | undefined;
  /** In the order of asking; the first one is with the thread. */
  readonly #asked: Asked[] = [];
  #lastId = 0;
  #closed = false;

  private constructor(data: ClassifierData, maxWaiting: number) {
    this.labels = data.labels;
    this.#data = data;
    this.#maxWaiting = maxWaiting;
  }

  /** Resolves when the model is loaded; rejects with one sentence. */
  static async start({ folder, threads, maxWaiting, ...more }: ClassifierOptions): Promise<LocalClassifier> {
    const [runtime, tokenizers] = [located(packages.runtime), located(packages.tokenizers)];
    if (runtime === undefined || tokenizers === undefined)
      throw new Error(`The plugin local-classifier cannot run: ${packagesMissing() ?? ''}.`);
    const config = await readConfig(folder);
    if (typeof config === 'string') throw new Error(`The folder ${folder} ${config}.`);
    const maxTokens = more.maxTokens ?? config.maxTokens;
    const classifier = new LocalClassifier(
      { ...config, folder, maxTokens, threads, runtime, tokenizers },
      maxWaiting,
    );
    await classifier.#begin();
    return classifier;
  }

  /**
   * The probability of each label, by text. Rejects when too many wait, when the signal aborts, and with errors of the
   * model.
   */
  async scores(
    texts: readonly string[],
    signal: AbortSignal,
  ): Promise<readonly ReadonlyMap<string, number>[]> {
    if (this.#closed) throw new Error('The local model was ended.');
    signal.throwIfAborted();
    if (this.#asked.length > this.#maxWaiting)
      throw new Error(`${this.#maxWaiting} texts wait for the local model already.`);
    if (this.#worker === undefined) await this.#begin();
    if (this.#closed) throw new Error('The local model was ended.');
    const rows = await new Promise<readonly (readonly number[])[]>((resolve, reject) => {
      const asked = { question: { id: ++this.#lastId, texts }, resolve, reject };
      this.#asked.push(asked);
      if (this.#asked.length === 1) this.#next();
      signal.addEventListener('abort', () => this.#leave(asked, signal.reason), { once: true });
    });
    return rows.map((row) => new Map(this.labels.map((label, index) => [label, row[index] ?? 0])));
  }

  async close(): Promise<void> {
    this.#closed = true;
    const worker = this.#worker;
    this.#lose(new Error('The local model was ended.'));
    await worker?.terminate();
  }

  /** The one that is with the thread keeps its place until the thread has answered. */
  #leave(asked: Asked, reason: unknown): void {
    asked.reject(reason instanceof Error ? reason : new Error('The check was ended.'));
    const at = this.#asked.indexOf(asked);
    if (at > 0) this.#asked.splice(at, 1);
  }

  #next(): void {
    const [first] = this.#asked;
    if (first !== undefined) this.#worker?.postMessage(first.question);
  }

  #begin(): Promise<void> {
    this.#starting ??= this.#start().finally(() => (this.#starting = undefined));
    return this.#starting;
  }

  #start(): Promise<void> {
    const worker = startThread(new URL('./classify-texts.ts', import.meta.url), { workerData: this.#data });
    worker.unref();
    return new Promise((resolve, reject) => {
      const lose = (error: Error): void => {
        reject(error);
        if (this.#worker === worker) this.#lose(error);
      };
      worker.on('message', (told: ClassifierTold) => {
        if ('ready' in told) {
          if (this.#closed) void worker.terminate();
          else this.#worker = worker;
          resolve();
        } else if (!('id' in told)) {
          lose(new Error(`The model in ${this.#data.folder} cannot be loaded: ${told.failed}`));
          void worker.terminate();
        } else this.#answered(told);
      });
      worker.on('error', lose);
      worker.on('exit', (code) => lose(new Error(`The thread of the local model ended with ${code}.`)));
    });
  }

  #answered(told: ClassifierAnswer): void {
    const asked = this.#asked.shift();
    if ('scores' in told) asked?.resolve(told.scores);
    else asked?.reject(new Error(`The local model failed: ${told.failed}`));
    this.#next();
  }

  #lose(error: Error): void {
    this.#worker = undefined;
    for (const { reject } of this.#asked.splice(0)) reject(error);
  }
}
