import {
  type CheckSubject,
  defineCheck,
  definePlugin,
  failed,
  GatewayError,
  judged,
  type JsonObject,
  passed,
  type RequestContext,
  type Scope,
  skipped,
  Type,
} from '../../core/pipeline/plugin.ts';
import type { Static } from 'typebox';
import { folderFault, LocalClassifier, packagesMissing } from './classifier.ts';

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
