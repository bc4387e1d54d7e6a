/** Whether a content type is that of server-sent events; parameters and case do not matter. */
export function isEventStreamType(contentType: string): boolean {
  return /^\s*text\/event-stream/i.test(contentType);
}
