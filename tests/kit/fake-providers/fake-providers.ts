import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseObject, type JsonObject } from '../../../adapters/dialects/json-reading.ts';
import { fakeAnthropicMessages } from './anthropic-messages.ts';
import { bedrockErrorType, fakeBedrockConverse } from './bedrock-converse.ts';
import { fakeCohere } from './cohere-v2.ts';
import type { Ending } from '../http-kit.ts';
import type { FakeWire, SeenRequest } from './fake-wire.ts';
import { fakeGoogleGemini } from './google-gemini.ts';
import { fakeOpenAiChat } from './openai-chat.ts';
import { fakeOpenAiResponses } from './openai-responses.ts';

/** Every wire that the fake providers speak, in the order of the grid. */
export const fakeWires: readonly FakeWire[] = [
  fakeOpenAiChat,
  fakeOpenAiResponses,
  fakeAnthropicMessages,
  fakeGoogleGemini,
  fakeBedrockConverse,
  fakeCohere,
];

/**
 * What goes wrong: `error` answers this status with the wire's own error body; `html`, `empty` and `truncated` spoil the
 * body; `error-event`, `cut` and `no-end` spoil a stream in its middle (the wire's error, a torn connection, an orderly
 * end of the bytes without the wire's end sign).
 */
export type Fault =
  | { readonly kind: 'error'; readonly status: number; readonly retryAfter?: string }
  | { readonly kind: 'html' | 'empty'; readonly status: number }
  | { readonly kind: 'truncated' | 'error-event' | 'cut' | 'no-end' };

/** What the providers answer from now on. */
export interface Script {
  /** `tests/fixtures/wire/<dialect>/<fixture>.json` and `.events`. */
  readonly fixture: string;
  readonly fault?: Fault;
}

/** Text of every error that the providers report. */
export const faultMessage = 'The sluice is jammed.';

/** One loopback server that speaks every wire. */
export interface FakeProviders {
  readonly port: number;
  readonly url: string;
  /** Requests in the order in which they came. */
  readonly seen: readonly SeenRequest[];
  play(script: Script): void;
}

/** Starts the providers; they end with the test. */
export async function startFakeProviders(t: Ending): Promise<FakeProviders> {
  const seen: SeenRequest[] = [];
  let script: Script = { fixture: 'grid-text' };
  const server = http.createServer((message, response) => {
    receive(message)
      .then(async (request) => {
        seen.push(request);
        await answer(request, response, script);
      })
      .catch((error: unknown) => {
        // A fixture that is missing, or a request that broke off.
        if (!response.headersSent) response.writeHead(500, { 'content-type': 'text/plain' });
        response.end(String(error));
      });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    seen,
    url: `http://127.0.0.1:${port}`,
    play(next) {
      script = next;
      seen.length = 0;
    },
  };
}

async function receive(message: IncomingMessage): Promise<SeenRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of message as AsyncIterable<Buffer>) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  const headers: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(message.headers)) headers[name] = value?.toString();
  return {
    method: message.method ?? '',
    url: message.url ?? '',
    headers,
    bytes,
    body: parseObject(bytes.toString()) ?? {},
  };
}

async function answer(request: SeenRequest, response: ServerResponse, script: Script): Promise<void> {
  const wire = fakeWires.find((one) => one.asked(request) !== undefined);
  if (wire === undefined || request.method !== 'POST') {
    response
      .writeHead(404, { 'content-type': 'text/plain' })
      .end(`No ${request.method} ${request.url} here.`);
    return;
  }
  const { fault } = script;
  if (fault !== undefined && 'status' in fault) return fail(wire, response, fault);
  if (wire.asked(request)?.stream === true) return stream(wire, request, response, script);
  const body = await readFixture(wire, `${script.fixture}.json`);
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(fault?.kind === 'truncated' ? body.slice(0, body.length / 2) : body);
}

function fail(wire: FakeWire, response: ServerResponse, fault: Extract<Fault, { status: number }>): void {
  const { status } = fault;
  if (fault.kind !== 'error') {
    const html =
      '<html><head><title>502</title></head><body><center><h1>Bad Gateway</h1></center></body></html>';
    response.writeHead(status, fault.kind === 'html' ? { 'content-type': 'text/html' } : {});
    response.end(fault.kind === 'html' ? html : undefined);
    return;
  }
  response.setHeader('content-type', 'application/json');
  if (fault.retryAfter !== undefined) response.setHeader('retry-after', fault.retryAfter);
  if (wire.dialect === 'bedrock-converse') response.setHeader('x-amzn-errortype', bedrockErrorType(status));
  response.writeHead(status).end(JSON.stringify(wire.errorBody(status, faultMessage)));
}

async function stream(
  wire: FakeWire,
  request: SeenRequest,
  response: ServerResponse,
  { fixture, fault }: Script,
): Promise<void> {
  const events = (await fixtureEvents(wire, fixture)).filter((one) => wire.wanted?.(one, request) !== false);
  response.writeHead(200, { 'content-type': wire.streamType });
  const end = events.findIndex((event) => wire.isEndSign(event));
  const sent = fault === undefined ? events : events.slice(0, Math.ceil(end / 2 + 1));
  const whole = fault?.kind === 'no-end' ? events.slice(0, end) : sent;
  for (const event of whole) response.write(wire.frame(event));
  if (fault?.kind === 'cut' || fault?.kind === 'truncated') {
    response.write(wire.frame(events[whole.length] ?? {}).subarray(0, 12), () => response.socket?.end());
    return;
  }
  response.end(
    fault === undefined ? wire.ending : fault.kind === 'error-event' ? wire.errorFrame(faultMessage) : '',
  );
}

/** The bytes of a fixture of this wire. */
export function readFixture(wire: FakeWire, name: string): Promise<string> {
  return readFile(new URL(`../../fixtures/wire/${wire.dialect}/${name}`, import.meta.url), 'utf8');
}

/** The events of a streamed answer, one JSON object per line of the fixture. */
export async function fixtureEvents(wire: FakeWire, fixture: string): Promise<readonly JsonObject[]> {
  const lines = (await readFixture(wire, `${fixture}.events`)).trim().split('\n');
  return lines.map((line) => JSON.parse(line) as JsonObject);
}
