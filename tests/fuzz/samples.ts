/** Requests, answers and streams of every wire, as recorded, to be broken. */
import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import { dialects, providerDialects } from '../../adapters/dialects/index.ts';
import { type JsonObject, parseObject } from '../../adapters/dialects/json-reading.ts';
import type {
  AnswerContext,
  ChatClientCodec,
  ChatProviderCodec,
} from '../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../core/dialects/canonical/chat-request.ts';
import type { Dialect } from '../../core/dialects/dialect.ts';
import { type DialectName, type EndpointId, endpointIds } from '../../core/dialects/endpoint.ts';
import type { HostFacts } from '../../core/dialects/host-facts.ts';
import type { OperationCodec } from '../../core/dialects/upstream-plan.ts';
import { fakeWires } from '../kit/fake-providers/fake-providers.ts';
import { type FakeWire, sseFrame } from '../kit/fake-providers/fake-wire.ts';
import { brokenValues } from '../property/broken-values.ts';

/** A wire on the client side that can be translated. */
export interface ClientWire {
  readonly dialect: Dialect;
  readonly chat: ChatClientCodec;
  readonly endpoint: EndpointId;
  readonly requests: readonly JsonObject[];
}

/** A wire on the provider side: how it is planned for one model, and what it answers. */
export interface ProviderWire {
  readonly name: DialectName;
  readonly host: HostFacts;
  readonly chat: ChatProviderCodec;
  readonly streamType: string;
  readonly answers: readonly JsonObject[];
  readonly streams: readonly (readonly JsonObject[])[];
  /** An event as it stands on the wire, whatever it is. */
  frame(event: unknown): Buffer;
  readonly ending: Buffer;
}

/** An operation beyond chat that a wire translates. */
interface Operation {
  readonly name: string;
  readonly host: HostFacts;
  readonly codec: OperationCodec;
}

const tests = new URL('../', import.meta.url);

function jsonIn(folder: string, end: string): readonly JsonObject[] {
  return readdirSync(new URL(folder, tests))
    .filter((name) => name.endsWith(end))
    .sort()
    .map((name) => parseObject(readFileSync(new URL(folder + name, tests), 'utf8')))
    .filter((value) => value !== undefined);
}

function eventsIn(folder: string): readonly (readonly JsonObject[])[] {
  return readdirSync(new URL(folder, tests))
    .filter((name) => name.endsWith('.events'))
    .sort()
    .map((name) =>
      readFileSync(new URL(folder + name, tests), 'utf8')
        .trim()
        .split('\n'),
    )
    .map((lines) => lines.map(parseObject).filter((value) => value !== undefined));
}

const requestsOf: readonly (readonly [DialectName, EndpointId, readonly JsonObject[]])[] = [
  ['openai-chat', 'chat.completions', jsonIn('golden/requests/chat/', '.json')],
  ['openai-responses', 'responses', jsonIn('golden/requests/responses/', '.json')],
  ['anthropic-messages', 'messages', jsonIn('golden/requests/messages/', '.json')],
  ['google-gemini', 'generate-content', jsonIn('golden/requests/gemini/', '.json')],
  [
    'openai-completions',
    'completions',
    [{ model: 'm', prompt: ['A', 'B'], suffix: 'C', logprobs: 2, echo: true }],
  ],
];

/** Every client wire that has a chat codec. */
export const clientWires: readonly ClientWire[] = requestsOf.flatMap(([name, endpoint, requests]) => {
  const dialect = dialects.get(name);
  return dialect?.chat === undefined ? [] : [{ dialect, chat: dialect.chat, endpoint, requests }];
});

const models: readonly (readonly [DialectName, model: string, wire: DialectName])[] = [
  ['openai-chat', 'gpt-5.1', 'openai-chat'],
  ['openai-responses', 'gpt-5.1', 'openai-responses'],
  ['azure-openai', 'gpt-5.1', 'openai-chat'],
  ['anthropic-messages', 'claude-sonnet-4-5', 'anthropic-messages'],
  ['google-gemini', 'gemini-2.5-flash', 'google-gemini'],
  ['google-vertex', 'gemini-2.5-flash', 'google-gemini'],
  ['google-vertex', 'claude-sonnet-4-5', 'anthropic-messages'],
  ['google-vertex', 'meta/llama-3', 'openai-chat'],
  ['bedrock-converse', 'eu.anthropic.claude-sonnet-4-5-20250929-v1:0', 'bedrock-converse'],
  ['cohere-v2', 'command-a-reasoning-08-2025', 'cohere-v2'],
  ['workers-ai', '@cf/meta/llama-3.1-8b-instruct', 'openai-chat'],
];
const settings = {
  azure_resource: 'r',
  azure_api_version: '2024-10-21',
  azure_deployment: 'd',
  vertex_region: 'europe-west4',
  vertex_project: 'p',
  vertex_project_id: 'p',
  aws_region: 'eu-central-1',
  workers_ai_account_id: 'a',
};

function hostOf(name: DialectName, model: string): HostFacts {
  return { provider: name, model, quirks: {}, usageInStream: 'on_request', settings };
}

/** Plans of a call that no wire speaks itself, so that it has to be translated. */
function planOf(name: DialectName, model: string, endpoint: EndpointId, spoken: DialectName) {
  const facts = {
    endpoint,
    spoken,
    method: 'POST',
    path: `/${endpoint.replaceAll('.', '/')}`,
    query: '',
    stream: true,
  };
  return providerDialects.get(name)?.plan({ ...facts, host: hostOf(name, model) });
}

/** Every provider wire that has a chat codec. */
export const providerWires: readonly ProviderWire[] = models.flatMap(([name, model, wire]) => {
  const plan = clientWires
    .map(({ dialect, endpoint }) => planOf(name, model, endpoint, dialect.name))
    .find((one) => one?.kind === 'chat');
  if (plan === undefined) return [];
  const fake = fakeWires.find(({ dialect }) => dialect === wire);
  const folder = `fixtures/wire/${wire}/`;
  return {
    name,
    host: hostOf(name, model),
    chat: plan.codec,
    streamType: fake?.streamType ?? 'text/event-stream',
    answers: jsonIn(folder, '.json'),
    streams: eventsIn(folder),
    frame: (event) => frameOf(fake, event),
    ending: fake?.ending ?? Buffer.alloc(0),
  };
});

function frameOf(fake: FakeWire | undefined, event: unknown): Buffer {
  try {
    return fake?.frame(event as JsonObject) ?? sseFrame(JSON.stringify(event));
  } catch {
    // The name of the event is no text, or too long for the framing.
    return sseFrame(JSON.stringify(event));
  }
}

/** Every operation that some wire translates. */
export const operations: readonly Operation[] = models.flatMap(([name, model]) =>
  endpointIds.flatMap((endpoint): Operation[] => {
    const plan = planOf(
      name,
      model,
      endpoint,
      endpoint.startsWith('messages') ? 'anthropic-messages' : 'openai-chat',
    );
    return plan?.kind === 'operation'
      ? [{ name: `${name} ${endpoint}`, host: hostOf(name, model), codec: plan.codec }]
      : [];
  }),
);

const everything: readonly unknown[] = [
  ...clientWires.flatMap(({ requests }) => requests),
  ...providerWires.flatMap(({ answers, streams }) => [...answers, ...streams.flat()]),
];
const pieces: unknown[] = [];
const names = new Set<string>();
collect(everything);

function collect(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    if (!Array.isArray(value)) names.add(name);
    if (pieces.length < 20_000) pieces.push(member);
    collect(member);
  }
}

/** These samples with some pieces of others in them, or with what nobody expects. */
export function brokenSamples(samples: readonly unknown[], most = 4): fc.Arbitrary<unknown> {
  return brokenValues(fc.constantFrom(...samples), {
    pieces: fc.oneof(fc.constantFrom(...pieces), fc.jsonValue({ maxDepth: 1 })),
    names: fc.constantFrom(...names),
    most,
  });
}

/** A context with counting ids and a fixed clock. */
export function contextOf(request: ChatRequest, strict: boolean): AnswerContext {
  let count = 0;
  const newId = (prefix: string): string => `${prefix}${++count}`;
  return {
    request,
    query: '',
    strict,
    provider: 'fuzzed',
    requestId: 'request-1',
    now: 1_730_000_009,
    newId,
  };
}
