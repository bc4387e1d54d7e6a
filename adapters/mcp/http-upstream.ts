import type { GatewayError } from '../../core/errors/gateway-error.ts';
import { type HeaderList, headerValue } from '../../core/ports/header-list.ts';
import type { McpCall, McpHandler, McpHead, McpRequest, McpUpstream } from '../../core/ports/mcp.ts';
import type { Transport, UpstreamHandler } from '../../core/ports/transport.ts';

/** Milliseconds until a connection to a server is established. */
export const connectTimeoutMs = 10_000;

/** Place of a server over Streamable HTTP. */
export interface HttpUpstreamOptions {
  readonly url: URL;
  /** Connects to public addresses only. */
  readonly guarded: boolean;
  readonly transport: Transport;
}

/** A server over Streamable HTTP: each request is one call of the transport, whose connections are kept and shared. */
export class HttpUpstream implements McpUpstream {
  readonly #url: URL;
  readonly #guarded: boolean;
  readonly #transport: Transport;

  constructor({ url, guarded, transport }: HttpUpstreamOptions) {
    this.#url = url;
    this.#guarded = guarded;
    this.#transport = transport;
  }

  send(request: McpRequest, handler: McpHandler): McpCall {
    const { method, body, headTimeoutMs, idleTimeoutMs } = request;
    return this.#transport.send(
      {
        origin: this.#url.origin,
        guarded: this.#guarded,
        method,
        path: this.#url.pathname + this.#url.search,
        headers: requestHeaders(request, this.#url.host),
        body,
        connectTimeoutMs,
        headTimeoutMs,
        idleTimeoutMs,
      },
      new HeadReader(handler),
    );
  }

  /** The transport belongs to the gateway. */
  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Headers of a request, those of the protocol first. `host` of the server. */
export function requestHeaders(request: McpRequest, host: string): string[] {
  const { method, body, sessionId, protocolVersion, lastEventId, headers } = request;
  const accept = method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream';
  const list = ['host', host, 'accept', accept, 'accept-encoding', 'identity'];
  if (body !== null) list.push('content-type', 'application/json', 'content-length', String(body.length));
  if (sessionId !== undefined) list.push('mcp-session-id', sessionId);
  if (protocolVersion !== undefined) list.push('mcp-protocol-version', protocolVersion);
  if (lastEventId !== undefined) list.push('last-event-id', lastEventId);
  list.push(...headers);
  return list;
}

/** What the protocol needs of an answer's head. */
export function headOfAnswer(status: number, headers: HeaderList): McpHead {
  return {
    status,
    sessionId: headerValue(headers, 'mcp-session-id'),
    contentType: (headerValue(headers, 'content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '',
    wwwAuthenticate: headerValue(headers, 'www-authenticate'),
  };
}

class HeadReader implements UpstreamHandler {
  readonly #handler: McpHandler;

  constructor(handler: McpHandler) {
    this.#handler = handler;
  }

  head(status: number, headers: HeaderList): void {
    this.#handler.head(headOfAnswer(status, headers));
  }

  data(chunk: Buffer): boolean {
    return this.#handler.data(chunk);
  }

  end(): void {
    this.#handler.end();
  }

  fail(error: GatewayError): void {
    this.#handler.fail(error);
  }
}
