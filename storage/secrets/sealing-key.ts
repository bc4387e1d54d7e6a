import { createHmac } from 'node:crypto';

/** A key of AES-256 and the name by which sealed texts refer to it. */
export interface SealingKey {
  /** 12 hexadecimal digits, worked out of the key: the same key has the same id everywhere. Says nothing about it. */
  readonly id: string;
  /** 32 bytes. */
  readonly bytes: Buffer;
}

const keyBytes = 32;

/** Prints a key that `WEIR_SECRET_KEY` takes. */
export const keyCommand = 'openssl rand -base64 32';

/** The key of these 32 bytes. */
export function sealingKey(bytes: Buffer): SealingKey {
  const id = createHmac('sha256', bytes).update('weir key id').digest('hex').slice(0, 12);
  return { id, bytes };
}

/**
 * Reads a key as it is written in `source`: exactly 32 bytes as base64 or as hexadecimal digits. Throws a sentence that
 * names the source and not the text.
 */
export function readKey(text: string, source: string): SealingKey {
  const bytes = bytesOf(text.trim());
  if (bytes?.length === keyBytes) return sealingKey(bytes);
  throw new Error(
    `${source} is not 32 bytes as base64 or as 64 hexadecimal digits. Make a key with: ${keyCommand}`,
  );
}

function bytesOf(text: string): Buffer | undefined {
  if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, 'hex');
  return /^[A-Za-z0-9+/_-]+={0,2}$/.test(text) ? Buffer.from(text, 'base64') : undefined;
}
