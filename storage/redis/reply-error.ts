/** True for an error that the server itself answered with (`OOM …`, `NOPERM …`), false for one of the connection. */
export function isReplyError(thrown: unknown): thrown is Error {
  return thrown instanceof Error && thrown.name === 'ReplyError';
}
