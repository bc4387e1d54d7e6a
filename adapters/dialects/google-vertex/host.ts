import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type {
  OperationAnswer,
  OperationCodec,
  UpstreamCallFacts,
  UpstreamPlan,
} from '../../../core/dialects/upstream-plan.ts';
import { embeddingsAnswer, endpointPlan } from '../host-endpoints.ts';
import { geminiOperations } from '../google-gemini/operations.ts';
import { geminiPath } from '../google-gemini/model-path.ts';
import type { ChatProviderCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { createAnthropicProvider } from '../anthropic-messages/host.ts';
import { createGeminiProvider } from '../google-gemini/host.ts';
import { openAiChatProvider } from '../openai-chat/host.ts';
import { asArray, asCount, asObject, type JsonObject, stringifyExact } from '../json-reading.ts';
import { geminiErrors } from '../google-gemini/errors.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { encodeSegment } from '../../../core/base/bytes.ts';
import { chatEndpoints } from '../../../core/dialects/endpoint.ts';

/** A model of Vertex AI with its publisher. */
interface VertexModel {
  /** `google`, `anthropic`, `mistralai`, `meta` …; `endpoints` for a model at an endpoint of its own. */
  readonly publisher: string;
  /** Name without the publisher. */
  readonly name: string;
  /** The complete resource name when the caller gave one. */
  readonly resource?: string;
}

/** Publishers by the prefix of a bare model name; all other names belong to Google. */
const bareNames: readonly (readonly [RegExp, string])[] = [
  [/^claude/, 'anthropic'],
  [/^(?:mistral|ministral|codestral)/, 'mistralai'],
  [/^jamba/, 'ai21'],
  [/^llama/, 'meta'],
];

/** Publishers that may precede a dot or a slash. Model names contain dots, too, so that only these count. */
const publishers: ReadonlySet<string> = new Set([
  'google',
  'anthropic',
  'meta',
  'mistralai',
  'ai21',
  'deepseek-ai',
  'qwen',
  'openai',
  'moonshotai',
  'minimaxai',
  'zai-org',
  'xai',
  'endpoints',
]);

/**
 * Reads a model in any of its forms: `anthropic.claude-sonnet-4`, `meta/llama-3.3-70b`, `publishers/google/models/x`, a
 * complete resource name (`projects/…/publishers/…/models/x`, `projects/…/endpoints/1`), `endpoints.1`, a bare name.
 */
function readVertexModel(model: string): VertexModel {
  const published = /(?:^|\/)publishers\/([^/]+)\/models\/([^/]+)$/.exec(model);
  const isComplete = /^projects\/[^/]+\/locations\//.test(model);
  if (published !== null) {
    const publisher = published[1] as string;
    const name = published[2] as string;
    return isComplete ? { publisher, name, resource: model } : { publisher, name };
  }
  // A tuned Gemini model is deployed to an endpoint.
  if (isComplete)
    return { publisher: 'google', name: model.slice(model.lastIndexOf('/') + 1), resource: model };
  const [, before, after] = /^([^./]+)[./](.+)$/.exec(model) ?? [];
  if (before !== undefined && after !== undefined) {
    if (publishers.has(before)) return { publisher: before, name: after };
    if (before === 'models') return { publisher: 'google', name: after };
  }
  const known = bareNames.find(([pattern]) => pattern.test(model));
  return { publisher: known?.[1] ?? 'google', name: model };
}

/** Path of the project's part of the API. Throws `invalid_request` with the name of a missing setting. */
function projectPath({ settings, provider }: HostFacts): string {
  const project = setting(settings.vertex_project_id, 'vertex_project_id', provider);
  const region = setting(settings.vertex_region, 'vertex_region', provider);
  return `/v1/${geminiPath.encodeResource(`projects/${project}/locations/${region}`)}`;
}

/** Path of a method of a model: `/v1/projects/p/locations/r/publishers/google/models/m:generateContent`. */
function vertexPath(host: HostFacts, model: VertexModel, method: string): string {
  if (model.resource !== undefined) return `/v1/${geminiPath.encodeResource(model.resource)}:${method}`;
  if (model.publisher === 'endpoints')
    return `${projectPath(host)}/${geminiPath.encodeResource(`endpoints/${model.name}`)}:${method}`;
  return `${projectPath(host)}/${geminiPath.encodeResource(`publishers/${model.publisher}/models/${model.name}`)}:${method}`;
}

function setting(value: string | undefined, name: string, provider: string): string {
  if (value !== undefined && value !== '') return value;
  throw new GatewayError(
    'invalid_request',
    `The provider "${provider}" needs ${name}. Set it where the provider is configured, or name the model by its complete resource name (projects/…/locations/…/publishers/…/models/…).`,
    { param: name },
  );
}

/** Embeddings through `:predict`. Members of `provider_options.google-vertex` go into every instance. */
const vertexEmbeddings: OperationCodec = {
  encodeRequest(body, host, report) {
    const own = asObject(asObject(body.provider_options)?.['google-vertex']);
    const instances = geminiOperations.textsOf(body.input).map((content) => ({ content, ...own }));
    geminiOperations.reportUnknown(body, ['model', 'input', 'dimensions', 'encoding_format'], report);
    const request: JsonObject = { instances };
    if (body.dimensions !== undefined) request.parameters = { outputDimensionality: body.dimensions };
    return {
      path: vertexPath(host, readVertexModel(host.model), 'predict'),
      body: stringifyExact(request),
    };
  },
  decodeAnswer,
  decodeError: geminiErrors.decode,
};

function decodeAnswer(body: Buffer, _contentType: string, request: JsonObject): OperationAnswer {
  let tokens: number | undefined;
  const vectors = asArray(geminiOperations.requireAnswer(body).predictions).map((value) => {
    const embedding = asObject(asObject(value)?.embeddings);
    const counted = asCount(asObject(embedding?.statistics)?.token_count);
    if (counted !== undefined) tokens = (tokens ?? 0) + counted;
    return asArray(embedding?.values);
  });
  return embeddingsAnswer(vectors, request, tokens);
}

/** The version of the Messages API that Vertex AI documents, sent in the body. */
const anthropicVersion = 'vertex-2023-10-16';

/** Publishers whose models accept chat completions through `rawPredict`; the others share one address. */
const rawPredicted: ReadonlySet<string> = new Set(['mistralai', 'ai21']);

/** Gemini models, and tuned ones at their endpoint. */
const vertexGemini: ChatProviderCodec = createGeminiProvider((host, method) =>
  vertexPath(host, readVertexModel(host.model), method),
);

const anthropic = createAnthropicProvider({
  path: '',
  extraBody: { anthropic_version: anthropicVersion },
  modelInPath: true,
  alsoOwn: ['google-vertex'],
});

/** Claude models: the Messages wire at `rawPredict`. */
const vertexAnthropic: ChatProviderCodec = at(anthropic, ({ name }) => name, rawPredictPath);

/** Models with the chat completions wire. */
const vertexOpenAi: ChatProviderCodec = at(openAiChatProvider, openAiModel, openAiPath);

/** The codec for a model. */
function codecOf({ publisher }: VertexModel): ChatProviderCodec {
  if (publisher === 'google') return vertexGemini;
  return publisher === 'anthropic' ? vertexAnthropic : vertexOpenAi;
}

/** Path of a Claude model, or of another one that takes raw bodies. */
function rawPredictPath(host: HostFacts, model: VertexModel, stream: boolean): string {
  return vertexPath(host, model, stream ? 'streamRawPredict' : 'rawPredict');
}

/** Path of chat completions for a model. */
function openAiPath(host: HostFacts, model: VertexModel, stream: boolean): string {
  if (rawPredicted.has(model.publisher)) return rawPredictPath(host, model, stream);
  const endpoint = model.publisher === 'endpoints' ? model.name : 'openapi';
  return `${projectPath(host)}/endpoints/${encodeSegment(endpoint)}/chat/completions`;
}

/** The model's name in a chat completions body. */
function openAiModel({ publisher, name }: VertexModel): string {
  return rawPredicted.has(publisher) || publisher === 'endpoints' ? name : `${publisher}/${name}`;
}

/** A codec of another wire, with the model's own name and path on Vertex AI. */
function at(
  codec: ChatProviderCodec,
  nameOf: (model: VertexModel) => string,
  pathOf: (host: HostFacts, model: VertexModel, stream: boolean) => string,
): ChatProviderCodec {
  return {
    ...codec,
    encodeRequest(request, host, report) {
      const model = readVertexModel(host.model);
      const encoded = codec.encodeRequest(request, { ...host, model: nameOf(model) }, report);
      return { ...encoded, path: pathOf(host, model, request.stream) };
    },
  };
}

const images = geminiOperations.images(pathOf);
const speech = geminiOperations.speech(pathOf);

/**
 * Vertex AI. Its base URL is the region's root; `vertex_project_id` and `vertex_region` come from the provider's
 * settings. The model decides the wire: Gemini's, Anthropic's or chat completions.
 */
export const googleVertexHost: ProviderDialect = {
  name: 'google-vertex',
  plan(call) {
    const model = readVertexModel(call.host.model);
    if (chatEndpoints.has(call.endpoint))
      return passOwn(call, model) ?? { kind: 'chat', codec: codecOf(model) };
    switch (call.endpoint) {
      case 'embeddings':
        return { kind: 'operation', codec: vertexEmbeddings };
      case 'images.generations':
        return { kind: 'operation', codec: images };
      case 'audio.speech':
        return { kind: 'operation', codec: speech };
      case 'moderations':
        return endpointPlan.refused(call, 'moderation');
      case 'rerank':
        return endpointPlan.refused(call, 'reranking');
      case 'messages.count_tokens':
        return countTokens(call, model);
      default:
        return call.spoken === 'google-gemini' ? passMethod(call) : endpointPlan.passOn(call);
    }
  },
};

function pathOf(host: HostFacts, method: string): string {
  return vertexPath(host, readVertexModel(host.model), method);
}

/** Passes the bytes unchanged when the client uses the wire of the requested model. */
function passOwn(call: UpstreamCallFacts, model: VertexModel): UpstreamPlan | undefined {
  const { host, stream } = call;
  if (call.endpoint === 'generate-content' && model.publisher === 'google') {
    const method =
      geminiPath.read(call.path)?.method ?? (stream ? 'streamGenerateContent' : 'generateContent');
    return { kind: 'pass', path: vertexPath(host, model, method) + geminiPath.withoutKey(call.query) };
  }
  if (call.endpoint === 'messages' && model.publisher === 'anthropic')
    return {
      kind: 'pass',
      path: rawPredictPath(host, model, stream),
      edit(body) {
        body.remove(['model']);
        body.set(['anthropic_version'], anthropicVersion);
      },
    };
  if (call.endpoint !== 'chat.completions' || model.publisher === 'google' || model.publisher === 'anthropic')
    return undefined;
  return {
    kind: 'pass',
    path: openAiPath(host, model, stream),
    edit: (body) => body.set(['model'], openAiModel(model)),
  };
}

/** Claude models count tokens through the model `count-tokens`. */
function countTokens(call: UpstreamCallFacts, model: VertexModel): UpstreamPlan {
  if (model.publisher !== 'anthropic')
    return endpointPlan.refused(call, 'token counting for the Messages API');
  return {
    kind: 'pass',
    path: `${projectPath(call.host)}/publishers/anthropic/models/count-tokens:rawPredict`,
    edit: (body) => body.set(['model'], model.name),
  };
}

/** Other methods of the Gemini wire (`:countTokens` …) at the model's path on Vertex AI. */
function passMethod(call: UpstreamCallFacts): UpstreamPlan {
  const named = geminiPath.read(call.path);
  if (named === undefined || named.method === '')
    return { kind: 'pass', path: call.path + geminiPath.withoutKey(call.query) };
  const path = vertexPath(call.host, readVertexModel(named.model), named.method);
  return { kind: 'pass', path: path + geminiPath.withoutKey(call.query) };
}
