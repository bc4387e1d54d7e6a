/** Bounds of what speaks to servers of the Model Context Protocol. */
export interface McpLimits {
  /** Of a whole conversation, goodbye included. */
  readonly timeoutMs: number;
  /** The longest that goodbye may take of it. */
  readonly goodbyeMs: number;
  /** How long a conversation waits on after a stream that brought no answer has ended. */
  readonly graceMs: number;
  /** Bodies of all answers of a conversation together. */
  readonly maxBytes: number;
  /** Lines of event streams of a conversation: each costs more to read than its bytes. */
  readonly maxLines: number;
  /** Requests of a conversation, and how many of them at the same time. */
  readonly maxRequests: number;
  readonly maxRequestsAtOnce: number;
  /** Conversations under way; one more fails. */
  readonly maxConversations: number;
  /** Kept of one type. */
  readonly maxOffers: number;
  /** Of one list. */
  readonly maxPages: number;
  /** JSON of what is kept of an offer beside its name. */
  readonly maxDescribedBytes: number;
  /** Characters of an offer's name, and of what a server calls itself. */
  readonly maxNameLength: number;
}

/** What `core/ports/mcp.ts` promises, and what it leaves to the adapter. */
export const mcpLimits: McpLimits = {
  timeoutMs: 15_000,
  goodbyeMs: 2_000,
  graceMs: 250,
  maxBytes: 8_388_608,
  maxLines: 100_000,
  maxRequests: 500,
  maxRequestsAtOnce: 8,
  maxConversations: 16,
  maxOffers: 1_000,
  maxPages: 100,
  maxDescribedBytes: 65_536,
  maxNameLength: 1_024,
};
