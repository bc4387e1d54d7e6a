import { createPrivateKey, type KeyObject, sign } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Clock } from '../../core/ports/clock.ts';
import type {
  CredentialFactory,
  CredentialFields,
  CredentialKind,
  CredentialOptions,
  Credentials,
} from '../../core/ports/credentials.ts';
import { sha256 } from '../../core/base/bytes.ts';
import type { Transport } from '../../core/ports/transport.ts';
import { parseObject, asText, type JsonObject } from '../dialects/json-reading.ts';
import { createAwsCredentials } from './aws-credentials.ts';
import {
  type CredentialContext,
  credentialField,
  credentialsFailed,
  fetchForStep,
  type IssuedToken,
  staticBearer,
  TokenCache,
  type TokenFetch,
  type TokenRequest,
  type TokenStep,
} from './credential-context.ts';
import { createHttpTokenFetch } from './http-token-fetch.ts';

const defaultScope = 'https://cognitiveservices.azure.com/.default';
const defaultAuthority = 'https://login.microsoftonline.com';
/** Metadata service of an Azure machine. */
const defaultMetadata = 'http://169.254.169.254';
/** A federated token has a few kilobytes. */
const maxTokenFileBytes = 65_536;

/**
 * Credentials of Microsoft Entra. `azure_auth_mode` is `entra` (tenant, client id and secret), `managed` (the identity
 * of the machine), `workload` or `entraFederated` (a federated token in the file AZURE_FEDERATED_TOKEN_FILE), or
 * `default` (`api_key`). When it is missing, the other fields tell; `azure_ad_token` is a ready token.
 */
export function createEntraCredentials(fields: CredentialFields, context: CredentialContext): Credentials {
  const mode = modeOf(fields);
  const scope = credentialField.of(fields, 'azure_entra_scope') ?? defaultScope;
  switch (mode) {
    case 'token':
      return staticBearer(credentialField.require(fields, 'azure_ad_token', 'it is sent as bearer token.'));
    case 'default': {
      const key = credentialField.require(
        fields,
        'api_key',
        'azure_auth_mode "default" sends it as api-key.',
      );
      return { authorize: () => ['api-key', key] };
    }
    case 'entra':
      return byClientSecret(fields, scope, context);
    case 'managed':
      return byManagedIdentity(fields, scope, context);
    case 'workload':
    case 'entraFederated':
      return byFederatedToken(fields, scope, context, mode);
  }
}

const modes = ['default', 'entra', 'managed', 'workload', 'entraFederated'] as const;
type Mode = (typeof modes)[number] | 'token';

function modeOf(fields: CredentialFields): Mode {
  const named = credentialField.of(fields, 'azure_auth_mode');
  const mode = modes.find((one) => one === named);
  if (named !== undefined && mode === undefined) {
    throw credentialField.problem('azure_auth_mode', `must be one of ${modes.join(', ')}.`);
  }
  if (mode !== undefined && mode !== 'default') return mode;
  if (credentialField.of(fields, 'azure_ad_token') !== undefined) return 'token';
  if (mode === 'default') return mode;
  const hasClient = credentialField.of(fields, 'azure_entra_client_id') !== undefined;
  return !hasClient && credentialField.of(fields, 'api_key') !== undefined ? 'default' : 'entra';
}

/** A request for a token, with the secrets that messages must not repeat. */
interface TokenQuestion {
  readonly request: Omit<TokenRequest, 'timeoutMs'>;
  readonly secrets: readonly string[];
}

function renewed(
  { clock, fetch }: CredentialContext,
  step: TokenStep,
  ask: () => TokenQuestion | Promise<TokenQuestion>,
): Credentials {
  const cache = new TokenCache<string>({
    clock,
    async fetch() {
      const { request, secrets } = await ask();
      return fetchOAuthToken({ fetch, clock, step: { ...step, secrets } }, request);
    },
  });
  return cachedBearer(cache);
}

function byClientSecret(fields: CredentialFields, scope: string, context: CredentialContext): Credentials {
  const purpose = 'azure_auth_mode "entra" needs azure_entra_tenant_id, _client_id and _client_secret.';
  const tenant = tenantOf(credentialField.require(fields, 'azure_entra_tenant_id', purpose));
  const clientId = credentialField.require(fields, 'azure_entra_client_id', purpose);
  const secret = credentialField.require(fields, 'azure_entra_client_secret', purpose);
  const url = `${authorityOf(context)}/${tenant}/oauth2/v2.0/token`;
  const step: TokenStep = {
    what: `No access token of Microsoft Entra for the client ${clientId}`,
    remedy:
      'Check azure_entra_tenant_id, azure_entra_client_id, azure_entra_client_secret and azure_entra_scope',
    secrets: [],
  };
  const form = { grant_type: 'client_credentials', client_id: clientId, client_secret: secret, scope };
  return renewed(context, step, () => ({ request: formRequest(url, form), secrets: [secret] }));
}

function byManagedIdentity(fields: CredentialFields, scope: string, context: CredentialContext): Credentials {
  requireMachineIdentity(context, 'the managed identity of this machine');
  const clientId = credentialField.of(fields, 'azure_managed_client_id');
  const query = new URLSearchParams({
    'api-version': '2018-02-01',
    resource: scope.replace(/\/\.default$/, ''),
  });
  if (clientId !== undefined) query.set('client_id', clientId);
  const metadata = credentialField.endpoint(context, 'AZURE_POD_IDENTITY_AUTHORITY_HOST', defaultMetadata);
  const url = `${metadata}/metadata/identity/oauth2/token?${query.toString()}`;
  const step: TokenStep = {
    what: 'No access token of the managed identity',
    remedy: 'Check that this machine runs on Azure and has the identity that azure_managed_client_id names',
    secrets: [],
  };
  const request = { url, method: 'GET', headers: { metadata: 'true' } };
  return renewed(context, step, () => ({ request, secrets: [] }));
}

function byFederatedToken(
  fields: CredentialFields,
  scope: string,
  context: CredentialContext,
  mode: 'workload' | 'entraFederated',
): Credentials {
  requireMachineIdentity(context, 'the federated token of this machine');
  const { AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_FEDERATED_TOKEN_FILE: file } = context.environment;
  const clientField = mode === 'workload' ? 'azure_workload_client_id' : 'azure_entra_client_id';
  const tenant = credentialField.of(fields, 'azure_entra_tenant_id') ?? AZURE_TENANT_ID;
  const clientId = credentialField.of(fields, clientField) ?? AZURE_CLIENT_ID;
  if (!tenant)
    throw credentialField.problem(
      'azure_entra_tenant_id',
      'is missing, and so is AZURE_TENANT_ID: give one of them.',
    );
  if (!clientId)
    throw credentialField.problem(clientField, 'is missing, and so is AZURE_CLIENT_ID: give one of them.');
  if (!file)
    throw credentialField.problem(
      'AZURE_FEDERATED_TOKEN_FILE',
      'is missing in the environment: it names the token file.',
    );
  const url = `${authorityOf(context)}/${tenantOf(tenant)}/oauth2/v2.0/token`;
  const step: TokenStep = {
    what: `No access token of Microsoft Entra for the workload ${clientId}`,
    remedy: `Check the federated credential of the client, ${clientField} and AZURE_FEDERATED_TOKEN_FILE`,
    secrets: [],
  };
  return renewed(context, step, async () => {
    const secret = await readToken(file, step);
    const form = {
      grant_type: 'client_credentials',
      client_id: clientId,
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion: secret,
      scope,
    };
    return { request: formRequest(url, form), secrets: [secret] };
  });
}

/** Not cached: the platform replaces the file. */
async function readToken(file: string, step: TokenStep): Promise<string> {
  let token: string;
  try {
    token = (await readFile(file, 'utf8')).trim();
  } catch (cause) {
    throw credentialsFailed(step, 'the file AZURE_FEDERATED_TOKEN_FILE cannot be read', cause);
  }
  if (token === '' || token.length > maxTokenFileBytes) {
    throw credentialsFailed(step, 'the file AZURE_FEDERATED_TOKEN_FILE holds no token');
  }
  return token;
}

function authorityOf(context: CredentialContext): string {
  return credentialField.endpoint(context, 'AZURE_AUTHORITY_HOST', defaultAuthority);
}

/** The tenant becomes a part of a path. */
function tenantOf(tenant: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9.-]{0,252}$/.test(tenant)) return tenant;
  throw credentialField.problem('azure_entra_tenant_id', 'is neither the id nor a domain of a tenant.');
}

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
  const json = credentialField.of(fields, field);
  const token = credentialField.of(fields, 'api_key');
  if (json === undefined && token !== undefined) return staticBearer(token);
  if (json === undefined) {
    throw credentialField.problem(
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
  if (file === undefined)
    throw credentialField.problem(field, 'is no JSON object. Give the whole key file, unchanged.');
  const type = asText(file.type) ?? 'service_account';
  if (type !== 'service_account') {
    throw credentialField.problem(
      field,
      `has the type "${type.slice(0, 64)}". Give a key file of a service account.`,
    );
  }
  const read = (name: string): string => {
    const value = asText(file[name]);
    if (value === undefined)
      throw credentialField.problem(field, `lacks "${name}". Give the whole key file, unchanged.`);
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
  throw credentialField.problem(
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
  throw credentialField.problem(field, `has a "token_uri" that is not Google's. Use ${defaultTokenUri}.`);
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

/** Throws `invalid_request` when fields from a request would use the identity of the machine. */
function requireMachineIdentity({ machineIdentity }: CredentialContext, what: string): void {
  if (machineIdentity) return;
  throw credentialField.problem(
    'azure_auth_mode',
    `asks for ${what}, which only a provider of the configuration may use. Send credentials of your own.`,
  );
}

/** Assumed lifetime of a token whose answer names none: 5 minutes. */
const unknownLifetimeMs = 300_000;

/** Dependencies of a request to an OAuth endpoint. */
interface OAuthAsking {
  readonly fetch: TokenFetch;
  readonly clock: Clock;
  readonly step: TokenStep;
}

/** The access token of an OAuth 2 answer. Rejects with `credentials_failed` for everything else. */
async function fetchOAuthToken(
  { fetch, clock, step }: OAuthAsking,
  request: Omit<TokenRequest, 'timeoutMs'>,
): Promise<IssuedToken<string>> {
  const { status, body } = await fetchForStep(fetch, step, request);
  const host = new URL(request.url).host;
  const answer = parseObject(body);
  const token = asText(answer?.access_token);
  if (status !== 200 || answer === undefined || token === undefined) {
    const said = answer === undefined ? 'without JSON' : errorOfAnswer(answer);
    throw credentialsFailed(step, `${host} answered ${status} ${said}`);
  }
  // A header value is one line: a token with a line break would become two headers.
  if (!/^[\x21-\x7e]+$/.test(token)) throw credentialsFailed(step, `${host} answered a token that is none`);
  return { value: token, lifetimeMs: lifetimeOf(answer, clock) };
}

/** The body of a form post. */
function formRequest(url: string, form: Readonly<Record<string, string>>): Omit<TokenRequest, 'timeoutMs'> {
  return {
    url,
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
    body: new URLSearchParams(form).toString(),
  };
}

function errorOfAnswer(answer: JsonObject): string {
  const description = asText(answer.error_description) ?? asText(answer.message);
  const said = [asText(answer.error), description].filter((part) => part !== undefined);
  return said.length === 0 ? 'without access_token' : said.join(': ');
}

function lifetimeOf(answer: JsonObject, clock: Clock): number {
  const seconds = secondsOf(answer.expires_in);
  if (seconds !== undefined) return seconds * 1_000;
  const endSeconds = secondsOf(answer.expires_on);
  return endSeconds === undefined ? unknownLifetimeMs : Math.max(0, endSeconds * 1_000 - clock.now());
}

/** Some endpoints write numbers as text. */
function secondsOf(value: unknown): number | undefined {
  const seconds = typeof value === 'string' && /^\d+(\.\d+)?$/.test(value) ? Number(value) : value;
  return typeof seconds === 'number' && Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined;
}

/** `Authorization: Bearer` with the token of a cache. */
function cachedBearer(cache: TokenCache<string>): Credentials {
  return {
    authorize() {
      const token = cache.get();
      return typeof token === 'string' ? bearer(token) : token.then(bearer);
    },
  };
}

function bearer(token: string): string[] {
  return ['authorization', `Bearer ${token}`];
}

export interface CredentialFactoryOptions {
  readonly clock: Clock;
  /** Carries the requests for tokens. */
  readonly transport: Transport;
  /** Variables of the process (`process.env`). */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Upper bound of cached credentials with their tokens; the least recently used are evicted first. Default 1,000. */
  readonly maxRemembered?: number;
}

const makers: Readonly<
  Record<CredentialKind, (fields: CredentialFields, context: CredentialContext) => Credentials>
> = { sigv4: createAwsCredentials, google: createGoogleCredentials, entra: createEntraCredentials };

/** Credentials computed per request: AWS signatures, tokens of Google and Microsoft Entra. */
export function createCredentialFactory(options: CredentialFactoryOptions): CredentialFactory {
  const { clock, transport, environment, maxRemembered = 1_000 } = options;
  const shared = { clock, environment, fetch: createHttpTokenFetch({ transport, clock }) };
  const remembered = new Map<string, Credentials>();
  return {
    create(kind, fields, { machineIdentity = false }: CredentialOptions = {}) {
      const key = keyOf(kind, fields, machineIdentity);
      const credentials = remembered.get(key) ?? makers[kind](fields, { ...shared, machineIdentity });
      remembered.delete(key);
      remembered.set(key, credentials);
      if (remembered.size > maxRemembered) remembered.delete(remembered.keys().next().value as string);
      return credentials;
    },
  };
}

/** A hash, so that cache keys hold no secret. */
function keyOf(kind: CredentialKind, fields: CredentialFields, machineIdentity: boolean): string {
  const entries = Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1));
  return sha256(JSON.stringify([kind, machineIdentity, entries]), 'base64');
}
