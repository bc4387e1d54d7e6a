import { readFileSync } from 'node:fs';
import type { AnswerContext, DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';

/** A request without settings. */
export const emptyRequest: ChatRequest = { model: 'river-1', stream: true, messages: [], tools: [] };

/** Ids are numbered: `call_0`, `call_1` … */
export function decodeContext(request: Partial<ChatRequest> = {}): DecodeContext {
  let next = 0;
  return { request: { ...emptyRequest, ...request }, newId: (prefix) => `${prefix}${next++}` };
}

export function answerContext(query = '?alt=sse'): AnswerContext {
  const { newId } = decodeContext();
  const fixed = { strict: true, provider: 'north', requestId: 'request-1', now: 1_700_000_000, newId };
  return { request: emptyRequest, query, ...fixed };
}

export function hostFacts(model: string, settings: Readonly<Record<string, string>> = {}): HostFacts {
  return { provider: 'north', model, quirks: {}, usageInStream: 'always', settings };
}

export function fixture(file: string): Buffer {
  return readFileSync(new URL(`../../../tests/fixtures/wire/google-gemini/${file}`, import.meta.url));
}
