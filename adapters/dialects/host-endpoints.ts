import type {
  ChatClientCodec,
  ChatProviderCodec,
  EncodedRequest,
  EncodeReport,
} from '../../core/dialects/canonical/chat-codec.ts';
import { chatEndpoints, type DialectName } from '../../core/dialects/endpoint.ts';
import type {
  OperationAnswer,
  OperationCodec,
  UpstreamCallFacts,
  UpstreamPlan,
} from '../../core/dialects/upstream-plan.ts';
import type { ChatRequest } from '../../core/dialects/canonical/chat-request.ts';
import type { HostFacts } from '../../core/dialects/host-facts.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import {
  asArray,
  asCount,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  parseObject,
  asUnixTime,
} from './json-reading.ts';
import { noUsage } from '../../core/dialects/usage.ts';
import type { ListedModel, ModelListing } from '../../core/dialects/model-list.ts';

/** Plans of a call to an endpoint of a host. */
export const endpointPlan = { passOn, translated, refused: refusedPlan };

const openAi: ModelListing = {
  path: () => '/models',
  read: (body) => readModelList(body, 'data', (one) => entry(one, asText(one.id))),
};

const anthropic: ModelListing = {
  path: () => '/models?limit=1000',
  read: (body) => readModelList(body, 'data', (one) => entry(one, asText(one.id))),
};

const gemini: ModelListing = {
  path: () => '/v1beta/models?pageSize=1000',
  read: (body) =>
    readModelList(body, 'models', (one) => entry(one, asText(one.name)?.replace(/^models\//, ''))),
};

const cohere: ModelListing = {
  path: () => '/v1/models?page_size=1000',
  read: (body) => readModelList(body, 'models', (one) => entry(one, asText(one.name))),
};

const azure: ModelListing = { ...openAi, path: () => '/v1/models' };

const workersAi: ModelListing = {
  path: () => '/models/search?per_page=1000',
  read: (body) => readModelList(body, 'result', (one) => entry(one, asText(one.name))),
};

/** Model lists by host. Bedrock's list is on another host and Vertex has no list of its own: both are left out. */
export const modelListings: Readonly<Partial<Record<DialectName, ModelListing>>> = {
  'openai-chat': openAi,
  'openai-completions': openAi,
  'openai-responses': openAi,
  'azure-openai': azure,
  'anthropic-messages': anthropic,
  'google-gemini': gemini,
  'cohere-v2': cohere,
  'workers-ai': workersAi,
};

function readModelList(
  body: Buffer,
  member: string,
  read: (one: JsonObject) => ListedModel | undefined,
): readonly ListedModel[] {
  const list = asArrayOfBody(body, member);
  if (list === undefined) {
    throw new GatewayError('upstream_invalid', "The provider's answer is no list of models.", {
      source: 'provider',
    });
  }
  return list.flatMap((one) => {
    const found = read(asObject(one) ?? {});
    return found === undefined ? [] : [found];
  });
}

/** Some hosts answer with the bare list. */
function asArrayOfBody(body: Buffer, member: string): readonly unknown[] | undefined {
  const text = body.toString('utf8');
  const whole = parseObject(text);
  if (whole !== undefined) return Array.isArray(whole[member]) ? asArray(whole[member]) : undefined;
  const bare = parseObject(`{"list":${text}}`)?.list;
  return Array.isArray(bare) ? asArray(bare) : undefined;
}

function entry(one: JsonObject, id: string | undefined): ListedModel | undefined {
  if (id === undefined) return undefined;
  const date = asText(one.created_at);
  const created = asUnixTime(asCount(one.created) ?? Date.parse(date ?? '') / 1000);
  const owner = asText(one.owned_by);
  return {
    id,
    ...(created === undefined ? {} : { created }),
    ...(owner === undefined ? {} : { ownedBy: owner }),
  };
}

/** Passes the bytes unchanged to the same path below the host's base URL. */
function passOn(call: UpstreamCallFacts): UpstreamPlan {
  return { kind: 'pass', path: call.path + call.query };
}

/** Translates chat in another dialect through the canonical form; undefined for everything else. */
function translated(call: UpstreamCallFacts, codec: ChatProviderCodec): UpstreamPlan | undefined {
  return chatEndpoints.has(call.endpoint) ? { kind: 'chat', codec } : undefined;
}

/** Refuses an operation that the host does not have. */
function refusedPlan(call: UpstreamCallFacts, operation: string): UpstreamPlan {
  return {
    kind: 'refuse',
    message: `The provider "${call.host.provider}" has no ${operation}. Send the request to one that has it.`,
  };
}

/** Token counting of a host. */
export interface TokenCounting {
  encode(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest;
  /** Member of the answer that holds the number. */
  readonly member: string;
  readonly decodeError: OperationCodec['decodeError'];
}

/**
 * `messages/count_tokens` through another host's count: the body is that of Anthropic's wire, read by `client`; the
 * answer is `{input_tokens}`.
 */
export function countTokensOperation(client: ChatClientCodec, host: TokenCounting): OperationCodec {
  const { member, decodeError } = host;
  return {
    encodeRequest(body, facts, report) {
      const { model } = facts;
      const call = { body, model, stream: false, query: '', header: () => undefined };
      return host.encode(client.decodeRequest(call), facts, report);
    },
    decodeAnswer(body) {
      const tokens = asCount(parseExactObject(body.toString('utf8'))?.[member]);
      if (tokens !== undefined) return { body: { input_tokens: tokens } };
      throw new GatewayError(
        'upstream_invalid',
        `The provider counted no tokens: its answer has no "${member}".`,
        { source: 'provider' },
      );
    },
    decodeError,
  };
}

/**
 * Vectors in OpenAI's shape. Its clients read `usage`: when the host counts nothing, it is zero and no usage is
 * recorded.
 */
export function embeddingsAnswer(
  embeddings: readonly (readonly unknown[])[],
  request: JsonObject,
  tokens: number | undefined,
): OperationAnswer {
  const model = asText(request.model) ?? '';
  const data = embeddings.map((vector, index) => ({
    object: 'embedding',
    index,
    embedding: encodedVector(vector, request.encoding_format),
  }));
  const usage = { prompt_tokens: tokens ?? 0, total_tokens: tokens ?? 0 };
  const body: JsonObject = { object: 'list', data, model, usage };
  if (tokens === undefined) return { body, model };
  return { body, model, usage: { ...noUsage, promptTokens: tokens, totalTokens: tokens } };
}

/**
 * A vector in the form of `encoding_format`: `base64` packs the numbers as OpenAI does (little-endian 32-bit floats, 0
 * for anything but a number), the default of its SDKs. Other formats leave it unchanged.
 */
export function encodedVector(vector: unknown, encodingFormat: unknown): unknown {
  if (encodingFormat !== 'base64') return vector;
  const numbers = asArray(vector);
  const bytes = Buffer.alloc(numbers.length * 4);
  numbers.forEach((value, at) => bytes.writeFloatLE(typeof value === 'number' ? value : 0, at * 4));
  return bytes.toString('base64');
}
