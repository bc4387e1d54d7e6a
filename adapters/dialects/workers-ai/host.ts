import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import { embeddingsAnswer, endpointPlan } from '../host-endpoints.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import {
  type ChatEventReader,
  type ChatProviderCodec,
  type DecodeContext,
  type EncodedRequest,
  type EncodeReport,
  reportForeignExtras,
} from '../../../core/dialects/canonical/chat-codec.ts';
import { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import {
  asArray,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import { chatAnswer, ChunkDecoder, DoneStreamReader } from '../openai-chat/decode-answer.ts';
import { chatMembers } from '../openai-chat/host.ts';
import { openAiErrors, openAiUsage } from '../openai-shapes.ts';
import type { OperationAnswer, OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { bodyIssues, requestMember } from '../request-members.ts';
import type { ChatRequest, ResponseFormat } from '../../../core/dialects/canonical/chat-request.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { chatMessages } from '../openai-chat/encode-messages.ts';
import { reportUnsayable, type Setting } from '../request-settings.ts';

/** A request to `POST /run/{model}`: https://developers.cloudflare.com/workers-ai/models/ */
function encodeRequest(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest {
  const body: JsonObject = { messages: messagesOf(request, host, report) };
  addTools(body, request, report);
  chatMembers.addGiven(body, {
    max_tokens: request.maxOutputTokens,
    temperature: request.temperature,
    top_p: request.topP,
    top_k: request.topK,
    seed: request.seed,
    frequency_penalty: request.frequencyPenalty,
    presence_penalty: request.presencePenalty,
    response_format: responseFormat(request.responseFormat, report),
  });
  if (request.stream) body.stream = true;
  reportUnsayable(request, unsayable, report);
  reportForeignExtras(request.extras, ['workers-ai'], report);
  const fitted = chatMembers.applyQuirks(body, host, report);
  return { path: runPath(host), body: stringifyExact(Object.assign(fitted, request.extras?.['workers-ai'])) };
}

/** OpenAI's messages, except that content is never null. */
function messagesOf(request: ChatRequest, host: HostFacts, report: EncodeReport): JsonObject[] {
  const messages = chatMessages.encode(request.messages, { host, report });
  for (const message of messages) message.content ??= '';
  return messages;
}

/** Tools are functions without a wrapper. */
function addTools(body: JsonObject, request: ChatRequest, report: EncodeReport): void {
  const { toolChoice } = request;
  if (toolChoice?.type === 'none') {
    // The wire has no such setting; without tools none is called.
    request.tools.forEach((_tool, i) => report.emulate(`tools[${i}]`));
    return;
  }
  const tools: JsonObject[] = [];
  request.tools.forEach((tool, i) => {
    if (tool.type !== 'function') {
      report.drop(`tools[${i}]`);
      return;
    }
    const { name, description, parameters } = tool;
    tools.push(requestMember.given<JsonObject>({ name, description, parameters }));
    if (tool.strict !== undefined) report.drop(`tools[${i}].function.strict`);
    if (tool.cache !== undefined) report.drop(`tools[${i}].cache_control`);
    reportForeignExtras(tool.extras, ['workers-ai'], report, `tools[${i}].`);
  });
  if (tools.length > 0) body.tools = tools;
  if (toolChoice !== undefined && toolChoice.type !== 'auto') report.drop('tool_choice');
}

/** The schema without the wrapper object that OpenAI has. */
function responseFormat(format: ResponseFormat | undefined, report: EncodeReport): JsonObject | undefined {
  if (format === undefined) return undefined;
  if (format.type !== 'json-schema') return format.type === 'json' ? { type: 'json_object' } : undefined;
  if (format.strict !== undefined) report.drop('response_format.json_schema.strict');
  if (format.description !== undefined) report.drop('response_format.json_schema.description');
  if (format.name !== undefined) report.drop('response_format.json_schema.name');
  return { type: 'json_schema', json_schema: format.schema };
}

/** Settings that the wire cannot express. */
const unsayable: readonly Setting[] = [
  ...([
    'parallel_tool_calls',
    'stop',
    'n',
    'logprobs',
    'top_logprobs',
    'logit_bias',
    'reasoning_effort',
  ] as const),
  ...(['verbosity', 'user', 'safety_identifier', 'prompt_cache_key', 'metadata', 'service_tier'] as const),
  ...(['store', 'modalities', 'audio'] as const),
];

/**
 * Path of a model below a base URL that ends in `/ai`. Its name keeps its slashes and its `@`. Throws `invalid_request`
 * for a name that would lead to another path.
 */
function runPath({ model }: HostFacts): string {
  return `/run/${model.split('/').map(segment).join('/')}`;
}

function segment(text: string): string {
  if (text === '.' || text === '..') {
    throw new GatewayError(
      'invalid_request',
      'model must be the name of a model of Workers AI (@cf/…); found one with a dot segment.',
      { param: 'model' },
    );
  }
  return encodeURIComponent(text).replaceAll('%40', '@');
}

const handled: ReadonlySet<string> = new Set(['model', 'input', 'encoding_format', 'provider_options']);

/** Embeddings in OpenAI's shape at `POST /run/{model}` with `{ text: [...] }`. */
export const workersAiEmbeddings: OperationCodec = {
  encodeRequest(body, host, report) {
    const wire: JsonObject = { text: textsOf(body.input) };
    for (const name of Object.keys(body)) if (!handled.has(name)) report.drop(name);
    Object.assign(wire, asObject(asObject(body.provider_options)?.['workers-ai']));
    return { path: runPath(host), body: stringifyExact(wire) };
  },
  decodeAnswer(body, _contentType, request) {
    return decodeEmbeddings(body, request);
  },
  decodeError: openAiErrors.decode,
};

function textsOf(input: unknown): readonly string[] {
  if (typeof input === 'string') return [input];
  if (
    Array.isArray(input) &&
    input.length > 0 &&
    input.every((item): item is string => typeof item === 'string')
  ) {
    return input;
  }
  throw bodyIssues.unreadable(
    'input',
    'be a string or an array of strings: Workers AI takes no token numbers',
    input,
  );
}

function decodeEmbeddings(body: Buffer, request: JsonObject): OperationAnswer {
  const json = parseResult(body, 'no embeddings');
  const result = asObject(json.result) ?? json;
  if (!Array.isArray(result.data)) {
    throw new GatewayError(
      'upstream_invalid',
      'The provider answered with something that are no embeddings: "data" was expected.',
      { source: 'provider' },
    );
  }
  return embeddingsAnswer(
    result.data as readonly unknown[][],
    request,
    openAiUsage.decode(result.usage)?.promptTokens,
  );
}

/**
 * An output (`{ response, tool_calls, usage }`, whole or an event of a stream) in the form of a chat completions chunk;
 * newer models use that form themselves, with or without the `result` around it.
 */
function asChat(json: JsonObject): JsonObject {
  const result = asObject(json.result) ?? json;
  if (Array.isArray(result.choices)) return result;
  const delta: JsonObject = {};
  const chunk: JsonObject = {};
  for (const name in result) if (!apart.has(name)) chunk[name] = result[name];
  const text = textOf(result.response);
  if (text !== undefined) delta.content = text;
  if (asArray(result.tool_calls).length > 0) delta.tool_calls = result.tool_calls;
  if (text !== undefined || delta.tool_calls !== undefined) chunk.choices = [{ index: 0, delta }];
  return chunk;
}

/** Members of the delta, and members around a successful result that carry nothing. */
const apart: ReadonlySet<string> = new Set([
  ...['response', 'tool_calls'],
  ...['success', 'errors', 'messages', 'result', 'p'],
]);

/** Text; JSON mode answers with the object itself, and numeric tokens arrive as numbers. */
function textOf(response: unknown): string | undefined {
  if (typeof response === 'string') return response;
  if (typeof response === 'number' || typeof response === 'bigint') return response.toString();
  if (Array.isArray(response)) return stringifyExact(response);
  const members = asObject(response);
  return members === undefined ? undefined : stringifyExact(members);
}

/** Cloudflare's Workers AI on the provider side. */
export const workersAiProvider: ChatProviderCodec = {
  encodeRequest,
  decodeAnswer,
  eventReader: createEventReader,
  decodeError: openAiErrors.decode,
};

function decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  const chat = asChat(parseResult(body, 'no result of a model'));
  if (!Array.isArray(chat.choices)) throw noAnswer('a result without "response"');
  const answer = chatAnswer.decodeObject(chat, context);
  // The wire has no finish reason: a whole answer is finished.
  return { ...answer, choices: answer.choices.map((choice) => ended(choice)) };
}

function ended(choice: ChatAnswer['choices'][number]): ChatAnswer['choices'][number] {
  if (choice.finish.raw !== '') return choice;
  const hasCalls = choice.parts.some(({ type }) => type === 'tool-call');
  return { ...choice, finish: { ...choice.finish, reason: hasCalls ? 'tool-calls' : 'stop' } };
}

/** The envelope of an answer. Throws `upstream_invalid` for anything else, and for a failure with a success status. */
function parseResult(body: Buffer, what: string): JsonObject {
  const json = parseExactObject(body.toString('utf8'));
  if (json === undefined) throw noAnswer(what);
  if (json.success !== false) return json;
  const message = asText(asObject(asArray(json.errors)[0])?.message) ?? 'unknown error';
  throw new GatewayError('upstream_invalid', `The provider reported an error inside its answer: ${message}`, {
    source: 'provider',
  });
}

function noAnswer(what: string): GatewayError {
  return new GatewayError(
    'upstream_invalid',
    `The provider answered with ${what} (Workers AI was expected).`,
    {
      source: 'provider',
    },
  );
}

function createEventReader(contentType: string, context: DecodeContext): ChatEventReader {
  const builder = new ChatEventBuilder();
  return new DoneStreamReader(contentType, builder, new WorkersAiDecoder(builder, context));
}

class WorkersAiDecoder extends ChunkDecoder {
  private saidSomething = false;

  override read(json: JsonObject): void {
    const chat = asChat(json);
    this.saidSomething ||= Array.isArray(chat.choices);
    super.read(chat);
  }

  /** The marker is the only end signal; newer models send a finish reason, which then counts. */
  marked(): void {
    if (this.saidSomething && !this.hasFinished) {
      super.read({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
    }
  }
}

/** Cloudflare's Workers AI: the base URL ends in `/accounts/{id}/ai`. */
export const workersAiHost: ProviderDialect = {
  name: 'workers-ai',
  plan(call) {
    switch (call.endpoint) {
      case 'embeddings':
        return { kind: 'operation', codec: workersAiEmbeddings };
      case 'messages.count_tokens':
        return endpointPlan.refused(call, 'counting of tokens');
      case 'moderations':
        return endpointPlan.refused(call, 'moderation');
      case 'rerank':
        return endpointPlan.refused(call, 'reranking in this shape');
      default:
        return endpointPlan.translated(call, workersAiProvider) ?? endpointPlan.passOn(call);
    }
  },
};
