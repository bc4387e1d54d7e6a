import { randomBytes } from 'node:crypto';
import { sha256 } from '../../core/base/sha256.ts';

/** A secret that has just been made. */
export interface NewSecret {
  /** What its holder is told, once. */
  readonly text: string;
  /** What is stored. */
  readonly hash: string;
  /** What lists show: its first and last letters. */
  readonly masked: string;
}

/** A new secret: the prefix of service keys and 240 random bits. */
export function newSecret(keyPrefix: string): NewSecret {
  const random = randomBytes(30).toString('base64url');
  const text = keyPrefix + random;
  return {
    text,
    hash: sha256(text, 'base64'),
    masked: `${keyPrefix}${random.slice(0, 2)}…${random.slice(-2)}`,
  };
}
