import { createHash } from 'node:crypto';

/** What the API allows in a `toolUseId`. */
const allowed = /^[a-zA-Z0-9_.:-]{1,64}$/;
/** What Mistral's models allow. */
const allowedByMistral = /^[a-zA-Z0-9]{9}$/;

/**
 * An id of a tool call as the API takes it: unchanged where it is allowed, else a digest of it. The same id always
 * becomes the same, so that calls and results stay together.
 */
export function toolUseId(id: string, vendor: string): string {
  const mistral = vendor === 'mistral';
  if ((mistral ? allowedByMistral : allowed).test(id)) return id;
  return createHash('sha256')
    .update(id)
    .digest('hex')
    .slice(0, mistral ? 9 : 32);
}
