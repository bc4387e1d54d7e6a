import type { ChatAnswer, ChatChoice, TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import type {
  ChatProviderCodec,
  EncodeReport,
  DecodeContext,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatPart, Citation } from '../../../core/dialects/canonical/chat-part.ts';
import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type {
  OperationAnswer,
  OperationCodec,
  UpstreamCallFacts,
  UpstreamPlan,
} from '../../../core/dialects/upstream-plan.ts';
import { endpointPlan } from '../host-endpoints.ts';
import { cohereErrors } from './errors.ts';
import { encodeCohereRequest } from './encode-request.ts';
import { cohereAnswer, CohereEventReader, planMark } from './event-reader.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import {
  asArray,
  asCount,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import { applyQuirks } from '../request-settings.ts';

const sameRerankMembers = ['query', 'top_n', 'max_tokens_per_doc', 'priority'];
const rerankMembers: ReadonlySet<string> = new Set([
  ...sameRerankMembers,
  ...['model', 'documents', 'rank_fields', 'return_documents', 'provider_options'],
]);

/** Rerank at `POST /v2/rerank`: https://docs.cohere.com/reference/rerank */
export const cohereRerank: OperationCodec = {
  encodeRequest(body, host, report) {
    const wire: JsonObject = { model: host.model };
    for (const name of sameRerankMembers) if (body[name] !== undefined) wire[name] = body[name];
    wire.documents = encodeDocuments(body, report);
    for (const [name, value] of Object.entries(body))
      if (!rerankMembers.has(name) && value !== undefined && value !== null) report.drop(name);
    applyQuirks(wire, host.quirks, report);
    Object.assign(wire, asObject(asObject(body.provider_options)?.['cohere-v2']));
    return { path: host.quirks.paths?.rerank ?? '/v2/rerank', body: stringifyExact(wire) };
  },
  decodeAnswer(body, _contentType, request) {
    return decodeRerank(body, request);
  },
  decodeError: cohereErrors.decode,
};

/** The wire accepts texts: objects become YAML, as its documentation advises, with the fields to rank by. */
function encodeDocuments(body: JsonObject, report: EncodeReport): unknown {
  const { documents } = body;
  if (!Array.isArray(documents)) {
    throw new GatewayError('invalid_request', 'documents must be an array of texts or objects.', {
      param: 'documents',
    });
  }
  const fields = asArray(body.rank_fields).filter((name) => typeof name === 'string');
  if (fields.length > 0) report.emulate('rank_fields');
  return documents.map((document: unknown) => {
    const object = asObject(document);
    if (object === undefined) return document;
    const names = fields.length > 0 ? fields : Object.keys(object);
    if (names.length === 1 && names[0] === 'text' && typeof object.text === 'string') return object.text;
    report.emulate('documents');
    return names
      .filter((name) => object[name] !== undefined)
      .map((name) => `${name}: ${yamlValue(object[name])}`)
      .join('\n');
  });
}

/** A one-line value: every JSON value is also YAML, and a text without line ends needs no quotes for a model. */
function yamlValue(value: unknown): string {
  return typeof value === 'string' && !/[\r\n]/.test(value) ? value : JSON.stringify(value, exact);
}

function exact(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value;
}

function decodeRerank(body: Buffer, request: JsonObject): OperationAnswer {
  const json = parseExactObject(body.toString('utf8'));
  if (json === undefined || !Array.isArray(json.results)) {
    throw new GatewayError(
      'upstream_invalid',
      'The provider answered with something that is no Cohere ranking: "results" was expected.',
    );
  }
  const model = asText(request.model) ?? '';
  const documents = request.return_documents === true ? asArray(request.documents) : [];
  const usage = cohereAnswer.usage(json.meta);
  const answer: JsonObject = {
    id: asText(json.id) ?? '',
    object: 'list',
    model,
    results: json.results.map((result: unknown) => withDocument(asObject(result) ?? {}, documents)),
  };
  if (json.meta !== undefined) answer.meta = json.meta;
  const counted: JsonObject = {};
  const searches = asCount(asObject(asObject(json.meta)?.billed_units)?.search_units);
  if (searches !== undefined) counted.search_units = searches;
  if (usage !== undefined) {
    counted.prompt_tokens = usage.promptTokens;
    counted.total_tokens = usage.totalTokens;
  }
  if (Object.keys(counted).length > 0) answer.usage = counted;
  return usage === undefined ? { body: answer, model } : { body: answer, model, usage };
}

/** The second API version does not return the documents: they come from the request. */
function withDocument(result: JsonObject, documents: readonly unknown[]): JsonObject {
  const document = documents[asCount(result.index) ?? -1];
  if (document === undefined || result.document !== undefined) return result;
  return { ...result, document: typeof document === 'string' ? { text: document } : document };
}

/** Members that keep their name. */
const sameEmbeddingMembers = [
  'input_type',
  'truncate',
  'max_tokens',
  'images',
  'inputs',
  'priority',
  'output_dimension',
];
const embeddingMembers: ReadonlySet<string> = new Set([
  ...sameEmbeddingMembers,
  ...['model', 'input', 'encoding_format', 'dimensions', 'embedding_types', 'provider_options'],
]);

/** Embeddings in OpenAI's shape at `POST /v2/embed`: https://docs.cohere.com/reference/embed */
export const cohereEmbeddings: OperationCodec = {
  encodeRequest(body, host, report) {
    const wire: JsonObject = { model: host.model };
    for (const name of sameEmbeddingMembers) if (body[name] !== undefined) wire[name] = body[name];
    encodeInput(wire, body.input);
    // The wire requires it and OpenAI's has no such member: embedded texts are most often the ones to be searched.
    wire.input_type ??= wire.images === undefined ? 'search_document' : 'image';
    wire.embedding_types = embeddingTypes(body);
    if (body.dimensions !== undefined) wire.output_dimension = body.dimensions;
    for (const name of Object.keys(body)) if (!embeddingMembers.has(name)) report.drop(name);
    applyQuirks(wire, host.quirks, report);
    Object.assign(wire, asObject(asObject(body.provider_options)?.['cohere-v2']));
    return { path: host.quirks.paths?.embeddings ?? '/v2/embed', body: stringifyExact(wire) };
  },
  decodeAnswer(body, _contentType, request) {
    return decodeEmbeddings(body, request);
  },
  decodeError: cohereErrors.decode,
};

function embeddingTypes(body: JsonObject): unknown {
  if (Array.isArray(body.embedding_types)) return body.embedding_types;
  return [body.encoding_format === 'base64' ? 'base64' : 'float'];
}

function encodeInput(wire: JsonObject, input: unknown): void {
  if (input === undefined) return;
  const items = Array.isArray(input) ? (input as unknown[]) : [input];
  if (items.every((item) => typeof item === 'string')) {
    wire.texts = items;
    return;
  }
  wire.inputs = items.map((item, index) => ({ content: inputContent(item, index) }));
}

/** One input that is more than text: `{ text, image }`, or content parts as in a chat. */
function inputContent(item: unknown, index: number): unknown[] {
  if (typeof item === 'string') return [{ type: 'text', text: item }];
  const object = asObject(item);
  if (object === undefined) {
    throw new GatewayError(
      'invalid_request',
      `input[${index}] must be text or an object with "text" or "image": Cohere does not take token numbers.`,
      { param: 'input' },
    );
  }
  if (Array.isArray(object.content)) return object.content as unknown[];
  if (object.type !== undefined) return [object];
  const content: unknown[] = [];
  if (object.text !== undefined) content.push({ type: 'text', text: object.text });
  const image = asObject(object.image) ?? {};
  const url = asText(object.image) ?? asText(image.url) ?? asText(image.base64);
  if (url !== undefined) content.push({ type: 'image_url', image_url: { url } });
  return content;
}

function decodeEmbeddings(body: Buffer, request: JsonObject): OperationAnswer {
  const json = parseExactObject(body.toString('utf8'));
  const byType = asObject(json?.embeddings);
  const vectors = byType === undefined ? json?.embeddings : firstOf(byType);
  if (json === undefined || !Array.isArray(vectors)) {
    throw new GatewayError(
      'upstream_invalid',
      'The provider answered with something that are no Cohere embeddings: "embeddings" was expected.',
    );
  }
  const usage = cohereAnswer.usage(json.meta);
  const tokens = usage?.promptTokens ?? 0;
  const model = asText(request.model) ?? '';
  const answer: JsonObject = {
    object: 'list',
    data: vectors.map((embedding: unknown, index) => ({ object: 'embedding', index, embedding })),
    model,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
  // Several kinds were requested: OpenAI's shape has a place for one.
  if (byType !== undefined && Object.keys(byType).length > 1) answer.embeddings = byType;
  return usage === undefined ? { body: answer, model } : { body: answer, model, usage };
}

/** The kind that OpenAI clients read, or the first that is present. */
function firstOf(byType: JsonObject): unknown {
  return [byType.float, byType.base64, ...Object.values(byType)].find((one) => asArray(one).length > 0) ?? [];
}

/** Cohere's chat, API version 2, on the provider side. */
export const cohereV2Provider: ChatProviderCodec = {
  encodeRequest: encodeCohereRequest,
  decodeAnswer: decodeCohereAnswer,
  eventReader: (contentType, context) => new CohereEventReader(contentType, context),
  decodeError: cohereErrors.decode,
};

/** Operations that Cohere does not offer. */
const missing: { readonly [endpoint in EndpointId]?: string } = {
  moderations: 'moderation',
  'images.generations': 'image generation',
  images: 'image operations',
  'audio.speech': 'speech',
  'messages.count_tokens': 'token counting in this shape',
};

/** Hosts of Cohere's API version 2. Their base URL is the host alone: paths carry their version. */
export const cohereV2Host: ProviderDialect = {
  name: 'cohere-v2',
  plan(call: UpstreamCallFacts): UpstreamPlan {
    switch (call.endpoint) {
      case 'embeddings':
        return { kind: 'operation', codec: cohereEmbeddings };
      case 'rerank':
        return call.path === '/v2/rerank'
          ? endpointPlan.passOn(call)
          : { kind: 'operation', codec: cohereRerank };
      case 'models':
        return endpointPlan.passOn(/^\/v\d/.test(call.path) ? call : { ...call, path: `/v1${call.path}` });
      default: {
        const operation = missing[call.endpoint];
        if (operation !== undefined) return endpointPlan.refused(call, operation);
        return endpointPlan.translated(call, cohereV2Provider) ?? endpointPlan.passOn(call);
      }
    }
  },
};

const known: ReadonlySet<string> = new Set(['id', 'message', 'finish_reason', 'usage', 'logprobs']);

interface Placed {
  readonly parts: readonly ChatPart[];
  readonly unplaced: readonly JsonObject[];
}

/** Reads a complete answer. Throws GatewayError `upstream_invalid` for anything else. */
function decodeCohereAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  const json = parseExactObject(body.toString('utf8'));
  const message = asObject(json?.message);
  if (json === undefined || message === undefined) {
    throw new GatewayError(
      'upstream_invalid',
      'The provider answered with something that is no Cohere chat answer: an object with "message" was expected.',
    );
  }
  const { parts, unplaced } = placeCitations(
    [...planPart(message), ...contentParts(message.content), ...callParts(message, context)],
    asArray(message.citations),
  );
  const hasCalls = parts.some(({ type }) => type === 'tool-call');
  const usage = cohereAnswer.usage(json.usage);
  const extras = extrasOf(json, unplaced);
  const logprobs = logprobsOf(json.logprobs);
  const choice: ChatChoice = {
    index: 0,
    parts,
    finish: cohereAnswer.finish(asText(json.finish_reason) ?? '', hasCalls),
    ...(logprobs !== undefined && { logprobs }),
  };
  return {
    id: asText(json.id) ?? '',
    model: context.request.model,
    choices: [choice],
    ...(usage !== undefined && { usage }),
    ...(extras !== undefined && { extras: { 'cohere-v2': extras } }),
  };
}

/** Arguments as JSON text: tools without parameters get `null`, nothing, or an object. */
function argumentsOf(value: unknown): string {
  if (typeof value === 'object' && value !== null) return stringifyExact(value);
  const text = typeof value === 'string' ? value.trim() : '';
  return text === '' || text === 'null' ? '{}' : (value as string);
}

function planPart({ tool_plan: plan }: JsonObject): ChatPart[] {
  const text = asText(plan);
  return text === undefined ? [] : [{ type: 'reasoning', text, extras: planMark }];
}

function contentParts(content: unknown): ChatPart[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  return asArray(content).flatMap((one): ChatPart[] => {
    const block = asObject(one);
    if (block === undefined) return [];
    if (block.type === 'thinking' && typeof block.thinking === 'string')
      return [{ type: 'reasoning', text: block.thinking }];
    if (typeof block.text === 'string') return [{ type: 'text', text: block.text }];
    return [{ type: 'opaque', dialect: 'cohere-v2', value: block }];
  });
}

function callParts({ tool_calls: calls }: JsonObject, context: DecodeContext): ChatPart[] {
  const customs = cohereAnswer.customNames(context.request);
  return asArray(calls).flatMap((one): ChatPart[] => {
    const call = asObject(one);
    const called = asObject(call?.function);
    const name = asText(called?.name);
    if (call === undefined || called === undefined || name === undefined) return [];
    const id = asText(call.id) ?? context.newId('call_');
    const given = argumentsOf(called.arguments);
    return [
      customs.has(name)
        ? { type: 'tool-call', kind: 'custom', id, name, arguments: cohereAnswer.customInput(given) }
        : { type: 'tool-call', kind: 'function', id, name, arguments: given },
    ];
  });
}

/** Puts citations on the texts that they refer to; `unplaced` are those of no text. */
function placeCitations(parts: readonly ChatPart[], citations: readonly unknown[]): Placed {
  const content = parts.filter(({ type, extras }) => type !== 'tool-call' && extras !== planMark);
  const firstText = content.find(({ type }) => type === 'text');
  const unplaced: JsonObject[] = [];
  const placed = new Map<ChatPart, Citation[]>();
  for (const one of citations) {
    const citation = asObject(one);
    if (citation === undefined) continue;
    const index = asCount(citation.content_index);
    const part = index === undefined ? firstText : content[index];
    if (part?.type !== 'text' || !cohereAnswer.isOfText(citation)) unplaced.push(citation);
    else placed.set(part, [...(placed.get(part) ?? []), ...cohereAnswer.citations(citation, part.text)]);
  }
  const cited = parts.map((part) => {
    const citations = placed.get(part);
    return citations === undefined || part.type !== 'text' ? part : { ...part, citations };
  });
  return { parts: cited, unplaced };
}

function logprobsOf(value: unknown): readonly TokenLogprob[] | undefined {
  const items = asArray(value).flatMap((one) => cohereAnswer.logprob(one) ?? []);
  return items.length === 0 ? undefined : items;
}

/** Members that only Cohere has: the billed units, citations of thoughts, and unknown members. */
function extrasOf(json: JsonObject, unplaced: readonly JsonObject[]): JsonObject | undefined {
  const extras = Object.fromEntries(Object.entries(json).filter(([name]) => !known.has(name)));
  const billed = asObject(json.usage)?.billed_units;
  if (billed !== undefined) extras.billed_units = billed;
  if (unplaced.length > 0) extras.citations = unplaced;
  return Object.keys(extras).length === 0 ? undefined : extras;
}
