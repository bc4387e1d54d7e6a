import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import { embeddingsAnswer, passOn, refused, translated } from '../host-endpoints.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type {
  ChatEventReader,
  ChatProviderCodec,
  DecodeContext,
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
import { ChunkDecoder, decodeAnswerObject, DoneStreamReader } from '../openai-chat/decode-answer.ts';
import { decodeOpenAiError, decodeOpenAiUsage } from '../openai-shapes.ts';
import { encodeRequest, runPath } from './encode-request.ts';
import type { OperationAnswer, OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { unreadable } from '../request-members.ts';

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
  decodeError: decodeOpenAiError,
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
  throw unreadable('input', 'be a string or an array of strings: Workers AI takes no token numbers', input);
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
    decodeOpenAiUsage(result.usage)?.promptTokens,
  );
}

/**
 * What a model said (`{ response, tool_calls, usage }`, whole or an event of a stream) in the words of a chat
 * completions chunk; newer models speak those words themselves, with or without the `result` around them.
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

/** What is said in a delta, and what is around a result and says nothing of an answer that came well. */
const apart: ReadonlySet<string> = new Set([
  ...['response', 'tool_calls'],
  ...['success', 'errors', 'messages', 'result', 'p'],
]);

/** Text; JSON mode answers with the object itself, and tokens that are numbers arrive as numbers. */
function textOf(response: unknown): string | undefined {
  if (typeof response === 'string') return response;
  if (typeof response === 'number' || typeof response === 'bigint') return response.toString();
  if (Array.isArray(response)) return JSON.stringify(response);
  const members = asObject(response);
  return members === undefined ? undefined : stringifyExact(members);
}

/** Cloudflare's Workers AI as the gateway speaks it. */
export const workersAiProvider: ChatProviderCodec = {
  encodeRequest,
  decodeAnswer,
  eventReader: createEventReader,
  decodeError: decodeOpenAiError,
};

function decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  const chat = asChat(parseResult(body, 'no result of a model'));
  if (!Array.isArray(chat.choices)) throw noAnswer('a result without "response"');
  const answer = decodeAnswerObject(chat, context);
  // The wire tells no finish reason: what came whole is over.
  return { ...answer, choices: answer.choices.map((choice) => ended(choice)) };
}

function ended(choice: ChatAnswer['choices'][number]): ChatAnswer['choices'][number] {
  if (choice.finish.raw !== '') return choice;
  const hasCalls = choice.parts.some(({ type }) => type === 'tool-call');
  return { ...choice, finish: { ...choice.finish, reason: hasCalls ? 'tool-calls' : 'stop' } };
}

/** The envelope of an answer. Throws `upstream_invalid` for what is none, and for a failure that came with a good status. */
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

  /** The marker is all that tells the end; newer models tell a finish reason, which then stands. */
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
        return refused(call, 'counting of tokens');
      case 'moderations':
        return refused(call, 'moderation');
      case 'rerank':
        return refused(call, 'reranking in this shape');
      default:
        return translated(call, workersAiProvider) ?? passOn(call);
    }
  },
};
