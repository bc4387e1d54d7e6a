import type { HeaderList } from './header-list.ts';
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
}
