/** Content type of the stream that a request with this query gets: events for `alt=sse`, else one JSON array. */
export function streamContentType(query: string): 'text/event-stream' | 'application/json' {
  return /[?&]alt=sse(?:&|$)/.test(query) ? 'text/event-stream' : 'application/json';
}
