/** Checks of a request's model, endpoint and metadata. */
import { namesOfModel } from '../../../core/access/scopes.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { endpointIds } from '../../../core/dialects/endpoint.ts';
import {
  type AnyCheck,
  defineCheck,
  linearPattern,
  type OptionFault,
  skipped,
  Type,
  verdictOf,
} from '../../../core/pipeline/plugin.ts';
import { expressions, holdsFor, mostSteps, Not, OperatorOf, strict } from './shared.ts';

const Models = (description: string) =>
  Type.Array(Type.String({ minLength: 1, maxLength: 255 }), { maxItems: 10_000, description });

const noModel = 'The request names no model.';
const ofTool = 'A call of a tool names no model.';

function isListed(model: string, listed: ReadonlySet<string>): boolean {
  return namesOfModel(model).some((name) => listed.has(name));
}

const modelWhitelist = defineCheck({
  id: 'default.modelWhitelist',
  aliases: ['default.modelwhitelist'],
  description:
    'Passes when the model of the request is listed, with or without the `@slug/` before it; with `not`, when it is not listed.',
  phases: ['input'],
  schema: Type.Object(
    {
      models: Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
        minItems: 1,
        maxItems: 10_000,
        description: 'Names of models, as in requests.',
      }),
      not: Not,
    },
    strict,
  ),
  create({ models, not }) {
    const listed = new Set(models);
    return ({ endpoint, model }) => {
      if (endpoint === 'mcp') return skipped(ofTool);
      if (model === '') return skipped(noModel);
      const holds = isListed(model, listed);
      const explanation = `The model is ${holds ? '' : 'not '}one of the list.`;
      return verdictOf(holds, not, { explanation, model: model.slice(0, 200) });
    };
  },
});

const modelRules = defineCheck({
  id: 'default.modelRules',
  description:
    'Passes when the metadata of the request allows the model: `rules.metadata.KEY.VALUE` for every key that the request has; `rules.defaults` if none of them applies.',
  phases: ['input'],
  schema: Type.Object(
    {
      rules: Type.Object(
        {
          defaults: Type.Optional(Models('Models for requests that no rule of `metadata` applies to.')),
          metadata: Type.Optional(
            Type.Record(
              Type.String(),
              Type.Record(Type.String(), Models('Models for this value of the metadata.')),
              { maxProperties: 1000, description: 'Models by key and value of the metadata.' },
            ),
          ),
        },
        { ...strict, description: 'Allowed models.' },
      ),
      not: Not,
    },
    strict,
  ),
  create({ rules: { defaults = [], metadata: rules = {} }, not }) {
    const usual = new Set(defaults);
    const byKey = Object.entries(rules).map(
      ([key, values]): [string, ReadonlyMap<string, readonly string[]>] => [
        key,
        new Map(Object.entries(values)),
      ],
    );
    return ({ endpoint, model, metadata }) => {
      if (endpoint === 'mcp') return skipped(ofTool);
      if (model === '') return skipped(noModel);
      const allowed = byKey.flatMap(([key, values]) =>
        Object.hasOwn(metadata, key) ? (values.get(metadata[key] ?? '') ?? []) : [],
      );
      const rule = allowed.length > 0 ? 'metadata' : 'defaults';
      const holds = isListed(model, allowed.length > 0 ? new Set(allowed) : usual);
      const explanation = `The model is ${holds ? '' : 'not '}allowed by rules.${rule}.`;
      return verdictOf(holds, not, { explanation, rule, model: model.slice(0, 200) });
    };
  },
});

/** The gateway's endpoint for each operation name of existing guardrails. */
const endpointOf: Readonly<Record<string, EndpointId>> = {
  complete: 'completions',
  chatComplete: 'chat.completions',
  embed: 'embeddings',
  moderate: 'moderations',
  imageGenerate: 'images.generations',
  imageEdit: 'images',
  createSpeech: 'audio.speech',
  createTranscription: 'audio',
  createTranslation: 'audio',
  uploadFile: 'files',
  listFiles: 'files',
  retrieveFile: 'files',
  deleteFile: 'files',
  retrieveFileContent: 'files',
  createBatch: 'batches',
  retrieveBatch: 'batches',
  cancelBatch: 'batches',
  listBatches: 'batches',
  getBatchOutput: 'batches',
  listFinetunes: 'fine_tuning.jobs',
  createFinetune: 'fine_tuning.jobs',
  retrieveFinetune: 'fine_tuning.jobs',
  cancelFinetune: 'fine_tuning.jobs',
  createModelResponse: 'responses',
  getModelResponse: 'proxy',
  deleteModelResponse: 'proxy',
  listResponseInputItems: 'proxy',
  messagesCountTokens: 'messages.count_tokens',
};
const typeNames = [...Object.keys(endpointOf), ...endpointIds];

/** Other names of the same endpoint; its own name stands for all of them. */
function namesOf(endpoint: EndpointId): readonly string[] {
  return Object.keys(endpointOf).filter((name) => endpointOf[name] === endpoint);
}

/** Names an endpoint in part: `listFiles` without the other operations on files, which the gateway does not tell apart. */
function partFaults(path: string, types: readonly string[]): readonly OptionFault[] {
  return types.flatMap((type, index) => {
    const endpoint = endpointOf[type];
    if (endpoint === undefined || types.includes(endpoint)) return [];
    const missing = namesOf(endpoint).filter((name) => !types.includes(name));
    if (missing.length === 0 && endpoint !== 'proxy') return [];
    const message = `is "${type}", which this check does not tell from ${missing.join(', ') || 'other paths'}; write "${endpoint}" for all of them`;
    return [{ path: `${path}/${index}`, message }];
  });
}

const Types = (description: string) =>
  Type.Optional(Type.Array(Type.Enum(typeNames), { maxItems: 100, description }));

/** A list of the metadata: `chatComplete, embed`. */
function listOf(text: string | undefined): readonly string[] {
  return (text ?? '').split(',').flatMap((one) => one.trim() || []);
}

const allowedRequestTypes = defineCheck({
  id: 'default.allowedRequestTypes',
  description:
    'Passes when the endpoint is allowed and not blocked. Without either list, the metadata of the request provides them: `supported_endpoints` and `blocked_endpoints`, separated by commas. A blocked endpoint is refused even if the other list allows it.',
  phases: ['input'],
  schema: Type.Object(
    {
      allowedTypes: Types(
        'The only endpoints that may be used: `chatComplete`, or `chat.completions`. Empty: all.',
      ),
      blockedTypes: Types('Endpoints that must not be used.'),
    },
    strict,
  ),
  check({ allowedTypes = [], blockedTypes = [] }) {
    const conflict = allowedTypes.findIndex((type) => blockedTypes.includes(type));
    const faults = [
      ...partFaults('/allowedTypes', allowedTypes),
      ...partFaults('/blockedTypes', blockedTypes),
    ];
    if (conflict < 0) return faults;
    const message = `is "${allowedTypes[conflict]}", which blockedTypes has, too; take it out of one of them`;
    return [{ path: `/allowedTypes/${conflict}`, message }, ...faults];
  },
  create({ allowedTypes = [], blockedTypes = [] }) {
    const isGiven = allowedTypes.length > 0 || blockedTypes.length > 0;
    return ({ endpoint, metadata }) => {
      const allowed = isGiven ? allowedTypes : listOf(metadata['supported_endpoints']);
      const blocked = isGiven ? blockedTypes : listOf(metadata['blocked_endpoints']);
      if (allowed.length === 0 && blocked.length === 0)
        return skipped('Neither the check nor the metadata of the request lists endpoints.');
      const others = namesOf(endpoint);
      const isBlocked = blocked.includes(endpoint) || others.some((name) => blocked.includes(name));
      const isAllowed =
        allowed.length === 0 ||
        allowed.includes(endpoint) ||
        (others.length > 0 && endpoint !== 'proxy' && others.every((name) => allowed.includes(name)));
      const explanation = isBlocked
        ? `The endpoint ${endpoint} is blocked.`
        : `The endpoint ${endpoint} is ${isAllowed ? '' : 'not '}allowed.`;
      const source = isGiven ? 'parameters' : 'metadata';
      return verdictOf(isAllowed && !isBlocked, false, { explanation, source, endpoint });
    };
  },
});

const requiredMetadataKeys = defineCheck({
  id: 'default.requiredMetadataKeys',
  description: 'Passes when the metadata of the request has all, any or none of the keys.',
  phases: ['input'],
  schema: Type.Object(
    {
      metadataKeys: Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
        minItems: 1,
        maxItems: 1000,
        uniqueItems: true,
        description: 'Keys of the metadata.',
      }),
      operator: OperatorOf('keys', 'all'),
    },
    strict,
  ),
  create({ metadataKeys, operator = 'all' }) {
    return ({ metadata }) => {
      const present = metadataKeys.filter((key) => Object.hasOwn(metadata, key));
      const missing = metadataKeys.filter((key) => !present.includes(key));
      const explanation = `${present.length} of ${metadataKeys.length} keys are there; ${operator} must be.`;
      const holds = holdsFor(operator, present.length, metadataKeys.length);
      return verdictOf(holds, false, { explanation, present, missing });
    };
  },
});

const Value = Type.String({ maxLength: 1000 });
const matchTypes = ['exact', 'contains', 'containsAll', 'regex'] as const;

const requiredMetadataKeyValuePairs = defineCheck({
  id: 'default.requiredMetadataKeyValuePairs',
  description: 'Passes when the metadata of the request has all, any or none of the pairs of key and value.',
  phases: ['input'],
  schema: Type.Object(
    {
      metadataPairs: Type.Record(
        Type.String({ minLength: 1, maxLength: 255 }),
        Type.Union([Value, Type.Array(Value, { minItems: 1, maxItems: 100 })]),
        {
          minProperties: 1,
          maxProperties: 100,
          description: 'Required value of each key, or a list of alternatives.',
        },
      ),
      operator: OperatorOf('pairs', 'all'),
      matchType: Type.Optional(
        Type.Enum([...matchTypes], {
          default: 'exact',
          description:
            'Comparison of values: `exact`: they are equal; `contains`: the metadata contains the value; `containsAll`: it contains all values of the list; `regex`: the value is an expression in the syntax of RE2 that matches within it.',
        }),
      ),
    },
    strict,
  ),
  check({ metadataPairs, matchType }) {
    if (matchType !== 'regex') return [];
    return Object.entries(metadataPairs).flatMap(([key, value]) =>
      [value].flat().flatMap((rule) => {
        const path = `/metadataPairs/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
        return expressions.faults(path, rule, (source) => linearPattern(source, mostSteps));
      }),
    );
  },
  create({ metadataPairs, operator = 'all', matchType = 'exact' }) {
    const pairs = Object.entries(metadataPairs).map(([key, value]) => ({
      key,
      isMet: comparison(matchType, [value].flat()),
    }));
    return ({ metadata }) => {
      const isMet = pairs.map(
        ({ key, isMet: met }) => Object.hasOwn(metadata, key) && met(metadata[key] ?? ''),
      );
      const met = pairs.flatMap(({ key }, index) => (isMet[index] === true ? key : []));
      const explanation = `${met.length} of ${pairs.length} pairs are there; ${operator} must be.`;
      return verdictOf(holdsFor(operator, met.length, pairs.length), false, { explanation, met });
    };
  },
});

function comparison(
  matchType: (typeof matchTypes)[number],
  values: readonly string[],
): (text: string) => boolean {
  switch (matchType) {
    case 'exact':
      return (text) => values.includes(text);
    case 'contains':
      return (text) => values.some((value) => text.includes(value));
    case 'containsAll':
      return (text) => values.every((value) => text.includes(value));
    case 'regex': {
      const patterns = values.map((rule) =>
        expressions.compiled(rule, (source) => linearPattern(source, mostSteps)),
      );
      return (text) => patterns.some((pattern) => pattern.test(text));
    }
  }
}

/** Checks of the model, the endpoint and the metadata. */
export const requestChecks: readonly AnyCheck[] = [
  modelWhitelist,
  modelRules,
  allowedRequestTypes,
  requiredMetadataKeys,
  requiredMetadataKeyValuePairs,
];
