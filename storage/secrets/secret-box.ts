import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { SecretBox } from '../../core/ports/secret-managers.ts';

/** A key of AES-256 and its id in sealed texts. */
export interface SealingKey {
  /** 12 hexadecimal digits, derived from the key: equal keys have equal ids. Reveals nothing about it. */
  readonly id: string;
  /** 32 bytes. */
  readonly bytes: Buffer;
}

const keyBytes = 32;

/** Prints a valid key for `WEIR_SECRET_KEY`. */
const keyCommand = 'openssl rand -base64 32';

/** The key of these 32 bytes. */
export function sealingKey(bytes: Buffer): SealingKey {
  const id = createHmac('sha256', bytes).update('weir key id').digest('hex').slice(0, 12);
  return { id, bytes };
}

/**
 * Reads a key from `source`: exactly 32 bytes as base64 or as hexadecimal digits. Throws a sentence that names the
 * source, not the text.
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

const algorithm = 'aes-256-gcm';
const format = 'v1';
/** 96 bits, the nonce size of GCM, random for every text. */
const nonceBytes = 12;
const tagBytes = 16;

/** The keys of a gateway: the sealing one, and those that only open earlier texts. */
export interface SealingKeys {
  readonly current: SealingKey;
  readonly previous: readonly SealingKey[];
}

/**
 * Seals with AES-256-GCM. A sealed text is `v1.<key id>.<nonce>.<ciphertext and tag>`, the last two as base64url; the
 * context is bound as additional data.
 */
export function createSecretBox({ current, previous }: SealingKeys): SecretBox {
  const keys = new Map([...previous, current].map((key) => [key.id, key.bytes]));
  const prefix = `${format}.${current.id}.`;
  return {
    keyId: current.id,
    seal(text, context) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(algorithm, current.bytes, nonce, { authTagLength: tagBytes });
      cipher.setAAD(additionalData(current.id, context));
      const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
      return `${prefix}${nonce.toString('base64url')}.${sealed.toString('base64url')}`;
    },
    open(sealed, context) {
      const { keyId, nonce, data } = partsOf(sealed);
      const key = keys.get(keyId);
      if (key === undefined) throw keyMissing(keyId);
      const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagBytes });
      decipher.setAAD(additionalData(keyId, context));
      decipher.setAuthTag(data.subarray(-tagBytes));
      try {
        return Buffer.concat([decipher.update(data.subarray(0, -tagBytes)), decipher.final()]).toString(
          'utf8',
        );
      } catch (cause) {
        throw tamperedSecretError(cause);
      }
    },
    isCurrent: (sealed) => sealed.startsWith(prefix),
  };
}

function additionalData(keyId: string, context: string): Buffer {
  return Buffer.from(`${format}.${keyId}.${context}`, 'utf8');
}

function partsOf(sealed: string): { readonly keyId: string; readonly nonce: Buffer; readonly data: Buffer } {
  const [version, keyId = '', nonceText = '', dataText = '', ...more] = sealed.split('.');
  const nonce = Buffer.from(nonceText, 'base64url');
  const data = Buffer.from(dataText, 'base64url');
  const isWhole = nonce.length === nonceBytes && data.length >= tagBytes && more.length === 0;
  if (version !== format || !isWhole) throw tamperedSecretError(undefined);
  return { keyId, nonce, data };
}

function keyMissing(keyId: string): GatewayError {
  return new GatewayError(
    'internal',
    `A stored secret was sealed with the key ${keyId.slice(0, 64)}, which this gateway does not have. Give it in WEIR_SECRET_KEY_PREVIOUS, or restore the file secret.key of the data folder, and restart; or store the secret again.`,
  );
}

function tamperedSecretError(cause: unknown): GatewayError {
  return new GatewayError(
    'internal',
    'A stored secret is not as it was sealed: it was changed, or moved from another record. Store it again.',
    { cause },
  );
}
