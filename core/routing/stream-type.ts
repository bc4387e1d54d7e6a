import type { Exchange } from '../pipeline/exchange.ts';

/** An answer of this content type is a stream in the client's wire: events, or what its request asks for instead. */
export function isStreamType({ dialect, facts, query }: Exchange, contentType: string): boolean {
  if (contentType.startsWith('text/event-stream')) return true;
  const framings = facts.stream ? dialect.frames?.framings : undefined;
  return framings !== undefined && contentType.startsWith(framings.contentTypeFor(query));
}
