import { Type, type Static } from '../../../core/pipeline/plugin.ts';
import type { SecretReferenceData } from '../../../core/ports/record-kinds.ts';
import { type PlainSecrets, sealedSecrets } from '../shared/sealed-secrets.ts';
import { strict } from '../shared/fields.ts';
import type { Mistake } from '../../../core/base/json.ts';

const text = (example?: string) =>
  Type.String({ minLength: 1, maxLength: 4096, ...(example !== undefined && { examples: [example] }) });
const address = (example: string) =>
  Type.String({ format: 'uri', maxLength: 1024, examples: [example], description: 'https.' });
const region = text('us-east-1');
const vaultUrl = address('https://name.vault.azure.net');
const vault = {
  vault_addr: address('https://vault.example.com:8200'),
  vault_namespace: Type.Optional(text('team')),
};
const awsKeys = { aws_access_key_id: text('AKIDEXAMPLE'), aws_secret_access_key: text() };

/** Authentication at a manager. Methods with the machine's identity need `security.secret_sources.machine_identity`. */
export const AuthConfig = Type.Union(
  [
    Type.Object({ aws_auth_type: Type.Literal('accessKey'), ...awsKeys, aws_region: region }, strict),
    Type.Object(
      {
        aws_auth_type: Type.Literal('assumedRole'),
        aws_role_arn: text('arn:aws:iam::123456789012:role/name'),
        aws_external_id: Type.Optional(Type.Union([text(), Type.Null()])),
        aws_region: region,
        aws_access_key_id: Type.Optional(text('AKIDEXAMPLE')),
        aws_secret_access_key: Type.Optional(text()),
      },
      strict,
    ),
    Type.Object({ aws_auth_type: Type.Literal('serviceRole'), aws_region: Type.Optional(region) }, strict),
    Type.Object(
      {
        azure_auth_mode: Type.Literal('entra'),
        azure_entra_tenant_id: text(),
        azure_entra_client_id: text(),
        azure_entra_client_secret: text(),
        azure_vault_url: vaultUrl,
      },
      strict,
    ),
    Type.Object(
      {
        azure_auth_mode: Type.Literal('managed'),
        azure_managed_client_id: Type.Optional(text()),
        azure_vault_url: vaultUrl,
      },
      strict,
    ),
    Type.Object({ azure_auth_mode: Type.Literal('default'), azure_vault_url: vaultUrl }, strict),
    Type.Object({ vault_auth_type: Type.Literal('token'), vault_token: text(), ...vault }, strict),
    Type.Object(
      {
        vault_auth_type: Type.Literal('approle'),
        vault_role_id: text(),
        vault_secret_id: text(),
        ...vault,
      },
      strict,
    ),
    Type.Object({ vault_auth_type: Type.Literal('kubernetes'), vault_role: text(), ...vault }, strict),
    Type.Object({}, { ...strict, description: 'For `environment` and `file`.' }),
  ],
  { description: 'Secret fields are stored encrypted and shown masked.' },
);

type GivenAuth = Static<typeof AuthConfig>;

/** Fields of `auth_config` that answers never show. */
const secretFields: ReadonlySet<string> = new Set([
  'aws_secret_access_key',
  'aws_external_id',
  'azure_entra_client_secret',
  'vault_token',
  'vault_secret_id',
]);

/** The field with a manager's authentication method; undefined for local sources. */
const typeField: Readonly<Record<SecretReferenceData['managerType'], string | undefined>> = {
  aws_sm: 'aws_auth_type',
  azure_kv: 'azure_auth_mode',
  hashicorp_vault: 'vault_auth_type',
  environment: undefined,
  file: undefined,
};

/** An `auth_config` split into public fields and plain secrets. */
export interface SplitAuth {
  readonly authConfig: Readonly<Record<string, string>>;
  readonly plain: PlainSecrets;
}

/**
 * Splits the `auth_config` of a body. A masked secret keeps its stored value only when all other fields are unchanged:
 * a caller who does not know a token must not redirect it to another address. Fields that do not fit the manager are
 * added to `mistakes`.
 */
export function splitAuth(
  given: GivenAuth,
  managerType: SecretReferenceData['managerType'],
  before: SplitAuth | undefined,
  mistakes: Mistake[],
): SplitAuth {
  const fields: [string, string][] = Object.entries(given).filter(
    (pair): pair is [string, string] => typeof pair[1] === 'string',
  );
  const wanted = typeField[managerType];
  if (wanted === undefined ? fields.length > 0 : !fields.some(([name]) => name === wanted)) {
    const message =
      wanted === undefined
        ? `must be {} for the manager_type "${managerType}"`
        : `must be one of those with "${wanted}" for the manager_type "${managerType}"`;
    mistakes.push({ path: '/auth_config', message });
  }
  const authConfig = Object.fromEntries(fields.filter(([name]) => !secretFields.has(name)));
  const isSameBeside = before !== undefined && sameFields(before.authConfig, authConfig);
  const plain = fields
    .filter(([name]) => secretFields.has(name))
    .map(([name, value]): [string, string] => {
      const known = isSameBeside ? before.plain[name] : undefined;
      return [name, sealedSecrets.unmasked(value, known, mistakes, `/auth_config/${name}`)];
    });
  return { authConfig, plain: Object.fromEntries(plain) };
}

function sameFields(one: Readonly<Record<string, string>>, other: Readonly<Record<string, string>>): boolean {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...names].every((name) => one[name] === other[name]);
}
