import { Readable } from 'node:stream';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import { type Clock, systemClock } from '../../core/ports/clock.ts';
import { headerValue, type HeaderList } from '../../core/ports/header-list.ts';
import type { Transport, UpstreamCall, UpstreamRequest } from '../../core/ports/transport.ts';
import { createMockTransport } from './transport.ts';

/** A clock that a test moves by hand. */
export class HandClock implements Clock {
  #now = 1_760_000_000_000;
  readonly #timers = new Set<{ readonly at: number; readonly run: () => void }>();

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#now;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { at: this.#now + ms, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Timers that have neither run nor been cancelled. */
  get waiting(): number {
    return this.#timers.size;
  }

  advance(ms: number): void {
    this.#now += ms;
    for (const timer of this.#timers) {
      if (timer.at > this.#now) continue;
      this.#timers.delete(timer);
      timer.run();
    }
  }
}

/** A request to the mock provider; every part has a default. */
export interface MockSend {
  readonly origin?: string;
  readonly method?: string;
  readonly path?: string;
  readonly headers?: HeaderList;
  /** An object is sent as JSON. */
  readonly body?: object | Uint8Array | Readable | null;
  readonly headTimeoutMs?: number;
  readonly idleTimeoutMs?: number;
}

/** The request of the transport's contract. */
export function upstreamRequest(send: MockSend): UpstreamRequest {
  const { body = null } = send;
  const raw = body === null || body instanceof Uint8Array || body instanceof Readable;
  return {
    origin: send.origin ?? 'mock:',
    method: send.method ?? (body === null ? 'GET' : 'POST'),
    path: send.path ?? '/chat/completions',
    headers: send.headers ?? ['content-type', 'application/json'],
    body: raw ? body : Buffer.from(JSON.stringify(body)),
    connectTimeoutMs: 1000,
    headTimeoutMs: send.headTimeoutMs ?? 0,
    idleTimeoutMs: send.idleTimeoutMs ?? 0,
  };
}

/** All handler calls, in order. */
interface Received {
  status: number;
  headers: HeaderList;
  readonly chunks: Buffer[];
  ended: boolean;
  error: GatewayError | undefined;
  /** The names of the calls: `head`, `data`, `end`, `fail`. */
  readonly calls: string[];
}

/** Sends and collects; `onData` may pause by returning false. */
export function collect(
  transport: Transport,
  send: MockSend,
  onData: (chunk: Buffer) => boolean = () => true,
): { call: UpstreamCall; received: Received; done: Promise<Received> } {
  const received: Received = {
    status: 0,
    headers: [],
    chunks: [],
    ended: false,
    error: undefined,
    calls: [],
  };
  let settle: (received: Received) => void = () => undefined;
  const done = new Promise<Received>((resolve) => {
    settle = resolve;
  });
  const call = transport.send(upstreamRequest(send), {
    head(status, headers) {
      received.calls.push('head');
      received.status = status;
      received.headers = headers;
    },
    data(chunk) {
      received.calls.push('data');
      received.chunks.push(chunk);
      return onData(chunk);
    },
    end() {
      received.calls.push('end');
      received.ended = true;
      settle(received);
    },
    fail(error) {
      received.calls.push('fail');
      received.error = error;
      settle(received);
    },
  });
  return { call, received, done };
}

/** A whole exchange. */
export function exchange(send: MockSend, transport: Transport = newTransport()): Promise<Received> {
  return collect(transport, send).done;
}

/** A mock transport with constant identifiers. */
export function newTransport(clock: Clock = systemClock): Transport {
  return createMockTransport({ clock, random: () => 0 });
}

/** The body of an answer as text. */
export function textOf(received: Received): string {
  return Buffer.concat(received.chunks).toString('utf8');
}

/** The data of every event of a streamed body; `[DONE]` among them. */
export function eventsOf(received: Received): string[] {
  return textOf(received)
    .split('\n\n')
    .filter((frame) => frame !== '')
    .map((frame) => frame.slice(frame.indexOf('data: ') + 6));
}

/** The first value of a header of the answer; the name in lower case. */
export function header(received: Received, name: string): string | undefined {
  return headerValue(received.headers, name);
}

/** Runs everything that needs no time to pass. */
export async function idle(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** A chat body with one message of a user. */
export function chatBody(text: string, more: object = {}): object {
  return { model: 'mock-gpt', messages: [{ role: 'user', content: text }], ...more };
}
