import { AllowedModels } from '../../core/access/scopes.ts';
import type { Answer } from '../../core/pipeline/answer.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/base/json.ts';
import { defineRoute, type RouteDefinition } from '../../core/pipeline/define-route.ts';
import { callerKey, isPublicRequest } from '../../core/pipeline/keys.ts';
import {
  definePlugin,
  GatewayError,
  type HookResult,
  type RequestContext,
  type Static,
  Type,
} from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { Prices } from '../../core/ports/prices.ts';

/** Paths that LiteLLM answers without a key. */
const open: ReadonlySet<string> = new Set(['/health/liveliness', '/health/liveness', '/health/readiness']);
const mostMetadata = 64;
const longestText = 128;

const Name = Type.String({ minLength: 1, maxLength: 255 });
const Tokens = Type.Optional(Type.Integer({ minimum: 1 }));
const Model = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 255, description: 'As clients ask for it.' }),
    provider: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 255,
        description: 'Kind of provider (`openai`), for its prices.',
      }),
    ),
    model: Type.Optional(
      Type.String({ minLength: 1, maxLength: 255, description: 'At the provider. Default: `name`.' }),
    ),
    id: Type.Optional(
      Type.String({ minLength: 1, maxLength: 255, description: 'Of the deployment. Default: `name`.' }),
    ),
    mode: Type.Optional(
      Type.String({ minLength: 1, maxLength: 64, description: 'What it does: `chat`, `embedding` …' }),
    ),
    max_tokens: Tokens,
    max_input_tokens: Tokens,
    max_output_tokens: Tokens,
  },
  { additionalProperties: false },
);
type Deployment = Static<typeof Model>;
const List = Type.Object({
  data: Type.Array(Type.Object({}, { additionalProperties: true })),
});

/** Paths and headers of LiteLLM's proxy for its clients, beside requests to models. */
export default definePlugin({
  name: 'litellm',
  description:
    "For clients of LiteLLM's proxy: answers `GET /models`, `/model/info`, `/model_group/info` and `/health/…` as it does, adds its headers to answers, and reads tags from `metadata` of the body. Put it behind `auth`. Its routes for keys and teams are an option of `management`; its header `x-litellm-api-key` is read when `server.header_aliases` lists `x-litellm`.",
  schema: Type.Object(
    {
      models: Type.Optional(
        Type.Array(Type.Union([Name, Model]), {
          maxItems: 1000,
          description:
            'Models for `GET /models`, `/model/info` and `/model_group/info`, by name or with what is known of each deployment; several of one name are one model. Default: `GET /models` lists the models of the providers, and the others are not there.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  capabilities: {
    needs: ['key'],
    stream: 'ignore',
    reads: ['request.json'],
    changes: ['request.json'],
    routes: true,
  },
  create({ models }, { prices, clock, directory }) {
    const deployments = (models ?? []).map((one): Deployment =>
      typeof one === 'string' ? { name: one } : one,
    );
    const allowedOf = (key: KeyRecord | undefined): readonly Deployment[] => {
      const allowed = AllowedModels.of(key, directory);
      return allowed === undefined ? deployments : deployments.filter(({ name }) => allowed.allows(name));
    };
    const infoOf = (one: Deployment): JsonObject => deploymentInfo(one, prices, clock.now());
    const read = (
      id: string,
      path: string,
      summary: string,
      data: (
        shown: readonly Deployment[],
        query: { litellm_model_id?: string; model_group?: string },
      ) => JsonObject[],
    ): RouteDefinition =>
      defineRoute({
        id,
        method: 'GET',
        path,
        summary,
        // Names and prices of models, for every key.
        scope: [],
        // Reads only.
        audit: null,
        query: Type.Object(
          { litellm_model_id: Type.Optional(Name), model_group: Type.Optional(Name) },
          { additionalProperties: false },
        ),
        reply: List,
        handle: ({ query, key }) => ({ data: data(allowedOf(key), query) }),
      });
    return {
      routes:
        models === undefined
          ? []
          : [
              read(
                'litellm.model_info',
                '/model/info',
                'LiteLLM: deployments with their prices, without secrets',
                (shown, { litellm_model_id: id, model_group: group }) =>
                  shown
                    .filter((one) => (id ?? idOf(one)) === idOf(one) && (group ?? one.name) === one.name)
                    .map(infoOf),
              ),
              read(
                'litellm.model_group_info',
                '/model_group/info',
                'LiteLLM: models, each with the providers and the dearest price of its deployments',
                (shown, { model_group: group }) =>
                  namesOf(shown)
                    .filter((name) => (group ?? name) === name)
                    .map((name) =>
                      groupInfo(
                        name,
                        shown.filter((one) => one.name === name).map((one) => infoOf(one)['model_info']),
                      ),
                    ),
              ),
            ],
      admit(context) {
        if (open.has(context.path) && context.method === 'GET') context.set(isPublicRequest, true);
      },
      request(context): HookResult {
        context.addResponseHeader('x-litellm-call-id', context.id);
        context.addResponseHeader('x-litellm-version', 'weir');
        if (context.method === 'GET') {
          const document =
            documentFor(context) ??
            (models !== undefined && asksForModels(context)
              ? modelList(namesOf(allowedOf(context.get(callerKey))))
              : undefined);
          if (document !== undefined) return json(document);
        }
        readTags(context);
        return undefined;
      },
      attempted(context) {
        context.replaceResponseHeader('x-litellm-model-id', context.facts.option);
        context.replaceResponseHeader('x-litellm-model-group', context.facts.modelRequested || undefined);
        return undefined;
      },
      response(context) {
        const { usage, aiService, modelAnswered, modelRequested } = context.facts;
        if (usage === undefined || context.response.source !== 'provider') return;
        const { cost, status } = prices.price(usage, aiService, modelAnswered || modelRequested, clock.now());
        if (status === 'priced') context.response.setHeader('x-litellm-response-cost', String(Number(cost)));
      },
    };
  },
});

function namesOf(deployments: readonly Deployment[]): readonly string[] {
  return [...new Set(deployments.map(({ name }) => name))];
}

function idOf({ id, name }: Deployment): string {
  return id ?? name;
}

/** A deployment as LiteLLM shows one. Unknown members are null. */
function deploymentInfo(one: Deployment, prices: Prices, now: number): JsonObject {
  const { name, provider, model = name } = one;
  const rates = provider === undefined ? undefined : prices.rates(provider, model, now);
  return {
    model_name: name,
    litellm_params: { model: provider === undefined ? model : `${provider}/${model}` },
    model_info: {
      id: idOf(one),
      db_model: false,
      key: model,
      litellm_provider: provider ?? null,
      mode: one.mode ?? null,
      max_tokens: one.max_tokens ?? one.max_output_tokens ?? null,
      max_input_tokens: one.max_input_tokens ?? null,
      max_output_tokens: one.max_output_tokens ?? one.max_tokens ?? null,
      input_cost_per_token: rates?.input ?? null,
      output_cost_per_token: rates?.output ?? null,
      cache_read_input_token_cost: rates?.cacheRead ?? null,
      cache_creation_input_token_cost: rates?.cacheWrite ?? null,
    },
  };
}

/** A model as LiteLLM shows one: the most that a deployment of it has and costs. */
function groupInfo(name: string, infos: readonly (JsonValue | undefined)[]): JsonObject {
  const known = infos.filter(isJsonObject);
  const most = (member: string): number | null => {
    const numbers = known.map((one) => one[member]).filter((value) => typeof value === 'number');
    return numbers.length === 0 ? null : Math.max(...numbers);
  };
  const texts = (member: string): string[] => [
    ...new Set(known.map((one) => one[member]).filter((value) => typeof value === 'string')),
  ];
  return {
    model_group: name,
    providers: texts('litellm_provider'),
    mode: texts('mode')[0] ?? null,
    max_input_tokens: most('max_input_tokens'),
    max_output_tokens: most('max_output_tokens'),
    input_cost_per_token: most('input_cost_per_token'),
    output_cost_per_token: most('output_cost_per_token'),
  };
}

/** The answer to a path of LiteLLM that has no part for each key; undefined for every other. */
function documentFor({ path }: RequestContext): object | undefined {
  if (open.has(path)) return path === '/health/readiness' ? { status: 'healthy' } : { status: 'alive' };
  if (path === '/health')
    throw new GatewayError(
      'not_supported',
      'GET /health of LiteLLM asks each model, and the gateway asks none on its own. Call GET /readyz, or GET /health/readiness.',
    );
  return undefined;
}

/** Whether the request asks for the list of models, and names nobody to ask. */
function asksForModels(context: RequestContext): boolean {
  const named = context.service('provider') ?? context.service('virtual-key') ?? context.service('config');
  return context.path === '/models' && named === undefined;
}

function modelList(names: readonly string[]): object {
  return {
    object: 'list',
    data: names.map((id) => ({ id, object: 'model', created: 0, owned_by: 'weir' })),
  };
}

/**
 * Moves tags of `metadata.tags` of the body, or of `x-litellm-tags`, to the text `tags` of the request's metadata: to
 * providers, metadata are texts.
 */
function readTags(context: RequestContext): void {
  const { json, facts } = context;
  const header = context.header('x-litellm-tags');
  const metadata = isJsonObject(json) && isJsonObject(json['metadata']) ? json['metadata'] : {};
  const listed = Array.isArray(metadata['tags'])
    ? metadata['tags'].filter((tag) => typeof tag === 'string')
    : [];
  const tags = [...listed, ...(header === undefined ? [] : header.split(',').map((tag) => tag.trim()))];
  if (Array.isArray(metadata['tags'])) {
    const isOnly = Object.keys(metadata).length === 1;
    context.body.remove(isOnly ? ['metadata'] : ['metadata', 'tags']);
  }
  if (tags.length === 0 || Object.keys(facts.metadata).length >= mostMetadata) return;
  facts.metadata = { ...facts.metadata, tags: tags.join(',').slice(0, longestText) };
}

function json(document: object): Answer {
  return {
    status: 200,
    headers: ['content-type', 'application/json'],
    body: Buffer.from(JSON.stringify(document)),
    isJson: true,
  };
}
