import type { SecretQuestion } from '../../core/ports/secret-managers.ts';
import { fieldOf, fieldProblem, requireField, type TokenStep } from '../credentials/credential-errors.ts';
import { asObject, asText, parseObject } from '../dialects/json-reading.ts';
import { guardedTokenFetch } from './guarded-token-fetch.ts';
import { requireMachine } from './machine-identity.ts';
import { below, managerAddress } from './manager-address.ts';
import { askManager, refused, unhelpful, type ManagerAnswer } from './read-failure.ts';
import type { SecretSource, SourceContext } from './secret-source.ts';

const apiVersion = '7.4';
/** Of the clouds: a token for a vault is sent to no other host. */
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
  const url = `${below(vault, `secrets/${secretPath}`)}?api-version=${apiVersion}`;
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
      return valueOf(answer, vault.host, step);
    },
  };
}

/** `default` means what the machine has: a federated token where the platform gives one, else a managed identity. */
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

function valueOf({ status, body }: ManagerAnswer, host: string, step: TokenStep): string {
  const answer = parseObject(body);
  if (status !== 200) {
    const error = asObject(answer?.['error']);
    throw unhelpful(step, host, { status, said: [asText(error?.['code']), asText(error?.['message'])] });
  }
  const value = answer?.['value'];
  if (typeof value === 'string') return value;
  throw refused(step, `${host} answered 200 without a secret`);
}
