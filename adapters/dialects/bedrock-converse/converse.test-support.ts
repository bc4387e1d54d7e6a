import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { ChatMessage, ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { writeAwsEventStreamMessage } from '../../framing/write-aws-event-stream.test-support.ts';
import { type JsonObject, parseExactObject } from '../json-reading.ts';
import { bedrockConverseProvider } from './index.ts';

/** Models of the tests, by the case that each represents. */
export const models = {
  claude: 'us.anthropic.claude-sonnet-4-5-20250929-v1:0',
  oldClaude: 'anthropic.claude-3-7-sonnet-20250219-v1:0',
  adaptiveClaude: 'anthropic.claude-opus-4-6-v1',
  nova: 'amazon.nova-lite-v1:0',
  nova2: 'us.amazon.nova-2-lite-v1:0',
  llama: 'meta.llama3-3-70b-instruct-v1:0',
  mistral: 'mistral.mistral-large-2407-v1:0',
  gptOss: 'openai.gpt-oss-120b-1:0',
  profile: 'arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/abc123',
};

export function hostOf(model: string, settings: Record<string, string> = {}): HostFacts {
  return { provider: 'bedrock', model, quirks: {}, usageInStream: 'always', settings };
}

const hello: readonly ChatMessage[] = [{ role: 'user', parts: [{ type: 'text', text: 'Hello' }] }];

export function requestOf(members: Partial<ChatRequest> = {}): ChatRequest {
  return { model: 'm', stream: false, messages: hello, tools: [], ...members };
}

interface SentBlock {
  readonly [kind: string]: unknown;
  readonly toolUse: { readonly toolUseId: string };
  readonly toolResult: { readonly toolUseId: string };
  readonly document: { readonly name: string };
}

/** Members that the tests inspect. */
interface SentBody {
  readonly [member: string]: unknown;
  readonly messages: readonly { readonly role: string; readonly content: readonly SentBlock[] }[];
}

/** The encoded request with its report. */
export function encoded(model: string, members: Partial<ChatRequest> = {}) {
  const report = new EncodeReport();
  const { path, body } = bedrockConverseProvider.encodeRequest(requestOf(members), hostOf(model), report);
  return {
    path,
    text: String(body),
    body: parseExactObject(String(body)) as SentBody,
    dropped: report.dropped,
    emulated: report.emulated,
  };
}

export function contextOf(members: Partial<ChatRequest> = {}) {
  let count = 0;
  return { request: requestOf(members), newId: (prefix: string) => `${prefix}${++count}` };
}

export function decoded(answer: unknown, members: Partial<ChatRequest> = {}) {
  const body = typeof answer === 'string' ? answer : JSON.stringify(answer);
  return bedrockConverseProvider.decodeAnswer(Buffer.from(body), contextOf(members));
}

/** An answer with these blocks. */
export function answerOf(content: readonly unknown[], stopReason = 'end_turn', more: JsonObject = {}) {
  return { output: { message: { role: 'assistant', content } }, stopReason, ...more };
}

/** An event in wire form: its type in the header, its content as the payload. */
export function frameOf(event: JsonObject): Buffer {
  const [type] = Object.keys(event) as [string];
  const kind = type.endsWith('Exception') ? 'exception' : 'event';
  return writeAwsEventStreamMessage(
    { [`:${kind}-type`]: type, ':content-type': 'application/json', ':message-type': kind },
    JSON.stringify(event[type]),
  );
}

/** All events that a reader emits for these chunks. */
export function readStream(chunks: readonly Uint8Array[], members: Partial<ChatRequest> = {}): ChatEvent[] {
  const reader = bedrockConverseProvider.eventReader(
    'application/vnd.amazon.eventstream',
    contextOf(members),
  );
  const events = chunks.flatMap((chunk) => [...reader.push(chunk)]);
  return [...events, ...reader.finish()];
}
