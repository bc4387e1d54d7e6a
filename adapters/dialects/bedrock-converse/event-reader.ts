import type { ChatEventReader, DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import { ChatEventBuilder, cutShort } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { createPayloadReader, type PayloadReader, type StreamPayload } from '../../framing/payload-reader.ts';
import { parseExactObject } from '../exact-json.ts';
import { asObject, type JsonObject } from '../json-reading.ts';
import { streamException } from './decode-error.ts';
import { answerExtras, decodeConverseUsage, fieldExtras, readFinish } from './read-answer-facts.ts';
import { StreamBlocks } from './stream-blocks.ts';

const known: ReadonlySet<string> = new Set([
  'messageStart',
  'contentBlockStart',
  'contentBlockDelta',
  'contentBlockStop',
  'messageStop',
  'metadata',
]);

/**
 * Reads an answer of `ConverseStream`. The type of an event stands in its header; events that hold their type as their
 * only member are read, too.
 */
export class ConverseEventReader implements ChatEventReader {
  readonly #payloads: PayloadReader;
  readonly #context: DecodeContext;
  readonly #builder = new ChatEventBuilder();
  readonly #blocks: StreamBlocks;

  constructor(contentType: string, context: DecodeContext) {
    this.#payloads = createPayloadReader(contentType);
    this.#context = context;
    this.#blocks = new StreamBlocks(this.#builder, context);
  }

  push(chunk: Uint8Array): readonly ChatEvent[] {
    for (const payload of this.#payloads.push(chunk)) this.#read(payload);
    return this.#builder.take();
  }

  finish(): readonly ChatEvent[] {
    for (const payload of this.#payloads.finish()) this.#read(payload);
    if (this.#builder.isFinished(0)) this.#builder.complete();
    else this.#builder.error(cutShort);
    return this.#builder.take();
  }

  #read(payload: StreamPayload): void {
    const builder = this.#builder;
    if (builder.ended) return;
    if (payload.error !== undefined) {
      builder.error({
        status: 502,
        message: `The provider's stream is broken. ${payload.error}`,
        type: 'upstream_error',
      });
      return;
    }
    const data = parseExactObject(payload.data);
    if (payload.messageType === 'exception' || payload.messageType === 'error') {
      builder.error(streamException(payload.event, data));
      return;
    }
    if (data === undefined) {
      if (payload.data !== '') builder.error(unreadable);
      return;
    }
    if (known.has(payload.event)) {
      this.#event(payload.event, asObject(data[payload.event]) ?? data);
      return;
    }
    for (const name in data) {
      const told = asObject(data[name]);
      if (told === undefined) continue;
      if (known.has(name)) this.#event(name, told);
      else if (name.endsWith('Exception')) builder.error(streamException(name, told));
    }
  }

  #event(name: string, told: JsonObject): void {
    const builder = this.#builder;
    if (!builder.hasStarted) builder.start({ id: '', model: this.#context.request.model });
    switch (name) {
      case 'contentBlockDelta':
        return this.#blocks.delta(told);
      case 'contentBlockStart':
        return this.#blocks.start(told);
      case 'contentBlockStop':
        return this.#blocks.stop(told);
      case 'messageStop':
        return this.#stop(told);
      case 'metadata':
        return this.#metadata(told);
    }
  }

  #stop(told: JsonObject): void {
    const fields = told.additionalModelResponseFields;
    this.#blocks.end();
    this.#builder.finish(
      0,
      readFinish(told.stopReason, this.#blocks.called, fields),
      fieldExtras(fields, this.#context.request),
    );
    const { preamble } = this.#blocks;
    if (preamble !== '') this.#builder.extras({ 'bedrock-converse': { preamble } });
  }

  #metadata(told: JsonObject): void {
    const usage = decodeConverseUsage(told.usage);
    if (usage !== undefined) this.#builder.usage(usage);
    const extras = answerExtras(told);
    if (extras !== undefined) this.#builder.extras({ 'bedrock-converse': extras });
  }
}

const unreadable = {
  status: 502,
  message: "The provider's stream holds an event that is no JSON object.",
  type: 'upstream_error',
};
