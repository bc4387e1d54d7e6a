import { importJWK, type CryptoKey, type JWK } from 'jose';
import type { TokenAlgorithm } from '../../core/ports/token-verifier.ts';
import { quoteClaim, tokenInvalid } from '../../core/errors/gateway-error.ts';

/** A set with more keys is taken for a mistake. */
const maxKeys = 100;

/** Which keys an algorithm takes: type, and the curve for those that have one. */
const families: Readonly<Record<TokenAlgorithm, readonly [kty: string, crv?: string]>> = {
  RS256: ['RSA'],
  RS384: ['RSA'],
  RS512: ['RSA'],
  PS256: ['RSA'],
  PS384: ['RSA'],
  PS512: ['RSA'],
  ES256: ['EC', 'P-256'],
  ES384: ['EC', 'P-384'],
  ES512: ['EC', 'P-521'],
  EdDSA: ['OKP', 'Ed25519'],
};

/** Public keys that verify signatures. */
export class KeySet {
  /** What it was read from: equal for equal sets. */
  readonly source: string;
  private readonly keys: readonly JWK[];
  private readonly imported = new Map<string, Promise<CryptoKey>>();

  /** Throws a sentence when the value is no JSON Web Key Set, or one without a key to verify with. */
  constructor(value: unknown) {
    const all = (value as { keys?: unknown } | null | undefined)?.keys;
    if (!Array.isArray(all)) throw new Error('it is no JSON Web Key Set: "keys" is not a list');
    if (all.length > maxKeys) throw new Error(`it holds more than ${maxKeys} keys`);
    this.keys = all.filter(verifies);
    if (this.keys.length === 0)
      throw new Error('it holds no public RSA, EC or Ed25519 key that is there to verify signatures');
    this.source = JSON.stringify(this.keys);
  }

  /** How many keys it has. */
  get size(): number {
    return this.keys.length;
  }

  /** Whether a key of this id is there. A token that names none means the only key of a set. */
  has(kid: string | undefined): boolean {
    return kid === undefined || this.keys.some((key) => key.kid === kid);
  }

  /** The key for a token. Rejects with `token_invalid` when there is none that fits. */
  async find(kid: string | undefined, algorithm: TokenAlgorithm): Promise<CryptoKey> {
    if (kid === undefined && this.size !== 1)
      throw tokenInvalid(
        `does not say which key signed it (kid), and there are ${this.size} keys. Have its issuer name the key.`,
      );
    if (!this.has(kid)) throw unknownKey(kid, this.size);
    const at = this.keys.findIndex((key) => (kid === undefined || key.kid === kid) && fits(key, algorithm));
    const key = this.keys[at];
    if (key === undefined)
      throw tokenInvalid(`is signed with ${algorithm}, and the key that it names is not one for that.`);
    const name = `${at}/${algorithm}`;
    let imported = this.imported.get(name);
    if (imported === undefined) {
      imported = importKey(key, algorithm);
      this.imported.set(name, imported);
    }
    return imported;
  }
}

function unknownKey(kid: string | undefined, size: number): Error {
  return tokenInvalid(
    `is signed by the key ${quoteClaim(kid)}, which is none of the ${size} that are known. Get a new token from the issuer that this gateway accepts.`,
  );
}

async function importKey(key: JWK, algorithm: TokenAlgorithm): Promise<CryptoKey> {
  try {
    const imported = await importJWK(key, algorithm);
    if (!(imported instanceof Uint8Array)) return imported;
  } catch {
    // The same to the caller as a key of another kind.
  }
  throw tokenInvalid(`names a key that cannot be used for ${algorithm}. Report it to the issuer.`);
}

/** A private key has no business here, and a shared secret would let everybody who verifies sign. */
function verifies(value: unknown): value is JWK {
  if (typeof value !== 'object' || value === null) return false;
  const { kty, kid, use, d, key_ops: operations } = value as Partial<Record<keyof JWK, unknown>>;
  if (kty !== 'RSA' && kty !== 'EC' && kty !== 'OKP') return false;
  if (kid !== undefined && typeof kid !== 'string') return false;
  if (d !== undefined || (use !== undefined && use !== 'sig')) return false;
  return operations === undefined || (Array.isArray(operations) && operations.includes('verify'));
}

function fits({ kty, crv, alg }: JWK, algorithm: TokenAlgorithm): boolean {
  const [type, curve] = families[algorithm];
  if (alg !== undefined && alg !== algorithm) return false;
  return kty === type && (curve === undefined || curve === crv);
}
