import type { Answer } from '../../core/pipeline/answer.ts';
import { isJsonObject } from '../../core/base/json.ts';
import { isPublicRequest } from '../../core/pipeline/keys.ts';
import { definePlugin, type HookResult, type RequestContext, Type } from '../../core/pipeline/plugin.ts';

/** Paths that LiteLLM answers without a key. */
const open: ReadonlySet<string> = new Set(['/health/liveliness', '/health/liveness', '/health/readiness']);
const mostMetadata = 64;
const longestText = 128;

/** Paths and headers of LiteLLM's proxy for its clients, beside requests to models. */
export default definePlugin({
  name: 'litellm',
  description:
    "For clients of LiteLLM's proxy: answers `GET /models`, `/model/info` and `/health/…` as it does, adds its headers to answers, and reads tags from `metadata` of the body. Put it behind `auth`. Its routes for keys and teams are an option of `management`; its header `x-litellm-api-key` is read when `server.header_aliases` lists `x-litellm`.",
  schema: Type.Object(
    {
      models: Type.Optional(
        Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
          maxItems: 1000,
          description:
            'Names of models for `GET /models` and `GET /model/info`, instead of those of the providers. Default: `GET /models` lists the models of the providers, and `GET /model/info` none.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  capabilities: { needs: ['key'], stream: 'ignore', reads: ['request.json'], changes: ['request.json'] },
  create({ models }, { prices, clock }) {
    return {
      admit(context) {
        if (open.has(context.path) && context.method === 'GET') context.set(isPublicRequest, true);
      },
      request(context): HookResult {
        context.addResponseHeader('x-litellm-call-id', context.id);
        context.addResponseHeader('x-litellm-version', 'weir');
        if (context.method === 'GET') {
          const document = documentFor(context, models);
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

/** The answer to a path of LiteLLM; undefined for every other. */
function documentFor(context: RequestContext, models: readonly string[] | undefined): object | undefined {
  const { path } = context;
  if (open.has(path)) return path === '/health/readiness' ? { status: 'healthy' } : { status: 'alive' };
  if (path === '/model/info' || path === '/v1/model/info')
    return {
      data: (models ?? []).map((name) => ({
        model_name: name,
        litellm_params: { model: name },
        model_info: { id: name, db_model: false },
      })),
    };
  const named = context.service('provider') ?? context.service('virtual-key') ?? context.service('config');
  if (path !== '/models' || models === undefined || named !== undefined) return undefined;
  return {
    object: 'list',
    data: models.map((id) => ({ id, object: 'model', created: 0, owned_by: 'weir' })),
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
