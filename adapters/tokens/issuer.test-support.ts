import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK, type JWTPayload } from 'jose';

/** A key for signing in tests. */
export interface SigningKey {
  readonly kid: string | undefined;
  readonly algorithm: string;
  readonly privateKey: CryptoKey;
  readonly publicKey: JWK;
}

/** Creates a key pair; without a `kid` when it is undefined. */
export async function signingKey(algorithm = 'ES256', kid: string | undefined = 'one'): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(algorithm, { extractable: true });
  const jwk = await exportJWK(publicKey);
  return { kid, algorithm, privateKey, publicKey: kid === undefined ? jwk : { ...jwk, kid } };
}

/** Signs these claims; `header` replaces the key's members of the header. */
export function sign(
  key: SigningKey,
  claims: JWTPayload,
  header: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const kid = key.kid === undefined ? {} : { kid: key.kid };
  return new SignJWT(claims)
    .setProtectedHeader({ alg: key.algorithm, ...kid, ...header })
    .sign(key.privateKey);
}

/** The same header and claims with another signature. */
export function forged(token: string): string {
  const [header, claims, signature = ''] = token.split('.');
  const bytes = Buffer.from(signature, 'base64url');
  bytes[0] = (bytes[0] ?? 0) ^ 1;
  return `${header}.${claims}.${bytes.toString('base64url')}`;
}

/** A key set server with a counter, controlled by the test. */
export interface KeyServer {
  readonly url: string;
  readonly host: string;
  /** Number of requests. */
  asked: number;
  /** Its answer: a set, another status, a text, or none at all (`hang`). */
  answer: { keys: readonly JWK[] } | number | string;
}

/** Starts one on 127.0.0.1; it ends with the test. */
export async function startKeyServer(t: TestContext, ...keys: readonly SigningKey[]): Promise<KeyServer> {
  const state: KeyServer = {
    url: '',
    host: '',
    asked: 0,
    answer: { keys: keys.map(({ publicKey }) => publicKey) },
  };
  const server = createServer((_request, response) => {
    state.asked += 1;
    const { answer } = state;
    if (answer === 'hang') return;
    if (typeof answer === 'number') response.writeHead(answer).end('{}');
    else response.end(typeof answer === 'string' ? answer : JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return Object.assign(state, { host, url: `http://${host}/keys?secret=s3cret` });
}
