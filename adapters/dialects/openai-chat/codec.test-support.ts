import type {
  AnswerContext,
  ChatEventReader,
  ClientCall,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { HostFacts, Quirks } from '../../../core/dialects/host-facts.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { readSseFrame, SseSplitter } from '../../../core/base/sse.ts';
import type { JsonObject } from '../json-reading.ts';

/** A client's request with this body. */
export function clientCall(body: JsonObject): ClientCall {
  const model = typeof body.model === 'string' ? body.model : 'river-1';
  return { body, model, stream: body.stream === true, query: '', header: () => undefined };
}

/** A host without quirks, except those given. */
export function host(model = 'river-1', quirks: Quirks = {}): HostFacts {
  return { provider: 'example', model, quirks, usageInStream: 'on_request', settings: {} };
}

export const plainRequest: ChatRequest = { model: 'river-1', stream: false, messages: [], tools: [] };

/** A context with counting ids and a fixed clock. */
export function answerContext(strict = true, request: ChatRequest = plainRequest): AnswerContext {
  let count = 0;
  return {
    request,
    query: '',
    strict,
    provider: 'example',
    requestId: 'request-1',
    now: 1_730_000_009,
    newId: (prefix) => `${prefix}${++count}`,
  };
}

/** All events that a reader emits for these chunks. */
export function readAll(reader: ChatEventReader, chunks: readonly Uint8Array[]): ChatEvent[] {
  const events = chunks.flatMap((chunk) => [...reader.push(chunk)]);
  return [...events, ...reader.finish()];
}

/** The JSON of the data lines of a stream; text where it is none (`[DONE]`). */
export function dataOf(stream: Uint8Array): unknown[] {
  const said: unknown[] = [];
  const splitter = new SseSplitter((frame) => {
    const { data = '' } = readSseFrame(frame);
    said.push(data.startsWith('{') ? JSON.parse(data) : data);
  });
  splitter.push(stream);
  splitter.finish();
  return said;
}

/** Data lines of a stream. */
export function sse(...events: readonly (JsonObject | string)[]): Buffer {
  const lines = events.map((event) => (typeof event === 'string' ? event : JSON.stringify(event)));
  return Buffer.from(lines.map((line) => `data: ${line}\n\n`).join(''));
}

export function usageOf(promptTokens: number, completionTokens: number, details: Partial<Usage> = {}): Usage {
  return {
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + completionTokens,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
    ...details,
  };
}
