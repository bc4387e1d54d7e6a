import { createPrivateKey, type KeyObject, randomUUID } from 'node:crypto';
import { SignJWT } from 'jose';
import type { Clock } from '../../core/ports/clock.ts';
import type { OauthClient } from '../../core/ports/oauth.ts';
import { parseJson } from '../../core/base/json.ts';

const assertionSeconds = 60;
const assertionType = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';

/** A token endpoint, for which the proof is made. */
interface ProofPlace {
  /** Empty where it is not known. */
  readonly issuer: string;
  readonly endpoint: string;
}

/**
 * Adds the proof of the client (RFC 6749 2.3, RFC 7523) to a request for a token. Rejects with a sentence about a private
 * key that cannot be read; it never holds the key.
 */
export async function proveClient(
  { id, method, secret }: OauthClient,
  { headers, form }: { readonly headers: Headers; readonly form: URLSearchParams },
  { issuer, endpoint }: ProofPlace,
  clock: Clock,
): Promise<void> {
  switch (method) {
    case 'client_secret_basic': {
      const credentials = `${formEncoded(id)}:${formEncoded(secret)}`;
      headers.set('authorization', `Basic ${Buffer.from(credentials).toString('base64')}`);
      return;
    }
    case 'client_secret_post':
      form.set('client_id', id);
      form.set('client_secret', secret);
      return;
    case 'private_key_jwt':
      form.set('client_id', id);
      form.set('client_assertion_type', assertionType);
      form.set('client_assertion', await assertion(id, privateKeyOf(secret), issuer || endpoint, clock));
      return;
    case 'none':
      form.set('client_id', id);
  }
}

/** Basic credentials are form-encoded before they are joined (RFC 6749, appendix B). */
function formEncoded(text: string): string {
  return new URLSearchParams([['', text]]).toString().slice(1);
}

interface SigningKey {
  readonly key: KeyObject;
  readonly algorithm: string;
  readonly id: string | undefined;
}

async function assertion(
  clientId: string,
  { key, algorithm, id }: SigningKey,
  audience: string,
  clock: Clock,
): Promise<string> {
  const now = Math.floor(clock.now() / 1000);
  return new SignJWT({})
    .setProtectedHeader({ alg: algorithm, typ: 'JWT', ...(id !== undefined && { kid: id }) })
    .setIssuer(clientId)
    .setSubject(clientId)
    .setAudience(audience)
    .setIssuedAt(now)
    .setExpirationTime(now + assertionSeconds)
    .setJti(randomUUID())
    .sign(key);
}

const curves: Readonly<Record<string, string>> = {
  prime256v1: 'ES256',
  secp384r1: 'ES384',
  secp521r1: 'ES512',
};

/** A private key in PEM (PKCS #8) or as JWK, with its algorithm: that of the JWK, else the usual one of its kind. */
function privateKeyOf(text: string): SigningKey {
  const jwk = parseJson(text);
  const isJwk = typeof jwk === 'object' && jwk !== null && !Array.isArray(jwk);
  let key: KeyObject;
  try {
    key = isJwk ? createPrivateKey({ key: jwk, format: 'jwk' }) : createPrivateKey(text);
  } catch {
    // The library's message may hold a part of the key.
    throw new UnusableKey('is neither a key in PEM (PKCS #8) nor a JWK with its private part');
  }
  const named: Readonly<Record<string, unknown>> = isJwk ? { ...jwk } : {};
  const { alg, kid } = named;
  return {
    key,
    algorithm: typeof alg === 'string' ? alg : usualAlgorithm(key),
    id: typeof kid === 'string' ? kid : undefined,
  };
}

function usualAlgorithm({ asymmetricKeyType: type, asymmetricKeyDetails: details }: KeyObject): string {
  if (type === 'rsa') return 'RS256';
  if (type === 'ed25519') return 'EdDSA';
  const algorithm = type === 'ec' ? curves[details?.namedCurve ?? ''] : undefined;
  if (algorithm !== undefined) return algorithm;
  throw new UnusableKey('is of a kind that no algorithm of JSON Web Tokens signs with');
}

/** The private key of a client cannot be used; the message is the end of a sentence about it. */
export class UnusableKey extends Error {}
