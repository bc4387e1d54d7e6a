import type { HeaderList } from './header-list.ts';
import type { McpCapabilityType } from './record-kinds.ts';

/** Where a server of the Model Context Protocol listens, and what it is told. */
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
  /** What the server says of it beside its name: plain JSON, 64 KiB at the most. */
  readonly described: Readonly<Record<string, unknown>>;
}

/** What a server says of itself in a handshake. */
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

/** Speaks to servers of the Model Context Protocol that an API call names: public addresses and trusted hosts only. */
export interface McpClients {
  /**
   * Shakes hands, lists all that the server offers, and says goodbye: at most 15 seconds and 8 MiB. Rejects with
   * `address_refused` when the address may not be spoken to, and `mcp_failed` (with `status` of the server's answer in
   * its details, where there was one) when no handshake comes about; neither tells what an internal host answered.
   */
  describe(address: McpAddress): Promise<McpDescription>;
  /** Shakes hands and says goodbye; what the server calls itself. Bounds and errors as those of `describe`. */
  greet(address: McpAddress): Promise<{ readonly serverName: string }>;
}
