import { randomBytes } from 'node:crypto';

/**
 * A new slug: the prefix (`ws-`, `pc-`, or nothing), the letters of the name that an address can have, and six that make
 * it unique.
 */
export function newSlug(prefix: string, name: string): string {
  const words = name
    .toLowerCase()
    .normalize('NFKD')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 40);
  const letters = [...randomBytes(6)].map((byte) => String.fromCharCode(97 + (byte % 26))).join('');
  return words === '' ? `${prefix}${letters}` : `${prefix}${words}-${letters}`;
}
