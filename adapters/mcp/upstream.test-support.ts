import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { McpCall, McpHandler, McpHead, McpRequest, McpUpstream } from '../../core/ports/mcp.ts';

/** Outcome of one request. */
interface Recorded {
  readonly head: McpHead | undefined;
  readonly body: string;
  /** Undefined when the answer ended. */
  readonly error: GatewayError | undefined;
}

/** One request under way. */
export class Asked implements McpHandler {
  readonly call: McpCall;
  readonly chunks: Buffer[] = [];
  readonly headed: Promise<McpHead>;
  readonly over: Promise<Recorded>;
  /** Whether the reader has room. */
  reads = true;
  headSeen: McpHead | undefined;
  #headed: (head: McpHead) => void = () => undefined;
  #over: (recorded: Recorded) => void = () => undefined;
  #ends = 0;

  constructor(upstream: McpUpstream, request: Partial<McpRequest> = {}, reads = true) {
    this.reads = reads;
    this.headed = new Promise((resolve) => (this.#headed = resolve));
    this.over = new Promise((resolve) => (this.#over = resolve));
    this.call = upstream.send({ ...plainRequest, ...request }, this);
  }

  head(head: McpHead): void {
    if (this.headSeen !== undefined) throw new Error('a second head');
    this.headSeen = head;
    this.#headed(head);
  }

  data(chunk: Buffer): boolean {
    if (this.headSeen === undefined || this.#ends > 0) throw new Error('data outside of the answer');
    this.chunks.push(chunk);
    return this.reads;
  }

  end(): void {
    this.#finish(undefined);
  }

  fail(error: GatewayError): void {
    this.#finish(error);
  }

  get text(): string {
    return Buffer.concat(this.chunks).toString();
  }

  #finish(error: GatewayError | undefined): void {
    this.#ends += 1;
    if (this.#ends > 1) throw new Error('a second end');
    this.#over({ head: this.headSeen, body: this.text, error });
  }
}

const plainRequest: McpRequest = {
  method: 'POST',
  body: null,
  sessionId: undefined,
  protocolVersion: undefined,
  lastEventId: undefined,
  headers: [],
  headTimeoutMs: 20_000,
  idleTimeoutMs: 0,
};

/** A request whose answer is awaited. */
export function ask(upstream: McpUpstream, request: Partial<McpRequest> = {}): Promise<Recorded> {
  return new Asked(upstream, request).over;
}

/** The body of a POST. */
export function bodyOf(message: unknown): Buffer {
  return Buffer.from(JSON.stringify(message));
}

/** The body of a handshake. */
export const initialize = bodyOf({
  jsonrpc: '2.0',
  id: 'hello',
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  },
});

/** A call of a tool. */
export function toolCall(id: unknown, name: string, args: object = {}, meta?: object): Buffer {
  const params = { name, arguments: args, ...(meta === undefined ? {} : { _meta: meta }) };
  return bodyOf({ jsonrpc: '2.0', id, method: 'tools/call', params });
}

/** Shakes hands; the id of the session. */
export async function openSession(upstream: McpUpstream, request: Partial<McpRequest> = {}): Promise<string> {
  const { head, body, error } = await ask(upstream, { body: initialize, ...request });
  if (head?.sessionId === undefined) throw new Error(`No session: ${body}`, { cause: error });
  const initialized = bodyOf({ jsonrpc: '2.0', method: 'notifications/initialized' });
  await ask(upstream, { body: initialized, sessionId: head.sessionId });
  return head.sessionId;
}

/** The reason of an aborting caller. */
export function gone(): GatewayError {
  return new GatewayError('client_closed', 'the client has gone');
}
