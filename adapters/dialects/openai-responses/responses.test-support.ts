import {
  type AnswerContext,
  type ClientCall,
  type DecodeContext,
  EncodeReport,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { openAiResponsesProvider } from './host.ts';
import type { JsonObject } from '../json-reading.ts';

export const emptyRequest: ChatRequest = { model: 'river-1', stream: false, messages: [], tools: [] };

/** Counting ids: `call_1`, `rs_2` … */
function countingIds(): (prefix: string) => string {
  let count = 0;
  return (prefix) => `${prefix}${++count}`;
}

export function decodeContext(request: ChatRequest = emptyRequest): DecodeContext {
  return { request, newId: countingIds() };
}

export function answerContext(request: ChatRequest = emptyRequest): AnswerContext {
  return {
    request,
    query: '',
    strict: true,
    provider: 'sea',
    requestId: 'request-1',
    now: 1_763_700_000,
    newId: countingIds(),
  };
}

export function hostFacts(model = 'river-1', settings: Record<string, string> = {}): HostFacts {
  return { provider: 'sea', model, quirks: {}, usageInStream: 'always', settings };
}

/** A caller's request with this body. */
export function clientCall(body: JsonObject): ClientCall {
  return {
    body,
    model: typeof body.model === 'string' ? body.model : 'river-1',
    stream: body.stream === true,
    query: '',
    header: () => undefined,
  };
}

/** The encoded body with the report. */
export function encoded(
  request: Partial<ChatRequest>,
  host = hostFacts(),
): { body: JsonObject; dropped: string[]; emulated: string[]; path: string } {
  const report = new EncodeReport();
  const { path, body } = openAiResponsesProvider.encodeRequest({ ...emptyRequest, ...request }, host, report);
  return {
    path,
    body: JSON.parse(String(body)) as JsonObject,
    dropped: report.dropped,
    emulated: report.emulated,
  };
}

/** A stream of these events, as a host writes it. */
export function streamOf(events: readonly JsonObject[]): Buffer {
  return Buffer.from(
    events.map((event) => `event: ${String(event.type)}\ndata: ${JSON.stringify(event)}\n\n`).join(''),
  );
}

/** The events of the reader for a stream in these pieces. */
export function readEvents(...chunks: readonly Buffer[]): readonly ChatEvent[] {
  const reader = openAiResponsesProvider.eventReader('text/event-stream', decodeContext());
  return [...chunks.flatMap((chunk) => reader.push(Buffer.from(chunk))), ...reader.finish()];
}
