import { Type } from 'typebox';
import { sha256 } from '../base/bytes.ts';
import { needs } from './fields.ts';

/** Secret of a key in a file: one of the two fields. */
export const keySecretProperties = {
  key: Type.Optional(
    Type.String({
      minLength: 16,
      maxLength: 512,
      pattern: '^[!-~]+$',
      description:
        'The secret itself, best read from an environment variable: "${TEAM_KEY}". Any 16 or more visible ASCII characters.',
    }),
  ),
  key_sha256: Type.Optional(
    Type.String({
      pattern: '^([A-Za-z0-9+/]{43}=|[0-9A-Fa-f]{64})$',
      description: 'SHA-256 of the secret instead of `key`, in base64 or hex.',
    }),
  ),
};

/** For the options of the object with `keySecretProperties`: exactly one of them. */
export const oneKeySecret = { oneOf: [needs('key'), needs('key_sha256')] };

/** SHA-256 (base64) of the secret in a file; undefined for none. */
export function keySecretHash({
  key,
  key_sha256: hash,
}: {
  readonly key?: string;
  readonly key_sha256?: string;
}): string | undefined {
  if (key !== undefined) return sha256(key, 'base64');
  if (hash === undefined) return undefined;
  return Buffer.from(hash, hash.length === 64 ? 'hex' : 'base64').toString('base64');
}
