/** A gateway in front of scripted providers, on a clock that tests move, for tests of what configs do. */
import assert from 'node:assert/strict';
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import type { TestContext } from 'node:test';
import { ManualClock, settle } from '../conformance/manual-clock.ts';
import { ask } from './chat-stream-kit.ts';
import {
  providerPlugin,
  startTestGateway,
  type SettledRequest,
  type TestGateway,
  type TestGatewayOptions,
} from './gateway-kit.ts';
import { until } from './http-kit.ts';
import {
  createScriptedTransport,
  type ScriptedCallRecord,
  type ScriptedTransport,
} from './scripted-transport.ts';
import type { UpstreamScene } from './upstream-scenes.ts';

/** `@a`, `@b` and `@c` speak the chat wire, `@claude` the Messages wire. Their origins are `http://a.test` and so on. */
export type ScriptedProvider = 'a' | 'b' | 'c' | 'claude';

/** A request under way, as its client sees it. */
export interface Asked {
  /** 0 before the head has come. */
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The part of the body that has come. */
  readonly text: string;
  /** The connection has ended. */
  readonly over: boolean;
  /** The answer ended properly. */
  readonly complete: boolean;
  /** The body as JSON. */
  json(): any;
  /** The client leaves. */
  abort(): void;
  /** It takes no more bytes, until it takes them again. */
  pause(): void;
  resume(): void;
  /** Moves time from timer to timer until the answer has ended. */
  finish(): Promise<Asked>;
  /** How it settled; waits for it. */
  settled(): Promise<SettledRequest>;
}

/** What a request says beside its config. */
interface AskOptions {
  /** Default: POST with a body; GET and HEAD without one. */
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Members of the chat request. Default: a chat without streaming. */
  readonly body?: object;
  /** The body lacks its last byte, and goes on lacking it. */
  readonly unfinished?: boolean;
  /** Bytes instead of a chat request. */
  readonly raw?: { readonly type: string; readonly bytes: Buffer };
}

export interface PlanKit {
  readonly clock: ManualClock;
  readonly transport: ScriptedTransport;
  readonly gateway: TestGateway;
  /** Sends a request with this config. */
  begin(config: object | undefined, options?: AskOptions): Asked;
  /** The same, resolved when a provider has been called or an answer has come. */
  ask(config: object | undefined, options?: AskOptions): Promise<Asked>;
  /** `ask` and `finish` in one. */
  answer(config: object | undefined, options?: AskOptions): Promise<Asked>;
  /** The providers that were called so far, in order: `['a', 'b']`. */
  called(): string[];
  /** When they were called, in milliseconds since the gateway started. */
  times(): number[];
  /** Calls of this provider. */
  callsOf(provider: ScriptedProvider): ScriptedCallRecord[];
  /** Fails when anything of a request is left: a call, a timer, a hold on the generation. */
  assertNothingLeft(): Promise<void>;
}

/** No request lasts longer on the clock of a test. */
const longestMs = 30 * 60_000;

/** Starts a gateway whose providers play scenes. When the test ends, nothing of its requests may be left. */
export async function startPlanGateway(
  t: TestContext,
  scenes: Partial<Readonly<Record<ScriptedProvider, readonly UpstreamScene[]>>>,
  options: TestGatewayOptions = {},
): Promise<PlanKit> {
  const clock = new ManualClock();
  const script = Object.entries(scenes).map(([name, list]) => [`http://${name}.test`, list] as const);
  const transport = createScriptedTransport(clock, Object.fromEntries(script));
  let left: unknown;
  // Before the gateway ends what is open; told after it, because a hook that fails keeps later ones from running.
  t.after(() => assertNothingLeft().catch((error: unknown) => (left = error)));
  const gateway = await startTestGateway(t, {
    plugins: [providerPlugin()],
    ...options,
    providers: { ...providersOf(['a', 'b', 'c', 'claude']), ...options.providers },
    clock,
    transport,
  });
  t.after(() => assert.ifError(left));
  const startedAt = clock.monotonic();
  const timers = clock.waiting;
  let asked = 0;

  async function assertNothingLeft(): Promise<void> {
    await until(() => gateway.settled.length === asked, 'every request has settled');
    await until(() => gateway.held() === 0, 'the generation is free');
    await settle();
    const open = { calls: transport.open, timers: clock.waiting - timers, settled: gateway.settled.length };
    assert.deepEqual(open, { calls: 0, timers: 0, settled: asked });
    assert.deepEqual([transport.thrown, gateway.pluginErrors], [[], []]);
  }

  function begin(config: object | undefined, more: AskOptions = {}): Asked {
    asked += 1;
    return new ClientRequest(gateway, clock, asked, requestOf(config, more));
  }

  async function start(config: object | undefined, more?: AskOptions): Promise<Asked> {
    const calls = transport.calls.length;
    const one = begin(config, more);
    await until(() => transport.calls.length > calls || one.status > 0 || one.over, 'a call or an answer');
    await settle();
    return one;
  }

  return {
    clock,
    transport,
    gateway,
    assertNothingLeft,
    begin,
    ask: start,
    answer: async (config, more) => (await start(config, more)).finish(),
    called: () => transport.calls.map(({ request }) => nameOf(request.origin)),
    times: () => transport.calls.map((call) => call.startedAt - startedAt),
    callsOf: (name) => transport.calls.filter(({ request }) => nameOf(request.origin) === name),
  };
}

/** What a client wants sent. */
interface Sending {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
  readonly unfinished: boolean;
}

function requestOf(config: object | undefined, more: AskOptions): Sending {
  const { method = 'POST', path, headers = {}, body, raw } = more;
  const chat = ask({ stream: false, ...body });
  const bytes = raw?.bytes ?? Buffer.from(JSON.stringify(chat.body));
  const isSent = method !== 'GET' && method !== 'HEAD';
  return {
    method,
    path: path ?? chat.path,
    unfinished: more.unfinished ?? false,
    headers: {
      ...(isSent ? { 'content-type': raw?.type ?? 'application/json' } : {}),
      ...(config === undefined ? {} : { 'x-service-config': JSON.stringify(config) }),
      ...headers,
    },
    body: isSent ? bytes : undefined,
  };
}

function providersOf(names: readonly ScriptedProvider[]): TestGatewayOptions['providers'] {
  const rows = names.map((name) => [
    name,
    {
      base_url: `http://${name}.test/v1`,
      api_key: `secret-${name}`,
      ...(name === 'claude' ? { dialect: 'anthropic-messages' as const } : {}),
    },
  ]);
  return Object.fromEntries(rows) as NonNullable<TestGatewayOptions['providers']>;
}

const nameOf = (origin: string): string => new URL(origin).hostname.replace(/\.test$/, '');

class ClientRequest implements Asked {
  status = 0;
  headers: IncomingHttpHeaders = {};
  over = false;
  complete = false;
  private readonly gateway: TestGateway;
  private readonly clock: ManualClock;
  private readonly number: number;
  private readonly request: http.ClientRequest;
  private readonly chunks: Buffer[] = [];
  private response: IncomingMessage | undefined;

  constructor(gateway: TestGateway, clock: ManualClock, number: number, sending: Sending) {
    const { method, path, headers, body, unfinished } = sending;
    this.gateway = gateway;
    this.clock = clock;
    this.number = number;
    const request = http.request({
      hostname: '127.0.0.1',
      port: gateway.port,
      path,
      method,
      agent: false,
      headers: body === undefined ? headers : { ...headers, 'content-length': body.length },
    });
    this.request = request;
    request.on('response', (response) => {
      this.response = response;
      this.status = response.statusCode ?? 0;
      this.headers = response.headers;
      response.on('data', (chunk: Buffer) => this.chunks.push(chunk));
      response.on('error', () => undefined);
      response.on('close', () => {
        this.complete = response.complete;
        this.over = true;
      });
    });
    request.on('error', () => (this.over = true));
    if (unfinished) request.write(body?.subarray(0, -1));
    else request.end(body);
  }

  get text(): string {
    return Buffer.concat(this.chunks).toString('utf8');
  }

  json(): any {
    return JSON.parse(this.text);
  }

  abort(): void {
    this.request.destroy();
  }

  pause(): void {
    this.response?.pause();
  }

  resume(): void {
    this.response?.resume();
  }

  async finish(): Promise<Asked> {
    const { clock, gateway } = this;
    const end = clock.monotonic() + longestMs;
    for (;;) {
      await settle();
      // The remaining work then happens between two sockets.
      if (gateway.settled.length >= this.number) break;
      const next = clock.nextIn;
      if (next === undefined || clock.monotonic() + next > end) break;
      await clock.pass(next);
    }
    await until(() => this.over, 'the end of the answer');
    return this;
  }

  async settled(): Promise<SettledRequest> {
    await until(() => this.gateway.settled.length >= this.number, 'it has settled');
    return this.gateway.untilSettled(this.number);
  }
}
