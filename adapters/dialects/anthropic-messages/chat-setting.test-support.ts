import { readFileSync } from 'node:fs';
import {
  type AnswerContext,
  type DecodeContext,
  EncodeReport,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { type JsonObject, parseExactObject } from '../json-reading.ts';
import { anthropicProvider } from './host.ts';

/** A request with one question, and the members that a test overrides. */
export function chatRequest(members: Partial<ChatRequest> = {}): ChatRequest {
  return {
    model: 'claude-sonnet-4-5',
    stream: false,
    messages: [{ role: 'user', parts: [{ type: 'text', text: 'Hi.' }] }],
    tools: [],
    ...members,
  };
}

/** Context of the codecs for an answer. */
export function chatContext(members: Partial<AnswerContext> = {}): AnswerContext & DecodeContext {
  return {
    request: chatRequest(),
    query: '',
    strict: true,
    provider: 'anthropic',
    requestId: 'request-1',
    now: 1_700_000_000,
    newId: (prefix) => `${prefix}new`,
    ...members,
  };
}

/** A host that serves this model. */
export function hostOf(model: string, members: Partial<HostFacts> = {}): HostFacts {
  return { provider: 'anthropic', model, quirks: {}, usageInStream: 'always', settings: {}, ...members };
}

/** The bytes of a stream of these events, one JSON text each. */
export function streamOf(events: readonly string[]): Buffer {
  return Buffer.from(events.map((json) => `event: ${typeOf(json)}\ndata: ${json}\n\n`).join(''));
}

/** The events of a recorded stream. */
export function recorded(name: string): readonly string[] {
  const file = new URL(`../../../tests/fixtures/wire/anthropic-messages/${name}.events`, import.meta.url);
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '');
}

function typeOf(json: string): string {
  return /^\{"type":\s*"([a-z_]+)"/.exec(json)?.[1] ?? 'message';
}

/** Encoded body, and the report of members that it cannot express. */
interface Encoded {
  readonly body: JsonObject;
  readonly dropped: readonly string[];
  readonly emulated: readonly string[];
}

/** A request with these members, encoded for a model. */
export function encode(members: Partial<ChatRequest>, model = 'claude-sonnet-4-5'): Encoded {
  const report = new EncodeReport();
  const { body } = anthropicProvider.encodeRequest(chatRequest(members), hostOf(model), report);
  return {
    body: parseExactObject(String(body)) ?? {},
    dropped: report.dropped,
    emulated: report.emulated,
  };
}
