import {
  ConfigurationsSchema,
  type GivenConfigurations,
} from '../../core/organisation/integration-configurations.ts';
import { ProviderKey, SecretMappings } from '../../core/organisation/integration-schema.ts';
import { providerFields } from '../../core/organisation/provider-schema.ts';
import { Type, type Static } from '../../core/pipeline/plugin.ts';
import { GivenSlug } from './integration-body.ts';
import { ResetUsage } from './provider-body.ts';
import { BodyUsageLimit } from './provider-limits.ts';
import { refusedBody } from './refused-body.ts';
import { Name, orNull, strict } from './text-schema.ts';

const text = (description: string) => Type.Optional(orNull(Type.String({ maxLength: 255, description })));

const Deployment = Type.Object(
  {
    apiVersion: Type.String({ minLength: 1, maxLength: 30 }),
    deploymentName: Type.String({ minLength: 1, maxLength: 255 }),
    alias: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    is_default: Type.Optional(Type.Boolean()),
  },
  strict,
);
const Deployments = Type.Optional(
  orNull(Type.Array(Deployment, { maxItems: 100, description: 'Deployments of Azure OpenAI.' })),
);

/** Settings under the names of older clients; the second spelling is what some of them make of the first. */
const olderFields = {
  apiVersion: text('Azure: `azure_api_version`.'),
  api_version: text('The same as `apiVersion`.'),
  resourceName: text('Azure: `azure_resource_name`.'),
  resource_name: text('The same as `resourceName`.'),
  deploymentName: text('Azure: `azure_deployment_id`.'),
  deployment_name: text('The same as `deploymentName`.'),
  deploymentConfig: Deployments,
  deployment_config: Deployments,
};

const fields = {
  key: Type.Optional(orNull(ProviderKey)),
  ...providerFields,
  usage_limits: BodyUsageLimit,
  secret_mappings: Type.Optional(orNull(SecretMappings)),
  ...olderFields,
  ...ConfigurationsSchema.properties,
};

/** What makes a virtual key. */
export const CreateVirtualKey = Type.Object(
  {
    name: Name('For people.'),
    provider: Name('A provider of the provider table; `open-ai` and `hugging-face` are understood.'),
    slug: Type.Optional(GivenSlug),
    workspace_id: Type.Optional(Name('Id or slug. Default: the workspace of the key.')),
    ...fields,
  },
  strict,
);

/** What changes one; what is not given stays. */
export const UpdateVirtualKey = Type.Object(
  {
    name: Type.Optional(Name('For people.')),
    workspace_id: Type.Optional(Name('Its workspace, for keys of the organisation that name it by slug.')),
    reset_usage: ResetUsage,
    ...fields,
  },
  strict,
);

/** What a body says of a virtual key. */
export type VirtualKeyBody = Omit<Static<typeof UpdateVirtualKey>, 'workspace_id' | 'reset_usage'>;

/** Names of rows of the provider table as older clients write them. */
const olderNames: Readonly<Record<string, string>> = {
  'azure-open-ai': 'azure-openai',
  'hugging-face': 'huggingface',
  'open-ai': 'openai',
};

/** The name of the row that an older client means. */
export function rowName(provider: string): string {
  return Object.hasOwn(olderNames, provider) ? (olderNames[provider] ?? provider) : provider;
}

/**
 * The settings that a body says, by their own names; undefined when it says none. Throws `invalid_request` for one thing
 * in two spellings.
 */
export function configurationsOf(body: VirtualKeyBody): GivenConfigurations | undefined {
  const given: Record<string, unknown> = {};
  for (const name of Object.keys(ConfigurationsSchema.properties)) {
    const value = (body as Readonly<Record<string, unknown>>)[name];
    if (value !== undefined) given[name] = value;
  }
  const put = (name: string, older: string, value: unknown): void => {
    if (value === undefined || value === null) return;
    if (given[name] !== undefined) {
      const message = `says the same as ${name}; give one of them`;
      throw refusedBody([{ path: `/${older}`, message }]);
    }
    given[name] = value;
  };
  put('azure_api_version', 'apiVersion', oneOf(body.apiVersion, body.api_version, 'api_version'));
  put('azure_resource_name', 'resourceName', oneOf(body.resourceName, body.resource_name, 'resource_name'));
  const deployment = oneOf(body.deploymentName, body.deployment_name, 'deployment_name');
  put('azure_deployment_id', 'deploymentName', deployment);
  const deployments = oneOf(body.deploymentConfig, body.deployment_config, 'deployment_config');
  if (deployments !== undefined && deployments.length > 0)
    put('azure_deployment_config', 'deploymentConfig', deployments.map(deploymentOf));
  return Object.keys(given).length === 0 ? undefined : given;
}

function oneOf<T>(first: T | null | undefined, second: T | null | undefined, name: string): T | undefined {
  if ((first ?? undefined) !== undefined && (second ?? undefined) !== undefined)
    throw refusedBody([{ path: `/${name}`, message: 'is there in two spellings; give one of them' }]);
  return first ?? second ?? undefined;
}

function deploymentOf({ apiVersion, deploymentName, alias, is_default }: Static<typeof Deployment>) {
  return {
    ...{ azure_api_version: apiVersion, azure_deployment_name: deploymentName },
    ...(alias !== undefined && { alias }),
    ...(is_default !== undefined && { is_default }),
  };
}
