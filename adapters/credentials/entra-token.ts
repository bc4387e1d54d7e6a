import { readFile } from 'node:fs/promises';
import type { CredentialFields, Credentials } from '../../core/ports/credentials.ts';
import { cachedBearer, fetchOAuthToken, formRequest, staticBearer, TokenCache } from './token-cache.ts';
import {
  type CredentialContext,
  credentialsFailed,
  endpointOf,
  fieldOf,
  fieldProblem,
  requireField,
  requireMachineIdentity,
  type TokenRequest,
  type TokenStep,
} from './credential-context.ts';

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
  const scope = fieldOf(fields, 'azure_entra_scope') ?? defaultScope;
  switch (mode) {
    case 'token':
      return staticBearer(requireField(fields, 'azure_ad_token', 'it is sent as bearer token.'));
    case 'default': {
      const key = requireField(fields, 'api_key', 'azure_auth_mode "default" sends it as api-key.');
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
  const named = fieldOf(fields, 'azure_auth_mode');
  const mode = modes.find((one) => one === named);
  if (named !== undefined && mode === undefined) {
    throw fieldProblem('azure_auth_mode', `must be one of ${modes.join(', ')}.`);
  }
  if (mode !== undefined && mode !== 'default') return mode;
  if (fieldOf(fields, 'azure_ad_token') !== undefined) return 'token';
  if (mode === 'default') return mode;
  const hasClient = fieldOf(fields, 'azure_entra_client_id') !== undefined;
  return !hasClient && fieldOf(fields, 'api_key') !== undefined ? 'default' : 'entra';
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
  const tenant = tenantOf(requireField(fields, 'azure_entra_tenant_id', purpose));
  const clientId = requireField(fields, 'azure_entra_client_id', purpose);
  const secret = requireField(fields, 'azure_entra_client_secret', purpose);
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
  const clientId = fieldOf(fields, 'azure_managed_client_id');
  const query = new URLSearchParams({
    'api-version': '2018-02-01',
    resource: scope.replace(/\/\.default$/, ''),
  });
  if (clientId !== undefined) query.set('client_id', clientId);
  const metadata = endpointOf(context, 'AZURE_POD_IDENTITY_AUTHORITY_HOST', defaultMetadata);
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
  const tenant = fieldOf(fields, 'azure_entra_tenant_id') ?? AZURE_TENANT_ID;
  const clientId = fieldOf(fields, clientField) ?? AZURE_CLIENT_ID;
  if (!tenant)
    throw fieldProblem('azure_entra_tenant_id', 'is missing, and so is AZURE_TENANT_ID: give one of them.');
  if (!clientId) throw fieldProblem(clientField, 'is missing, and so is AZURE_CLIENT_ID: give one of them.');
  if (!file)
    throw fieldProblem(
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
  return endpointOf(context, 'AZURE_AUTHORITY_HOST', defaultAuthority);
}

/** The tenant becomes a part of a path. */
function tenantOf(tenant: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9.-]{0,252}$/.test(tenant)) return tenant;
  throw fieldProblem('azure_entra_tenant_id', 'is neither the id nor a domain of a tenant.');
}
