import type { SecretQuestion } from '../../core/ports/secret-managers.ts';
import {
  endpointOf,
  fieldOf,
  fieldProblem,
  requireField,
  type TokenStep,
} from '../credentials/credential-context.ts';
import { asObject, asText, parseObject } from '../dialects/json-reading.ts';
import {
  askManager,
  urlBelow,
  guardedTokenFetch,
  managerAddress,
  type ManagerAnswer,
  refusedFailure,
  requireMachine,
  type SecretSource,
  type SourceContext,
  noSecretFailure,
} from './secret-source.ts';

const apiVersion = '7.4';
/** Vault domains of the Azure clouds: a vault token is sent to no other host. */
const vaultDomains = ['vault.azure.net', 'vault.azure.cn', 'vault.usgovcloudapi.net'];

/** A secret of Azure Key Vault: `secret_path` is its name, or `name/version`. */
export function createAzureSource(
  { auth, secretPath }: SecretQuestion,
  context: SourceContext,
): SecretSource {
  const { rules, credentials } = context;
  const address = requireField(auth, 'azure_vault_url', 'it is the address of the vault.');
  const vault = managerAddress('azure_vault_url', address, rules.trustedHosts);
  const domain = vaultDomains.find((one) => vault.hostname.endsWith(`.${one}`));
  if (domain === undefined && !rules.trustedHosts.has(vault)) {
    throw fieldProblem('azure_vault_url', `is no vault such as "https://name.${vaultDomains[0]}".`);
  }
  if (!/^[0-9A-Za-z-]{1,127}(\/[0-9A-Za-z]{1,64})?$/.test(secretPath)) {
    throw fieldProblem('secret_path', 'is no name of a secret in a key vault, nor name/version.');
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
  const named = fieldOf(auth, 'azure_auth_mode') ?? 'entra';
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
export function createAwsSource({ auth, secretPath }: SecretQuestion, context: SourceContext): SecretSource {
  const machineIdentity = !hasOwnKeys(auth);
  if (machineIdentity) requireMachine(context.rules.sources, 'aws_auth_type', 'the AWS keys of this machine');
  const { environment } = context;
  const ambient = machineIdentity ? environment.AWS_REGION || environment.AWS_DEFAULT_REGION : undefined;
  const region = fieldOf(auth, 'aws_region') ?? ambient;
  if (region === undefined) throw fieldProblem('aws_region', 'is missing: name one, such as "us-east-1".');
  const type = fieldOf(auth, 'aws_auth_type') === 'assumedRole' ? 'assumedRole' : 'accessKey';
  const credentials = context.credentials.create(
    'sigv4',
    { ...auth, aws_auth_type: type, aws_region: region, aws_service: 'secretsmanager' },
    { machineIdentity },
  );
  const standard = `https://secretsmanager.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`;
  const endpoint = endpointOf(context, 'AWS_ENDPOINT_URL_SECRETS_MANAGER', standard);
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
  return fieldOf(auth, 'aws_access_key_id') !== undefined;
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
