import { readFileSync } from 'node:fs';
import { type DecodeContext, EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { HostFacts, Quirks } from '../../../core/dialects/host-facts.ts';
import { parseExactObject } from '../json-reading.ts';
import { cohereV2Provider } from './index.ts';

export const baseRequest: ChatRequest = { model: 'asked', stream: false, messages: [], tools: [] };

export function hostFacts(model = 'command-a-03-2025', quirks: Quirks = {}): HostFacts {
  return { provider: 'cohere', model, quirks, usageInStream: 'always', settings: {} };
}

export function decodeContext(request = baseRequest): DecodeContext {
  let count = 0;
  return { request, newId: (prefix) => `${prefix}${count++}` };
}

/** The encoded request with its report. */
export function encoded(request: Partial<ChatRequest>, host = hostFacts()) {
  const report = new EncodeReport();
  const { path, body } = cohereV2Provider.encodeRequest({ ...baseRequest, ...request }, host, report);
  return {
    path,
    text: String(body),
    body: parseExactObject(String(body)) ?? {},
    dropped: report.dropped,
    emulated: report.emulated,
  };
}

/** A fixture of this wire. */
export function fixture(name: string): string {
  return readFileSync(new URL(`../../../tests/fixtures/wire/cohere-v2/${name}`, import.meta.url), 'utf8');
}

/** Events, one JSON text per line, in stream form. */
export function asStream(lines: string): Buffer {
  const frames = lines
    .trim()
    .split('\n')
    .map((line) => `event: ${String(parseExactObject(line)?.type)}\ndata: ${line}\n\n`);
  return Buffer.from(`${frames.join('')}data: [DONE]\n\n`);
}

/** All events of a stream in these pieces. */
export function readStream(...chunks: readonly Uint8Array[]) {
  const reader = cohereV2Provider.eventReader('text/event-stream', decodeContext());
  return [...chunks.flatMap((chunk) => reader.push(chunk)), ...reader.finish()];
}
