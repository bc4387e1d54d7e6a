import type { ChatEventReader, DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import { ChatEventBuilder, cutShort } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { createPayloadReader, type PayloadReader, type StreamPayload } from '../../framing/payload-reader.ts';
import { parseExactObject } from '../exact-json.ts';
import type { JsonObject } from '../json-reading.ts';
import { openAiStreamError } from '../openai-error.ts';
import { ChunkDecoder } from './chunk-decoder.ts';

/** What turns the JSON events of a stream into chat events. */
export interface PayloadDecoder {
  read(json: JsonObject): void;
  /** The stream has told that at least one choice is over. */
  readonly hasFinished: boolean;
  /** Ends what was told to be over (`all`: everything), and the answer. */
  complete(all: boolean): void;
  /** The end marker has come: for wires that tell no finish reason. */
  marked?(): void;
}

/** Reads a stream that ends in `[DONE]`: what the hosts of the family have in common. */
export class DoneStreamReader implements ChatEventReader {
  private readonly builder: ChatEventBuilder;
  private readonly payloads: PayloadReader;
  private readonly decoder: PayloadDecoder;

  constructor(contentType: string, builder: ChatEventBuilder, decoder: PayloadDecoder) {
    this.payloads = createPayloadReader(contentType);
    this.builder = builder;
    this.decoder = decoder;
  }

  push(chunk: Uint8Array): readonly ChatEvent[] {
    for (const payload of this.payloads.push(chunk)) this.read(payload);
    return this.builder.take();
  }

  finish(): readonly ChatEvent[] {
    for (const payload of this.payloads.finish()) this.read(payload);
    this.complete();
    return this.builder.take();
  }

  /** The end marker may be missing, the finish reason may not. */
  private complete(): void {
    if (this.decoder.hasFinished) this.decoder.complete(false);
    else this.builder.error(cutShort);
  }

  private read({ data, event, error }: StreamPayload): void {
    const { builder } = this;
    if (builder.ended) return;
    if (error !== undefined) return builder.error({ status: 502, message: error, type: 'upstream_error' });
    if (data.length <= maxMarkerLength) {
      const text = data.trim();
      if (text === '') return;
      if (text === '[DONE]') {
        this.decoder.marked?.();
        return this.complete();
      }
    }
    const json = parseExactObject(data);
    if (json === undefined) {
      const message = "The provider's stream holds an event that is no JSON object.";
      return builder.error({ status: 502, message, type: 'upstream_error' });
    }
    const failure = openAiStreamError(json, event);
    if (failure !== undefined) return builder.error(failure);
    this.decoder.read(json);
  }
}

const maxMarkerLength = 16;

/** The reader of a chat completions stream. */
export function createEventReader(contentType: string, context: DecodeContext): ChatEventReader {
  const builder = new ChatEventBuilder();
  return new DoneStreamReader(contentType, builder, new ChunkDecoder(builder, context));
}
