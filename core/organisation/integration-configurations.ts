import { Type, type Static } from 'typebox';
import { didYouMean } from '../base/did-you-mean.ts';
import {
  providerFieldProperties,
  providerFields,
  templateFields,
  templateValue,
} from '../providers/provider-fields.ts';
import type { ProviderRow } from '../providers/provider-row.ts';
import type { IntegrationData } from '../ports/record-kinds.ts';
import { Name, strict } from './fields.ts';
import type { Mistake } from '../base/json.ts';

const AzureDeployment = Type.Object(
  {
    alias: Type.Optional(Name('Model that requests name for it. Default: the name of the deployment.')),
    azure_api_version: Type.String({
      minLength: 1,
      maxLength: 30,
      description: 'The same as `api-version`.',
    }),
    azure_deployment_name: Name('Name of the deployment.'),
    azure_model_slug: Type.Optional(Name('Model of the deployment, for prices and logs.')),
    is_default: Type.Optional(Type.Boolean({ description: 'Deployment for requests that name none.' })),
  },
  strict,
);

/** Settings of an integration in bodies: options of `providers:`, and their names in existing clients. */
export const ConfigurationsSchema = Type.Object(
  {
    ...providerFieldProperties,
    vertex_service_account_json: Type.Optional(
      Type.Union([Type.String({ minLength: 1 }), Type.Record(Type.String(), Type.Unknown())], {
        description: 'Key of a service account: the JSON object, or its text.',
      }),
    ),
    vertex_auth_type: Type.Optional(Type.Union([Type.Literal('basic'), Type.Literal('serviceAccount')])),
    azure_deployment_config: Type.Optional(
      Type.Array(AzureDeployment, {
        minItems: 1,
        maxItems: 100,
        description: 'Deployments of Azure OpenAI.',
      }),
    ),
    custom_host: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2048,
        description: 'Address that replaces that of the provider.',
      }),
    ),
    custom_headers: Type.Optional(
      Type.Record(Type.String(), Type.String({ minLength: 1, maxLength: 8192 }), {
        maxProperties: 50,
        propertyNames: { pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,255}$" },
        description: 'Headers added to every request. Their values are secrets.',
      }),
    ),
  },
  {
    ...strict,
    description: 'Settings of this provider other than its key. Secret values are masked in answers.',
  },
);
export type GivenConfigurations = Static<typeof ConfigurationsSchema>;

/** Parsed settings of an integration. */
interface ReadConfigurations {
  readonly options: IntegrationData['configurations'];
  /** Secret values by the name of their option; `headers` as JSON. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly issues: readonly Mistake[];
}

/** Context for validating settings. */
interface ConfiguredProvider {
  /** Its name in the provider table. */
  readonly name: string;
  readonly row: ProviderRow;
  /** Fields whose values come from a secret reference. */
  readonly mapped: ReadonlySet<string>;
  readonly hasKey: boolean;
  /** Whether the identity of the gateway's own machine may be used: not for integrations of a workspace. */
  readonly machineIdentity: boolean;
}

/** Fields that a provider takes, by the prefixes of their names. */
const families: Readonly<Record<string, readonly string[]>> = {
  anthropic: ['anthropic_'],
  'azure-ai': ['azure_'],
  'azure-openai': ['azure_'],
  bedrock: ['aws_', 'amz_', 'anthropic_'],
  'bedrock-mantle': ['aws_'],
  byteplus: ['byteplus_'],
  'claude-platform-aws': ['aws_', 'anthropic_'],
  cortex: ['snowflake_'],
  databricks: ['databricks_'],
  'fireworks-ai': ['fireworks_'],
  huggingface: ['huggingface_'],
  'mistral-ai': ['mistral_'],
  openai: ['openai_'],
  oracle: ['oracle_'],
  sagemaker: ['aws_', 'amz_', 'amzn_'],
  'snowflake-cortex': ['snowflake_'],
  'stability-ai': ['stability_'],
  'vertex-ai': ['vertex_', 'anthropic_'],
  'workers-ai': ['workers_ai_'],
};

const everywhere = ['custom_host', 'custom_headers'];
const allNames = Object.keys(ConfigurationsSchema.properties);
const byName = new Map<string, (typeof providerFields)[number]>(
  providerFields.map((field) => [field.name, field]),
);
/** Azure modes that identify the machine and need no secret. */
const azureMachineModes: ReadonlySet<string> = new Set(['managed', 'workload', 'entraFederated']);

/** Settings of this provider's integrations. */
export function configurationNames(provider: string): readonly string[] {
  const prefixes = Object.hasOwn(families, provider) ? (families[provider] ?? []) : [];
  return allNames.filter(
    (name) => everywhere.includes(name) || prefixes.some((prefix) => name.startsWith(prefix)),
  );
}

/** Options and secrets from the settings of a body, with all violations. */
export function readConfigurations(
  given: GivenConfigurations,
  provider: ConfiguredProvider,
): ReadConfigurations {
  const pointer = '/configurations';
  const options: Record<string, IntegrationData['configurations'][string]> = {};
  const secrets: Record<string, string> = {};
  const issues: Mistake[] = [...unknownFields(given, provider.name, pointer)];
  for (const [name, value] of Object.entries(given)) {
    const field = byName.get(name);
    if (field === undefined) continue;
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    const message = field.secret ? undefined : fieldMistake(field, text);
    if (message !== undefined) issues.push({ path: `${pointer}/${name}`, message });
    if (field.secret) secrets[name] = text;
    else options[name] = text;
  }
  // Key mode is the default: the options omit it.
  if (options['azure_auth_mode'] === 'default') delete options['azure_auth_mode'];
  addDeployments(given, options, issues, pointer);
  if (given.custom_host !== undefined) {
    const message = addressMistake(given.custom_host);
    if (message !== undefined) issues.push({ path: `${pointer}/custom_host`, message });
    options['base_url'] = given.custom_host;
  }
  if (given.custom_headers !== undefined) secrets['headers'] = JSON.stringify(given.custom_headers);
  issues.push(...missingFields({ options, secrets }, provider, pointer));
  return { options, secrets, issues };
}

function unknownFields(given: GivenConfigurations, provider: string, pointer: string): Mistake[] {
  const known = configurationNames(provider);
  return Object.keys(given)
    .filter((name) => !known.includes(name))
    .map((name) => {
      const near = didYouMean(name, known);
      const remedy = near === undefined ? `it takes ${known.join(', ')}` : `did you mean ${near}?`;
      return { path: `${pointer}/${name}`, message: `is nothing that ${provider} takes; ${remedy}` };
    });
}

function fieldMistake(
  { template, address }: (typeof providerFields)[number],
  text: string,
): string | undefined {
  if (template && !templateValue.test(text))
    return 'may contain letters, digits and hyphens, at most 63 characters: it becomes part of an address';
  return address ? addressMistake(text) : undefined;
}

/** Checks the syntax only; access to the host is checked at connection. */
function addressMistake(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return 'must be an address like https://host/v1';
  const url = new URL(text);
  if (url.username !== '' || url.password !== '') return 'carries credentials; give them as key';
  return url.search === '' && url.hash === '' ? undefined : 'has a query or a fragment; leave it out';
}

function addDeployments(
  { azure_deployment_config: given }: GivenConfigurations,
  options: Record<string, IntegrationData['configurations'][string]>,
  issues: Mistake[],
  pointer: string,
): void {
  if (given === undefined) return;
  const defaults = given.filter(({ is_default: isDefault }) => isDefault === true);
  const at = `${pointer}/azure_deployment_config`;
  if (defaults.length > 1) issues.push({ path: at, message: 'has more than one default; keep one' });
  const aliases = given.map(({ alias, azure_deployment_name: name }) => alias ?? name);
  const twice = aliases.findIndex((alias, index) => aliases.indexOf(alias) !== index);
  if (twice >= 0) issues.push({ path: `${at}/${twice}`, message: 'has the alias of another one' });
  options['deployments'] = given.map((one) => ({
    deployment_id: one.azure_deployment_name,
    alias: one.alias ?? one.azure_deployment_name,
    api_version: one.azure_api_version,
    model: one.azure_model_slug ?? '',
    is_default: one.is_default ?? false,
  }));
  const chosen = defaults[0] ?? (given.length === 1 ? given[0] : undefined);
  if (chosen === undefined) return;
  options['azure_deployment_id'] = chosen.azure_deployment_name;
  options['azure_api_version'] = chosen.azure_api_version;
  if (chosen.azure_model_slug !== undefined) options['azure_model_name'] = chosen.azure_model_slug;
}

/** Missing fields that the address or the credential of the provider requires. */
function missingFields(
  { options, secrets }: Pick<ReadConfigurations, 'options' | 'secrets'>,
  { name, row, mapped, hasKey, machineIdentity }: ConfiguredProvider,
  pointer: string,
): readonly Mistake[] {
  const has = (field: string): boolean => field in options || field in secrets || mapped.has(field);
  const issues: Mistake[] = [];
  const refuse = (message: string): void => void issues.push({ path: pointer, message });
  const addressed = has('base_url') || has('azure_foundry_url') || has('huggingface_base_url');
  if (row.base_url === undefined && !addressed)
    refuse(`needs custom_host: ${name} has no address of its own`);
  const absent = templateFields(row.base_url ?? '').filter((field) => !addressed && !has(field));
  if (absent.length > 0) refuse(`needs ${absent.join(' and ')} for ${name}`);
  if (has('aws_access_key_id') !== has('aws_secret_access_key'))
    refuse('needs aws_access_key_id and aws_secret_access_key together');
  const signsAsMachine = row.credentials === 'sigv4' && !hasKey && !has('aws_access_key_id');
  const mode = options['azure_auth_mode'];
  const isMachine = typeof mode === 'string' && azureMachineModes.has(mode);
  if ((signsAsMachine || isMachine) && !machineIdentity)
    refuse(
      "would use the identity of the gateway's machine, which integrations of the organisation alone may; give credentials",
    );
  return issues;
}

/** Options in the API's form, by the names of its bodies. */
export function showOptions(options: IntegrationData['configurations']): Record<string, unknown> {
  const { deployments, base_url: host, ...fields } = options;
  const derived = Array.isArray(deployments)
    ? ['azure_deployment_id', 'azure_api_version', 'azure_model_name']
    : [];
  const shown: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) if (!derived.includes(name)) shown[name] = value;
  if (Array.isArray(deployments)) shown['azure_deployment_config'] = deployments.map(showDeployment);
  if (host !== undefined) shown['custom_host'] = host;
  return shown;
}

function showDeployment(one: unknown): Record<string, unknown> {
  const { deployment_id, alias, api_version, model, is_default } = one as Record<string, unknown>;
  return {
    alias,
    azure_api_version: api_version,
    azure_deployment_name: deployment_id,
    is_default,
    ...(model !== '' && { azure_model_slug: model }),
  };
}
