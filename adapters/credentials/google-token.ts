import { createPrivateKey, sign, type KeyObject } from 'node:crypto';
import type { CredentialFields, Credentials } from '../../core/ports/credentials.ts';
import { asText, parseObject } from '../dialects/json-reading.ts';
import { cachedBearer, fetchOAuthToken, formRequest, staticBearer, TokenCache } from './token-cache.ts';
import { type CredentialContext, fieldOf, fieldProblem, type TokenStep } from './credential-context.ts';

/** Fields in use of a Google Cloud key file. */
interface ServiceAccount {
  readonly email: string;
  readonly privateKey: KeyObject;
  readonly privateKeyId: string | undefined;
  readonly tokenUri: string;
}

const field = 'vertex_service_account_json';
const scope = 'https://www.googleapis.com/auth/cloud-platform';
const defaultTokenUri = 'https://oauth2.googleapis.com/token';
/** Longest lifetime that Google accepts, in seconds. */
const assertionSeconds = 3_600;

/**
 * Credentials of Google Cloud: the key file of a service account in `vertex_service_account_json`, or a ready access
 * token in `api_key`.
 */
export function createGoogleCredentials(fields: CredentialFields, context: CredentialContext): Credentials {
  const json = fieldOf(fields, field);
  const token = fieldOf(fields, 'api_key');
  if (json === undefined && token !== undefined) return staticBearer(token);
  if (json === undefined) {
    throw fieldProblem(
      field,
      'is missing: give the key file of a service account, or an access token as api_key.',
    );
  }
  const account = readServiceAccount(json, context.machineIdentity);
  const { clock, fetch } = context;
  const cache = new TokenCache<string>({
    clock,
    fetch() {
      const assertion = assertionOf(account, clock.now());
      const step: TokenStep = {
        what: `No access token of Google for ${account.email}`,
        remedy: `Check ${field}, that the account exists and that its key is not disabled`,
        secrets: [assertion],
      };
      const form = { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion };
      return fetchOAuthToken({ fetch, clock, step }, formRequest(account.tokenUri, form));
    },
  });
  return cachedBearer(cache);
}

function readServiceAccount(json: string, isOperators: boolean): ServiceAccount {
  const file = parseObject(json);
  if (file === undefined) throw fieldProblem(field, 'is no JSON object. Give the whole key file, unchanged.');
  const type = asText(file.type) ?? 'service_account';
  if (type !== 'service_account') {
    throw fieldProblem(field, `has the type "${type.slice(0, 64)}". Give a key file of a service account.`);
  }
  const read = (name: string): string => {
    const value = asText(file[name]);
    if (value === undefined)
      throw fieldProblem(field, `lacks "${name}". Give the whole key file, unchanged.`);
    return value;
  };
  return {
    email: read('client_email'),
    privateKey: rsaKey(read('private_key')),
    privateKeyId: asText(file.private_key_id),
    tokenUri: tokenUriOf(asText(file.token_uri) ?? defaultTokenUri, isOperators),
  };
}

function rsaKey(pem: string): KeyObject {
  let key: KeyObject | undefined;
  try {
    // Line ends may be escaped twice, as happens with environment variables.
    key = createPrivateKey(pem.replaceAll('\\n', '\n'));
  } catch {
    // The message of the parser may quote the key.
  }
  if (key?.asymmetricKeyType === 'rsa') return key;
  throw fieldProblem(
    field,
    'has a "private_key" that is no RSA key in PEM. Give the whole key file, unchanged.',
  );
}

/** Fields of the operator are trusted; a service account from a request always uses Google's own token endpoint. */
function tokenUriOf(uri: string, isOperators: boolean): string {
  const url = URL.canParse(uri) ? new URL(uri) : undefined;
  const isGoogle =
    url?.protocol === 'https:' &&
    (url.host === 'accounts.google.com' || url.host.endsWith('.googleapis.com'));
  const isPlain = url !== undefined && /^https?:$/.test(url.protocol) && url.username === '';
  if (isPlain && (isGoogle || isOperators)) return uri;
  throw fieldProblem(field, `has a "token_uri" that is not Google's. Use ${defaultTokenUri}.`);
}

/** A JWT that proves the identity of the account (RFC 7523), signed with RS256. */
function assertionOf({ email, privateKey, privateKeyId, tokenUri }: ServiceAccount, nowMs: number): string {
  const issued = Math.floor(nowMs / 1_000);
  const header = { alg: 'RS256', typ: 'JWT', kid: privateKeyId };
  const claims = { iss: email, scope, aud: tokenUri, iat: issued, exp: issued + assertionSeconds };
  const unsigned = `${encoded(header)}.${encoded(claims)}`;
  return `${unsigned}.${sign('RSA-SHA256', Buffer.from(unsigned), privateKey).toString('base64url')}`;
}

function encoded(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}
