import type { TrustedHosts } from '../../core/base/host-rules.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { CredentialFactory } from '../../core/ports/credentials.ts';
import type { SecretQuestion, SecretSources } from '../../core/ports/secret-managers.ts';
import type { GuardedFetch } from '../../core/ports/transport.ts';
import {
  credentialField,
  credentialsFailed,
  type TokenFetch,
  type TokenRequest,
  type TokenStep,
  tokenTimeoutMs,
} from '../credentials/credential-context.ts';
import { asArray, asCount, asObject, asText, parseObject } from '../dialects/json-reading.ts';
import { readFile } from 'node:fs/promises';

/** Opens a source of secrets, by kind of manager. */
export const secretSources = { vault: createVaultSource, azure: createAzureSource, aws: createAwsSource };

/** Longest answer of a manager: 1 MiB. */
const maxAnswerBytes = 1_048_576;

/**
 * Requests to hosts that members of an organisation name: public ones and `security.trusted_hosts`; follows no
 * redirect.
 */
function guardedTokenFetch(guardedFetch: GuardedFetch): TokenFetch {
  return async ({ url, method, headers, body, timeoutMs }) => {
    const { answer } = guardedFetch.fetch({
      url,
      method,
      headers: Object.entries(headers).flat(),
      timeoutMs,
      maxBytes: maxAnswerBytes,
      maxRedirects: 0,
      ...(body !== undefined && { body: Buffer.from(body) }),
    });
    const { status, body: bytes } = await answer;
    return { status, body: bytes.toString('utf8') };
  };
}

/** Failure to read a secret. */
export class ReadFailure extends Error {
  /** `credentials_failed`, for the request that needed the secret. */
  readonly error: GatewayError;
  /** True when the manager was unavailable rather than refusing. An earlier value may stay in use. */
  readonly isAway: boolean;

  constructor(error: GatewayError, isAway: boolean) {
    super(error.message);
    this.error = error;
    this.isAway = isAway;
  }
}

/** The manager refuses, or does not have the secret. */
export function refusedFailure(step: TokenStep, why: string, cause?: unknown): ReadFailure {
  return new ReadFailure(credentialsFailed(step, why, cause), false);
}

/** A manager's answer. */
interface ManagerAnswer {
  readonly status: number;
  readonly body: string;
}

/**
 * Sends a request to a manager, with a timeout of 10 seconds. Rejects with a `ReadFailure` when the answer is not
 * complete.
 */
async function askManager(
  fetch: TokenFetch,
  step: TokenStep,
  request: Omit<TokenRequest, 'timeoutMs'>,
): Promise<ManagerAnswer> {
  try {
    return await fetch({ ...request, timeoutMs: tokenTimeoutMs });
  } catch (cause) {
    const why = GatewayError.is(cause) ? cause.message : `${new URL(request.url).host} cannot be asked`;
    const isRefused = GatewayError.is(cause) && cause.code === 'address_refused';
    throw new ReadFailure(credentialsFailed(step, why, cause), !isRefused);
  }
}

/** Failure for an answer without a secret, with the manager's message: busy and broken managers may be retried. */
function noSecretFailure(
  step: TokenStep,
  host: string,
  { status, said, isBusy = false }: { status: number; said: readonly unknown[]; isBusy?: boolean },
): ReadFailure {
  const words = said.filter((one) => typeof one === 'string' && one !== '').join(': ');
  const why = `${host} answered ${status}${words === '' ? '' : ` ${words}`}`;
  return new ReadFailure(credentialsFailed(step, why), isBusy || status === 429 || status >= 500);
}

/** Dependencies of a source of secrets. */
export interface SourceContext {
  readonly credentials: CredentialFactory;
  /**
   * For hosts that the operator or the provider names; hosts named by members of an organisation use the guarded fetch.
   */
  readonly fetch: TokenFetch;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly now: () => number;
  /** Rules of the active configuration. */
  readonly rules: SourceRules;
}

/** Parts of a configuration that apply to reading secrets. */
export interface SourceRules {
  readonly guardedFetch: GuardedFetch;
  readonly trustedHosts: TrustedHosts;
  readonly sources: SecretSources;
}

/** Source of one reference's secret. */
export interface SecretSource {
  /**
   * The secret from the manager. Rejects with a `ReadFailure`, or with another error when the manager was not reached.
   */
  read(rules: SourceRules): Promise<string>;
}

/**
 * The address of a manager, without a trailing slash: https, or http for a host of `security.trusted_hosts`. Throws
 * `invalid_request` for everything else.
 */
function managerAddress(field: string, text: string, trustedHosts: TrustedHosts): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain =
    url !== undefined && url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!isPlain) throw credentialField.problem(field, 'is no address such as "https://vault.example.com".');
  if (url.protocol === 'https:' || (url.protocol === 'http:' && trustedHosts.has(url))) return url;
  throw credentialField.problem(
    field,
    'must begin with https://: a secret comes from there. Only hosts of security.trusted_hosts may be asked over http.',
  );
}

/** A path below an address: segments are encoded one by one. */
function urlBelow({ origin, pathname }: URL, path: string): string {
  const segments = path.split('/').map((segment) => encodeURIComponent(segment));
  return `${origin}${pathname.replace(/\/+$/, '')}/${segments.join('/')}`;
}

/** Throws `invalid_request` unless the operator allows references to use the identity of the machine. */
function requireMachine({ machine_identity: isAllowed }: SecretSources, field: string, what: string): void {
  if (isAllowed) return;
  throw credentialField.problem(
    field,
    `asks for ${what}: the operator allows that with security.secret_sources.machine_identity. Give credentials of your own.`,
  );
}

/** Location of a pod's service account token. */
const serviceAccountFile = '/var/run/secrets/kubernetes.io/serviceaccount/token';
/** Share of a token's lifetime in which it is used. */
const usedPart = 0.8;

/** Source of HashiCorp Vault tokens. */
interface VaultLogin {
  /** Values that messages must not repeat. */
  readonly secrets: readonly string[];
  /** A valid token; with `isRefused`, a new one where possible. */
  token(ask: VaultAsking, isRefused?: boolean): Promise<string | undefined>;
}

/** Request context of a login. */
interface VaultAsking {
  readonly fetch: TokenFetch;
  readonly step: TokenStep;
  /** Headers of every request to the vault. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The login of `vault_auth_type`: `token`, `approle`, `kubernetes`. Throws `invalid_request` for missing fields. */
function createVaultLogin(vault: URL, auth: SecretQuestion['auth'], context: SourceContext): VaultLogin {
  const type = credentialField.of(auth, 'vault_auth_type') ?? 'token';
  if (type === 'token') {
    const token = credentialField.require(auth, 'vault_token', 'vault_auth_type "token" sends it.');
    return {
      secrets: [token],
      token: (_, isRefused = false) => Promise.resolve(isRefused ? undefined : token),
    };
  }
  if (type === 'approle') {
    const roleId = credentialField.require(
      auth,
      'vault_role_id',
      'vault_auth_type "approle" logs in with it.',
    );
    const secretId = credentialField.require(
      auth,
      'vault_secret_id',
      'vault_auth_type "approle" logs in with it.',
    );
    const form = { role_id: roleId, secret_id: secretId };
    return new LeasedToken(urlBelow(vault, 'v1/auth/approle/login'), [secretId], context, () =>
      Promise.resolve(form),
    );
  }
  requireMachine(context.rules.sources, 'vault_auth_type', 'the service account of this machine');
  const role = credentialField.require(auth, 'vault_role', 'vault_auth_type "kubernetes" logs in as it.');
  return new LeasedToken(urlBelow(vault, 'v1/auth/kubernetes/login'), [], context, async (step) => ({
    role,
    jwt: await readServiceAccount(step),
  }));
}

/** A token with a lease from a login. */
class LeasedToken implements VaultLogin {
  readonly secrets: readonly string[];
  readonly #url: string;
  readonly #now: () => number;
  readonly #form: (step: TokenStep) => Promise<Readonly<Record<string, string>>>;
  #held: { readonly token: string; readonly endsAt: number } | undefined;

  constructor(
    url: string,
    secrets: readonly string[],
    { now }: SourceContext,
    form: (step: TokenStep) => Promise<Readonly<Record<string, string>>>,
  ) {
    this.#url = url;
    this.secrets = secrets;
    this.#now = now;
    this.#form = form;
  }

  async token({ fetch, step, headers }: VaultAsking, isRefused = false): Promise<string | undefined> {
    const held = isRefused ? undefined : this.#held;
    if (held !== undefined && this.#now() < held.endsAt) return held.token;
    const form = await this.#form(step);
    const { status, body } = await askManager(fetch, step, {
      url: this.#url,
      method: 'POST',
      body: JSON.stringify(form),
      headers: { ...headers, 'content-type': 'application/json' },
    });
    const { host } = new URL(this.#url);
    const answer = parseObject(body);
    const given = asObject(answer?.['auth']);
    const token = asText(given?.['client_token']);
    if (status !== 200 || token === undefined || !/^[\x21-\x7e]+$/.test(token)) {
      const said = ['to the login', ...asArray(answer?.['errors'])];
      throw noSecretFailure(step, host, { status, said });
    }
    const leaseMs = (asCount(given?.['lease_duration']) ?? 0) * 1000;
    this.#held = { token, endsAt: this.#now() + leaseMs * usedPart };
    return token;
  }
}

async function readServiceAccount(step: TokenStep): Promise<string> {
  try {
    return (await readFile(serviceAccountFile, 'utf8')).trim();
  } catch (cause) {
    throw refusedFailure(
      step,
      `${serviceAccountFile} cannot be read: vault_auth_type "kubernetes" needs a pod`,
      cause,
    );
  }
}

/** Answer of a versioned engine to a path without `data/`. */
const wantsData = /versioned K\/V/i;

/**
 * A secret of HashiCorp Vault, engine KV in both versions: `secret_path` starts with the mount (`secret/team/openai`;
 * for version 2 `secret/data/team/openai` means the same). Its text is the JSON of all its members.
 */
function createVaultSource({ auth, secretPath }: SecretQuestion, context: SourceContext): SecretSource {
  const address = credentialField.require(auth, 'vault_addr', 'it is the address of the vault.');
  const vault = managerAddress('vault_addr', address, context.rules.trustedHosts);
  const path = secretPath.replace(/^\/+|\/+$/g, '').replace(/^v1\//, '');
  const isPath = path.split('/').every((segment) => segment !== '' && segment !== '.' && segment !== '..');
  if (!isPath)
    throw credentialField.problem('secret_path', 'is no path of a vault, such as "secret/team/openai".');
  const namespace = credentialField.of(auth, 'vault_namespace');
  if (namespace !== undefined && !/^[\x21-\x7e]+$/.test(namespace)) {
    throw credentialField.problem('vault_namespace', 'is no name of a namespace.');
  }
  const login = createVaultLogin(vault, auth, context);
  return new VaultSource({ vault, path, namespace, login });
}

interface VaultPlace {
  readonly vault: URL;
  readonly path: string;
  readonly namespace: string | undefined;
  readonly login: VaultLogin;
}

class VaultSource implements SecretSource {
  readonly #place: VaultPlace;
  readonly #step: TokenStep;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(place: VaultPlace) {
    this.#place = place;
    this.#step = {
      what: `The secret "${place.path}" cannot be read from HashiCorp Vault`,
      remedy: 'Check secret_path, vault_addr, vault_namespace and what the token may read',
      secrets: place.login.secrets,
    };
    const { namespace } = place;
    this.#headers = {
      'x-vault-request': 'true',
      ...(namespace !== undefined && { 'x-vault-namespace': namespace }),
    };
  }

  async read({ guardedFetch }: SourceRules): Promise<string> {
    const { path } = this.#place;
    const asking = { fetch: guardedTokenFetch(guardedFetch), step: this.#step, headers: this.#headers };
    const first = await this.#ask(path, asking);
    const [mount = '', ...rest] = path.split('/');
    if (first.status !== 404 || !wantsData.test(first.body) || rest.length === 0) return this.#valueOf(first);
    return this.#valueOf(await this.#ask([mount, 'data', ...rest].join('/'), asking));
  }

  /** A revoked token is replaced, once. */
  async #ask(path: string, asking: VaultAsking): Promise<ManagerAnswer> {
    const { login, vault } = this.#place;
    const url = urlBelow(vault, `v1/${path}`);
    let token = await login.token(asking);
    for (let attempt = 1; ; attempt++) {
      const headers = { ...this.#headers, 'x-vault-token': token ?? '' };
      const answer = await askManager(asking.fetch, this.#step, { url, method: 'GET', headers });
      if (answer.status !== 403 || attempt === 2) return answer;
      token = await login.token(asking, true);
      if (token === undefined) return answer;
    }
  }

  #valueOf({ status, body }: ManagerAnswer): string {
    const { host } = this.#place.vault;
    const answer = parseObject(body);
    if (status !== 200) {
      const said = [...asArray(answer?.['errors']), ...asArray(answer?.['warnings'])];
      throw noSecretFailure(this.#step, host, { status, said });
    }
    const data = asObject(answer?.['data']);
    const isVersioned = asObject(data?.['metadata'])?.['version'] !== undefined;
    const members = isVersioned ? asObject(data?.['data']) : data;
    if (members === undefined) throw refusedFailure(this.#step, `${host} answered 200 without a secret`);
    return JSON.stringify(members);
  }
}

const apiVersion = '7.4';
/** Vault domains of the Azure clouds: a vault token is sent to no other host. */
const vaultDomains = ['vault.azure.net', 'vault.azure.cn', 'vault.usgovcloudapi.net'];

/** A secret of Azure Key Vault: `secret_path` is its name, or `name/version`. */
function createAzureSource({ auth, secretPath }: SecretQuestion, context: SourceContext): SecretSource {
  const { rules, credentials } = context;
  const address = credentialField.require(auth, 'azure_vault_url', 'it is the address of the vault.');
  const vault = managerAddress('azure_vault_url', address, rules.trustedHosts);
  const domain = vaultDomains.find((one) => vault.hostname.endsWith(`.${one}`));
  if (domain === undefined && !rules.trustedHosts.has(vault)) {
    throw credentialField.problem(
      'azure_vault_url',
      `is no vault such as "https://name.${vaultDomains[0]}".`,
    );
  }
  if (!/^[0-9A-Za-z-]{1,127}(\/[0-9A-Za-z]{1,64})?$/.test(secretPath)) {
    throw credentialField.problem('secret_path', 'is no name of a secret in a key vault, nor name/version.');
  }
  const mode = modeOf(auth, context);
  const bearer = credentials.create(
    'entra',
    { ...auth, azure_auth_mode: mode, azure_entra_scope: `https://${domain ?? vaultDomains[0]}/.default` },
    { machineIdentity: mode !== 'entra' },
  );
  const url = `${urlBelow(vault, `secrets/${secretPath}`)}?api-version=${apiVersion}`;
  const step: TokenStep = {
    what: `The secret "${secretPath}" cannot be read from Azure Key Vault`,
    remedy: 'Check secret_path, azure_vault_url and what the client may do in the vault',
    secrets: [auth['azure_entra_client_secret'] ?? ''],
  };
  return {
    async read({ guardedFetch }) {
      const path = url.slice(vault.origin.length);
      const request = { method: 'GET', origin: vault.origin, path, headers: [], body: null };
      const [name = '', value = ''] = await bearer.authorize(request);
      const headers = { [name]: value, accept: 'application/json' };
      const answer = await askManager(guardedTokenFetch(guardedFetch), step, { url, method: 'GET', headers });
      return valueOfAzure(answer, vault.host, step);
    },
  };
}

/**
 * `default` uses the identity of the machine: a federated token when the platform provides one, else a managed
 * identity.
 */
function modeOf(
  auth: SecretQuestion['auth'],
  { rules, environment }: SourceContext,
): 'entra' | 'managed' | 'workload' {
  const named = credentialField.of(auth, 'azure_auth_mode') ?? 'entra';
  if (named === 'entra') return named;
  requireMachine(rules.sources, 'azure_auth_mode', 'the identity of this machine');
  if (named === 'managed') return named;
  return environment['AZURE_FEDERATED_TOKEN_FILE'] ? 'workload' : 'managed';
}

function valueOfAzure({ status, body }: ManagerAnswer, host: string, step: TokenStep): string {
  const answer = parseObject(body);
  if (status !== 200) {
    const error = asObject(answer?.['error']);
    throw noSecretFailure(step, host, {
      status,
      said: [asText(error?.['code']), asText(error?.['message'])],
    });
  }
  const value = answer?.['value'];
  if (typeof value === 'string') return value;
  throw refusedFailure(step, `${host} answered 200 without a secret`);
}

const contentType = 'application/x-amz-json-1.1';
/** Errors that AWS sends with status 400. */
const busy = /Throttl|TooManyRequests|RequestLimitExceeded|InternalService|ServiceUnavailable/i;

/**
 * A secret of AWS Secrets Manager, by name or ARN (GetSecretValue, the current version).
 * `AWS_ENDPOINT_URL_SECRETS_MANAGER` sets another endpoint.
 */
function createAwsSource({ auth, secretPath }: SecretQuestion, context: SourceContext): SecretSource {
  const machineIdentity = !hasOwnKeys(auth);
  if (machineIdentity) requireMachine(context.rules.sources, 'aws_auth_type', 'the AWS keys of this machine');
  const { environment } = context;
  const ambient = machineIdentity ? environment.AWS_REGION || environment.AWS_DEFAULT_REGION : undefined;
  const region = credentialField.of(auth, 'aws_region') ?? ambient;
  if (region === undefined)
    throw credentialField.problem('aws_region', 'is missing: name one, such as "us-east-1".');
  const type = credentialField.of(auth, 'aws_auth_type') === 'assumedRole' ? 'assumedRole' : 'accessKey';
  const credentials = context.credentials.create(
    'sigv4',
    { ...auth, aws_auth_type: type, aws_region: region, aws_service: 'secretsmanager' },
    { machineIdentity },
  );
  const standard = `https://secretsmanager.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`;
  const endpoint = credentialField.endpoint(context, 'AWS_ENDPOINT_URL_SECRETS_MANAGER', standard);
  const { origin, host } = new URL(endpoint);
  const body = JSON.stringify({ SecretId: secretPath });
  const step: TokenStep = {
    what: `The secret "${secretPath}" cannot be read from AWS Secrets Manager`,
    remedy: 'Check secret_path, auth_config and the policy of the secret',
    secrets: [auth['aws_secret_access_key'] ?? '', auth['aws_external_id'] ?? ''],
  };
  const plain = { 'content-type': contentType, 'x-amz-target': 'secretsmanager.GetSecretValue' };
  return {
    async read() {
      const signed = await credentials.authorize({
        method: 'POST',
        origin,
        path: '/',
        headers: Object.entries(plain).flat(),
        body: Buffer.from(body),
      });
      const headers: Record<string, string> = { ...plain };
      for (let at = 0; at < signed.length; at += 2) headers[signed[at] as string] = signed[at + 1] as string;
      const request = { url: `${origin}/`, method: 'POST', headers, body };
      return valueOfAws(await askManager(context.fetch, step, request), host, step);
    },
  };
}

function hasOwnKeys(auth: SecretQuestion['auth']): boolean {
  return credentialField.of(auth, 'aws_access_key_id') !== undefined;
}

function valueOfAws({ status, body }: ManagerAnswer, host: string, step: TokenStep): string {
  const answer = parseObject(body);
  if (status !== 200) {
    const type = asText(answer?.['__type'])?.split('#').at(-1);
    const said = [type, answer?.['Message'] ?? answer?.['message']];
    throw noSecretFailure(step, host, { status, said, isBusy: type !== undefined && busy.test(type) });
  }
  const text = answer?.['SecretString'];
  if (typeof text === 'string') return text;
  const binary = answer?.['SecretBinary'];
  if (typeof binary === 'string') return Buffer.from(binary, 'base64').toString('utf8');
  throw refusedFailure(step, `${host} answered 200 without a secret`);
}
