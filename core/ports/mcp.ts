import type { GatewayError } from '../errors/gateway-error.ts';
import type { HeaderList } from './header-list.ts';
import type { OauthClients } from './oauth.ts';
import type { McpCapabilityType } from './record-kinds.ts';

/** Address of a server of the Model Context Protocol, and the headers that it receives. */
export interface McpAddress {
  /** `http` or `https`, without credentials. */
  readonly url: string;
  /** Streamable HTTP, or the older transport of two endpoints. */
  readonly transport: 'http' | 'sse';
  /** Sent with every request of the conversation; may hold credentials. */
  readonly headers: HeaderList;
}

/** One thing that a server offers, in the members of the protocol (`inputSchema`, `uriTemplate` …). */
export interface McpOffer {
  readonly type: McpCapabilityType;
  /** Unique among those of its type. */
  readonly name: string;
  /** The server's description without the name: plain JSON, 64 KiB at the most. */
  readonly described: Readonly<Record<string, unknown>>;
  /** Of a tool: the `toolDigest` of its whole description, of what does not fit into `described` too. */
  readonly digest?: string | undefined;
}

/** A server's description of itself in a handshake. */
export interface McpDescription {
  readonly serverName: string;
  readonly serverVersion: string;
  /** Of the protocol, as agreed: `2025-06-18`. */
  readonly protocolVersion: string;
  /** The server's `capabilities` member. */
  readonly capabilityFlags: Readonly<Record<string, unknown>>;
  /** In the server's order, 1,000 of a type at the most; the empty list for what it does not offer. */
  readonly offers: readonly McpOffer[];
}

/** Client for servers of the Model Context Protocol that an API call names: public addresses and trusted hosts only. */
export interface McpClients {
  /**
   * Shakes hands, lists all offers of the server and closes the session: at most 15 seconds and 8 MiB. Rejects with
   * `address_refused` when the address is not allowed, and `mcp_failed` (with `status` of the server's answer in its
   * details, where there was one) when the handshake fails; neither reveals the answer of an internal host.
   */
  describe(address: McpAddress): Promise<McpDescription>;
  /** Shakes hands and closes the session; resolves with the server's name. Bounds and errors as those of `describe`. */
  greet(address: McpAddress): Promise<{ readonly serverName: string }>;
  /** Opens the way to a server. Nothing is sent before the first request; `close` it with the plugin. */
  upstream(target: McpTarget): McpUpstream;
  /** Client of the authorization servers of MCP servers. */
  readonly oauth: OauthClients;
}

/** A server over Streamable HTTP, or over the older transport of two endpoints. */
export interface McpRemoteTarget {
  readonly type: 'http' | 'sse';
  /** `http` or `https`, without credentials. */
  readonly url: string;
  /** A record or a request names the address: public addresses and trusted hosts only, else `address_refused`. */
  readonly guarded: boolean;
}

/** A server that runs as a child process of the gateway and speaks over its standard input and output. */
export interface McpStdioTarget {
  readonly type: 'stdio';
  /** For messages and the log. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Added to the few variables that a runtime needs; others are withheld. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute. Default: the working folder of the gateway. */
  readonly cwd?: string | undefined;
  /** Most children at once: each session has one. */
  readonly maxChildren: number;
  /** One child for all sessions, in place of one for each. Default false. */
  readonly isShared?: boolean | undefined;
}

/**
 * An HTTP API with an OpenAPI document (3.0 or 3.1, JSON or YAML): its operations are the tools of a server without
 * sessions, which the gateway itself plays.
 */
interface McpOpenapiTarget {
  readonly type: 'openapi';
  /** For messages and the log. */
  readonly name: string;
  /** Place of the document: the absolute path of a file, or an `http` or `https` URL. Read with the first request. */
  readonly document: string;
  /**
   * URL before the paths of the document. Default: the first of its `servers`. A host that only a fetched document names,
   * and neither this nor the URL of the document, is called when it is public or trusted, and without any credentials.
   */
  readonly baseUrl?: string | undefined;
  /** Credentials of the API, sent with every call. */
  readonly headers: HeaderList;
  /** Operations that become tools: ids or `METHOD /path`, with `*` for any text. Default: all. */
  readonly include?: readonly string[] | undefined;
  /** Operations that do not, in the same form. */
  readonly exclude?: readonly string[] | undefined;
  /** Further operations are left out, which the log tells; 1,000 at the most. */
  readonly maxTools: number;
  /** Longest answer of the API to one call. */
  readonly maxAnswerBytes: number;
  /** Milliseconds from the begin of one call to its last byte. */
  readonly timeoutMs: number;
}

/** Place and kind of a server. */
export type McpTarget = McpRemoteTarget | McpStdioTarget | McpOpenapiTarget;

/** One request of the Streamable HTTP transport. */
export interface McpRequest {
  /** `POST` brings messages, `GET` opens the stream of what the server says by itself, `DELETE` ends the session. */
  readonly method: 'POST' | 'GET' | 'DELETE';
  /** JSON-RPC, of a `POST`. */
  readonly body: Uint8Array | null;
  /** Session that the upstream opened; undefined before the handshake, and with a server that has none. */
  readonly sessionId: string | undefined;
  /** As agreed in the handshake; undefined before. */
  readonly protocolVersion: string | undefined;
  /** The last event that the client saw of a stream that broke. */
  readonly lastEventId: string | undefined;
  /** Further headers: credentials for this server (never those for the gateway), `traceparent`, those that are forwarded. */
  readonly headers: HeaderList;
  /** Milliseconds until the head of the answer arrives; 0 for no bound. */
  readonly headTimeoutMs: number;
  /** Milliseconds between two chunks of the answer; 0 for no bound. */
  readonly idleTimeoutMs: number;
}

/** Head of the answer to an `McpRequest`. */
export interface McpHead {
  /**
   * 200 with a body, 202 without one; 400 for what is no message, 404 for an unknown session, 405 where there is no stream
   * to open.
   */
  readonly status: number;
  /** Of the session that this answer opens. */
  readonly sessionId: string | undefined;
  /** `application/json`, `text/event-stream`, or empty. */
  readonly contentType: string;
  /** Of a 401 or 403. */
  readonly wwwAuthenticate: string | undefined;
}

/** Receives one answer: `head` once, then `data`; exactly one of `end` and `fail` is the last call. */
export interface McpHandler {
  head(head: McpHead): void;
  /** Return false to pause; call `resume` on the call when there is room. */
  data(chunk: Buffer): boolean;
  end(): void;
  /** `upstream_…`, `address_refused`, `mcp_failed` (a document that cannot be used), or the reason of `abort`. */
  fail(error: GatewayError): void;
}

/** A request on its way. */
export interface McpCall {
  resume(): void;
  /** Ends the call; `fail` is called with this error unless the answer has ended. */
  abort(error: GatewayError): void;
}

/**
 * A server behind any transport, which behaves as one over Streamable HTTP: sessions that its transport lacks are opened
 * here, and an unknown one is answered with 404, upon which the caller shakes hands anew.
 */
export interface McpUpstream {
  send(request: McpRequest, handler: McpHandler): McpCall;
  /** Ends calls, sessions and child processes. */
  close(): Promise<void>;
}
