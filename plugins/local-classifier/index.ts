import {
  type CheckSubject,
  defineCheck,
  definePlugin,
  failed,
  GatewayError,
  type JsonObject,
  judged,
  passed,
  type RequestContext,
  type Scope,
  skipped,
  Type,
} from '../../core/pipeline/plugin.ts';
import type { Static } from 'typebox';
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Worker } from 'node:worker_threads';
import { startThread } from '../../core/base/start-thread.ts';
import type { ClassifierAnswer, ClassifierData, ClassifierTold, TextsToClassify } from './classify-texts.ts';

const strict = { additionalProperties: false } as const;
const usualThreshold = 0.5;
const usualWaiting = 64;
const timeoutMs = 5000;

const question = {
  model: Type.String({ minLength: 1, description: 'Name of a model of the plugin `local-classifier`.' }),
  labels: Type.Array(Type.String({ minLength: 1 }), {
    minItems: 1,
    maxItems: 100,
    uniqueItems: true,
    description: 'What must not be found: labels of the model (`id2label` of its config.json).',
  }),
  threshold: Type.Optional(
    Type.Number({
      minimum: 0,
      maximum: 1,
      description: `The probability from which on a label is found. Default ${usualThreshold}.`,
    }),
  ),
  roles: Type.Optional(
    Type.Array(Type.String({ minLength: 1 }), {
      minItems: 1,
      maxItems: 20,
      uniqueItems: true,
      description: 'Whose texts are looked at. Default: everybody but `system` and `developer`.',
    }),
  ),
};
const Question = Type.Object(question, strict);
type Question = Static<typeof Question>;

const LocalClassifierSchema = Type.Object(
  {
    models: Type.Record(
      Type.String({ pattern: '^[a-z][a-z0-9-]{0,62}$' }),
      Type.Object(
        {
          folder: Type.String({
            minLength: 1,
            description:
              'Absolute path of a folder with `model.onnx`, `tokenizer.json` and `config.json` (with `id2label`).',
          }),
          max_tokens: Type.Optional(
            Type.Integer({
              minimum: 8,
              maximum: 8192,
              description:
                'Tokens that the model takes at once; longer texts are looked at in pieces. Default: what its config.json says, 512 at the most.',
            }),
          ),
        },
        strict,
      ),
      { minProperties: 1, maxProperties: 10, description: 'Models by the name that checks call them.' },
    ),
    threads: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 64, description: 'Threads of one run of a model. Default 1.' }),
    ),
    max_waiting: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 10_000,
        description: `Judgements that may wait for a model; one more fails at once. Default ${usualWaiting}.`,
      }),
    ),
    deny: Type.Optional(
      Type.Array(Question, {
        maxItems: 20,
        description: 'Refuses requests in which one of these is found, without any guardrail.',
      }),
    ),
  },
  strict,
);

type Models = ReadonlyMap<string, LocalClassifier>;

/** The models of each generation, by an object that all of its plugins share. */
const ofGenerations = new WeakMap<Scope['guards'], Map<string, LocalClassifier>>();

interface Text {
  readonly role: string;
  readonly text: string;
}

/** A label that is found in a text. */
interface Finding {
  readonly label: string;
  readonly score: number;
  readonly role: string;
}

const operators: ReadonlySet<string> = new Set(['system', 'developer']);

function textsOf(texts: readonly Text[], { roles }: Question): readonly Text[] {
  return texts.filter(
    ({ role, text }) =>
      text.trim() !== '' && (roles === undefined ? !operators.has(role) : roles.includes(role)),
  );
}

/** The most probable of the found labels. Rejects for an unknown model or label, and when the model fails. */
async function find(
  models: Models | undefined,
  { model: name, labels, threshold = usualThreshold }: Question,
  texts: readonly Text[],
  signal: AbortSignal,
): Promise<Finding | undefined> {
  const model = models?.get(name);
  if (model === undefined)
    throw new Error(
      `There is no local model "${name}". List the plugin local-classifier with it in the configuration.`,
    );
  const unknown = labels.find((label) => !model.labels.includes(label));
  if (unknown !== undefined)
    throw new Error(
      `The local model "${name}" has no label "${unknown}". It has ${model.labels.slice(0, 20).join(', ')}.`,
    );
  const scores = await model.scores(
    texts.map(({ text }) => text),
    signal,
  );
  let found: Finding | undefined;
  scores.forEach((row, index) => {
    for (const label of labels) {
      const score = row.get(label) ?? 0;
      if (score < threshold || score <= (found?.score ?? -1)) continue;
      found = { label, score, role: texts[index]?.role ?? '' };
    }
  });
  return found;
}

function told({ label, score, role }: Finding, model: string): JsonObject {
  return { model, label, score: Math.round(score * 10_000) / 10_000, role };
}

const classifierCheck = defineCheck({
  id: 'local.classifier',
  description:
    'Fails when a model on this machine finds one of the labels in a text: an ONNX text or token classifier of the plugin `local-classifier`. It breaks where the plugin is not listed, or has no model of this name.',
  phases: ['input', 'output'],
  timeoutMs,
  schema: Question,
  create(parameters, { guards }) {
    return async (subject: CheckSubject) => {
      const texts = textsOf(subject.texts, parameters);
      if (texts.length === 0) return skipped('There is no text to look at.');
      const found = await find(ofGenerations.get(guards), parameters, texts, subject.signal);
      return found === undefined ? passed() : failed(told(found, parameters.model));
    };
  },
});

/** Classifies texts with models on this machine. */
export default definePlugin({
  name: 'local-classifier',
  description:
    'Runs ONNX text classifiers from folders of this machine, each in a thread: for the check `local.classifier` of guardrails, and for refusing requests. Needs the packages `onnxruntime-node` and `@huggingface/tokenizers`, which the gateway does not bring.',
  schema: LocalClassifierSchema,
  offers: [classifierCheck],
  capabilities: { guardrail: true, timeoutMs },
  async check({ models, deny = [] }) {
    const missing = packagesMissing();
    const faults = missing === undefined ? [] : [{ path: '', message: missing }];
    for (const [name, { folder }] of Object.entries(models)) {
      const message = await folderFault(folder);
      if (message !== undefined) faults.push({ path: `/models/${name}/folder`, message });
    }
    deny.forEach(({ model }, index) => {
      if (models[model] !== undefined) return;
      const known = Object.keys(models).join(', ');
      faults.push({
        path: `/deny/${index}/model`,
        message: `names the model "${model}"; the models are ${known}`,
      });
    });
    return faults;
  },
  async create({ models, threads = 1, max_waiting: maxWaiting = usualWaiting, deny = [] }, scope) {
    const { guards } = scope;
    const shared = ofGenerations.get(guards) ?? new Map<string, LocalClassifier>();
    ofGenerations.set(guards, shared);
    const own = new Map<string, LocalClassifier>();
    for (const [name, { folder, max_tokens: maxTokens }] of Object.entries(models)) {
      if (shared.has(name))
        throw new Error(`Two entries of local-classifier have a model "${name}"; give one another name.`);
      const classifier = await LocalClassifier.start({ folder, maxTokens, threads, maxWaiting });
      scope.onDispose(() => {
        shared.delete(name);
        return classifier.close();
      });
      own.set(name, classifier);
      shared.set(name, classifier);
    }
    if (deny.length === 0) return {};

    async function judge(context: RequestContext): Promise<void> {
      const leave = new AbortController();
      const cancel = scope.setTimeout(() => leave.abort(new Error(`It took ${timeoutMs} ms.`)), timeoutMs);
      context.onAbort(() => leave.abort(new Error('The client has left.')));
      try {
        context.set(judged, 'skipped');
        for (const asked of deny) {
          const texts = textsOf(context.conversation.texts, asked);
          if (texts.length === 0) continue;
          const found = await find(own, asked, texts, leave.signal);
          if (found !== undefined) throw refusal(found);
          context.set(judged, 'passed');
        }
      } finally {
        cancel();
      }
    }

    return {
      request(context) {
        const { body } = context;
        if (!body.present || !context.endpoint.modelled) {
          context.set(judged, 'skipped');
          return undefined;
        }
        return body.loaded ? judge(context) : body.load().then(() => judge(context));
      },
    };
  },
});

function refusal({ label }: Finding): GatewayError {
  return new GatewayError('hooks_failed', `The request was refused: a local model finds "${label}" in it.`);
}

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
async function folderFault(folder: string): Promise<string | undefined> {
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
