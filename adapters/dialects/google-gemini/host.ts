import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type {
  ChatEventReader,
  ChatProviderCodec,
  DecodeContext,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { UpstreamCallFacts, UpstreamPlan } from '../../../core/dialects/upstream-plan.ts';
import { anthropicClient } from '../anthropic-messages/index.ts';
import { countTokensOperation, endpointPlan } from '../host-endpoints.ts';
import { encodeGeminiRequest, geminiTokenCounting, type ModelPathOf } from './encode-request.ts';
import { geminiOperations } from './operations.ts';
import { geminiPath } from './model-path.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { AnswerCollector } from '../../../core/dialects/canonical/collect-answer.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { createPayloadReader } from '../../framing/payload-reader.ts';
import type { PayloadReader, StreamPayload } from '../../framing/stream-payload.ts';
import { asArray, asObject, type JsonObject, parseExactObject } from '../json-reading.ts';
import { AnswerReader } from './event-reader.ts';
import { geminiErrors } from './errors.ts';

/** Provider codec of this wire for a host whose models are at `pathOf`. */
export function createGeminiProvider(pathOf: ModelPathOf): ChatProviderCodec {
  return {
    encodeRequest: (request, host, report) => encodeGeminiRequest(request, host, report, pathOf),
    decodeAnswer,
    eventReader: (contentType, context) => new GeminiEventReader(contentType, context),
    decodeError: geminiErrors.decode,
  };
}

function decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  const objects = parseObjects(body.toString('utf8'));
  if (objects === undefined)
    throw new GatewayError(
      'upstream_invalid',
      'The provider answered with something that is no JSON object.',
      {
        source: 'provider',
      },
    );
  const reader = new AnswerReader(context);
  for (const object of objects) reader.read(object);
  reader.finish();
  const collector = new AnswerCollector();
  for (const event of reader.builder.take()) collector.add(event);
  if (collector.error !== undefined)
    throw new GatewayError('upstream_invalid', collector.error.message, { source: 'provider' });
  return collector.answer();
}

/** The JSON object of a text, or the objects of an array; undefined for anything else. */
function parseObjects(text: string): readonly JsonObject[] | undefined {
  const object = parseExactObject(text);
  if (object !== undefined) return [object];
  if (!text.trimStart().startsWith('[')) return undefined;
  const list = parseExactObject(`{"all":${text}}`)?.all;
  const objects = asArray(list).flatMap((value) => {
    const one = asObject(value);
    return one === undefined ? [] : [one];
  });
  return objects.length === 0 ? undefined : objects;
}

/** Reads a stream of this wire in any framing that hosts use for it. */
class GeminiEventReader implements ChatEventReader {
  readonly #payloads: PayloadReader;
  readonly #answer: AnswerReader;

  constructor(contentType: string, context: DecodeContext) {
    this.#payloads = createPayloadReader(contentType);
    this.#answer = new AnswerReader(context);
  }

  push(chunk: Uint8Array): readonly ChatEvent[] {
    for (const payload of this.#payloads.push(chunk)) this.#read(payload);
    return this.#answer.builder.take();
  }

  finish(): readonly ChatEvent[] {
    for (const payload of this.#payloads.finish()) this.#read(payload);
    this.#answer.finish();
    return this.#answer.builder.take();
  }

  #read({ data, error }: StreamPayload): void {
    if (error !== undefined) {
      // A torn end after a complete answer (the bracket of its array) is harmless.
      if (!this.#answer.isComplete)
        this.#answer.builder.error({
          status: 502,
          message: `The provider's stream cannot be read. ${error}.`,
        });
      return;
    }
    if (data.trim() === '[DONE]' || data.trim() === '') return;
    const objects = parseObjects(data);
    if (objects === undefined) {
      const message = "The provider's stream cannot be read: an event is no JSON object.";
      this.#answer.builder.error({ status: 502, message });
      return;
    }
    for (const object of objects) this.#answer.read(object);
  }
}

/** The path of a model's method below the host's root. */
function modelPath(host: HostFacts, method: string): string {
  return `/v1beta/${geminiPath.encodeResource(geminiPath.resource(host.model))}:${method}`;
}

/** Chat of the Gemini API. */
export const geminiProvider: ChatProviderCodec = createGeminiProvider(modelPath);

const embeddings = geminiOperations.embeddings(modelPath);
const images = geminiOperations.images(modelPath);
const speech = geminiOperations.speech(modelPath);
const tokenCount = countTokensOperation(anthropicClient, geminiTokenCounting(modelPath));

/** The Gemini API (`generativelanguage.googleapis.com`). Its base URL is the host's root. */
export const googleGeminiHost: ProviderDialect = {
  name: 'google-gemini',
  plan(call) {
    if (call.spoken === 'google-gemini') return passGemini(call);
    const chat = endpointPlan.translated(call, geminiProvider);
    if (chat !== undefined) return chat;
    switch (call.endpoint) {
      case 'embeddings':
        return { kind: 'operation', codec: embeddings };
      case 'images.generations':
        return { kind: 'operation', codec: images };
      case 'audio.speech':
        return { kind: 'operation', codec: speech };
      case 'models':
        return { kind: 'pass', path: versioned(call.path) + geminiPath.withoutKey(call.query) };
      case 'moderations':
        return endpointPlan.refused(call, 'moderation');
      case 'rerank':
        return endpointPlan.refused(call, 'reranking');
      case 'messages.count_tokens':
        return { kind: 'operation', codec: tokenCount };
      default:
        return endpointPlan.passOn(call);
    }
  },
};

/** Passes the bytes unchanged. The path is the host's, with the routed model. */
function passGemini(call: UpstreamCallFacts): UpstreamPlan {
  const query = geminiPath.withoutKey(call.query);
  const named = geminiPath.read(call.path);
  if (named === undefined) return { kind: 'pass', path: call.path + query };
  if (call.endpoint !== 'generate-content' || call.host.model === '')
    return { kind: 'pass', path: versioned(call.path) + query };
  return { kind: 'pass', path: modelPath(call.host, named.method) + query };
}

/** The path below `/v1beta`, which has the whole API; an explicit preview version stays. */
function versioned(path: string): string {
  const plain = path.replace(/^\/proxy(?=\/)/, '');
  return /^\/v\d+(?:alpha|beta)\d*\//.test(plain) ? plain : `/v1beta${plain.replace(/^\/v1(?=\/)/, '')}`;
}
