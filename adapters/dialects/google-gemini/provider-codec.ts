import type {
  ChatEventReader,
  ChatProviderCodec,
  DecodeContext,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { AnswerCollector } from '../../../core/dialects/canonical/collect-answer.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { createPayloadReader, type PayloadReader, type StreamPayload } from '../../framing/payload-reader.ts';
import { parseExactObject } from '../exact-json.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';
import { AnswerReader } from './answer-reader.ts';
import { encodeGeminiRequest, type ModelPathOf } from './encode-request.ts';
import { decodeGeminiError } from './error-shape.ts';

/** The provider's side of this wire for a host that has its models at `pathOf`. */
export function createGeminiProvider(pathOf: ModelPathOf): ChatProviderCodec {
  return {
    encodeRequest: (request, host, report) => encodeGeminiRequest(request, host, report, pathOf),
    decodeAnswer,
    eventReader: (contentType, context) => new GeminiEventReader(contentType, context),
    decodeError: decodeGeminiError,
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

/** The object that a text holds, or those of an array; undefined for anything else. */
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
      // What is torn behind a complete answer (the bracket of its array) takes nothing from it.
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
