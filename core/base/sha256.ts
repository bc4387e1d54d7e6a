import crypto from 'node:crypto';

/** SHA-256 of a text as UTF-8. `crypto.hash` costs half of `createHash`, but not every supported runtime has it. */
export function sha256(text: string, encoding: 'base64' | 'base64url' | 'hex'): string {
  return typeof crypto.hash === 'function'
    ? crypto.hash('sha256', text, encoding)
    : crypto.createHash('sha256').update(text).digest(encoding);
}
