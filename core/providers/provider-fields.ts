import { Type } from 'typebox';

const text = (description: string) => Type.Optional(Type.String({ minLength: 1, description }));

/**
 * Credential and setting fields of a provider in addition to its row, by their names in YAML and in a request's
 * configuration. Merge them into the schema of a provider.
 */
export const providerFieldProperties = {
  openai_organization: text('Organisation that OpenAI bills.'),
  openai_project: text('Project that OpenAI bills.'),
  openai_beta: text("OpenAI's `openai-beta` header."),
  anthropic_beta: text(
    "Anthropic's `anthropic-beta` header: features that are not released yet, comma-separated.",
  ),
  anthropic_version: text("Version of Anthropic's API. Default 2023-06-01."),
  azure_resource_name: text('Name of the Azure OpenAI resource, the first word of its host name.'),
  azure_deployment_id: text('Deployment to ask. Default: the model of the request.'),
  azure_api_version: text('`api-version` of Azure: a date, or `v1` for the API without versions.'),
  azure_model_name: text('Model behind the deployment, for prices and logs.'),
  azure_ad_token: text('Microsoft Entra token that is sent as it is.'),
  azure_auth_mode: text(
    'How to authenticate at Azure: `entra`, `managed`, `workload` or `entraFederated`. Default: the API key.',
  ),
  azure_managed_client_id: text('Client id of a user-assigned managed identity.'),
  azure_workload_client_id: text('Client id of a workload identity.'),
  azure_entra_client_id: text('Client id of a Microsoft Entra application.'),
  azure_entra_client_secret: text('Client secret of a Microsoft Entra application.'),
  azure_entra_tenant_id: text('Tenant of a Microsoft Entra application.'),
  azure_entra_scope: text(
    'Scope of the Microsoft Entra token. Default https://cognitiveservices.azure.com/.default.',
  ),
  azure_foundry_url: text('Address of an Azure AI Foundry deployment.'),
  azure_endpoint_name: text('Name of an Azure machine-learning endpoint.'),
  azure_extra_params: text('How Azure AI handles unknown parameters: `pass-through`, `drop` or `error`.'),
  aws_access_key_id: text('Access key id.'),
  aws_secret_access_key: text('Secret access key.'),
  aws_session_token: text('Session token of temporary credentials.'),
  aws_region: text('Region: us-east-1.'),
  aws_role_arn: text('Role to assume.'),
  aws_external_id: text('External id with which the role is assumed.'),
  aws_auth_type: text('`accessKey`, `assumedRole` or `apiKey`.'),
  aws_s3_bucket: text('Bucket for files and batches.'),
  aws_s3_object_key: text('Key of the object for files and batches.'),
  aws_bedrock_model: text(
    'Model that a batch or a fine-tuning job is for, or that stands behind an application inference profile.',
  ),
  amz_server_side_encryption: text('Encryption of uploaded objects.'),
  amz_server_side_encryption_aws_kms_key_id: text('Key with which uploaded objects are encrypted.'),
  amzn_sagemaker_custom_attributes: text('SageMaker: custom attributes.'),
  amzn_sagemaker_target_model: text('SageMaker: model of a multi-model endpoint.'),
  amzn_sagemaker_target_variant: text('SageMaker: variant of the endpoint.'),
  amzn_sagemaker_target_container_hostname: text('SageMaker: container of the endpoint.'),
  amzn_sagemaker_inference_id: text('SageMaker: id of the inference.'),
  amzn_sagemaker_enable_explanations: text('SageMaker: whether and how to explain.'),
  amzn_sagemaker_inference_component: text('SageMaker: inference component.'),
  amzn_sagemaker_session_id: text('SageMaker: session of a stateful endpoint.'),
  amzn_sagemaker_model_name: text('SageMaker: name of the endpoint.'),
  vertex_project_id: text('Google Cloud project.'),
  vertex_region: text('Google Cloud region: us-central1, or `global`.'),
  vertex_service_account_json: text('Key of a service account, as JSON text.'),
  vertex_storage_bucket_name: text('Bucket for files and batches.'),
  provider_file_name: text('Name of an uploaded file at the provider.'),
  provider_model: text('Model that an uploaded file is for.'),
  provider_batch_endpoint: text('Operation of a batch at the provider.'),
  file_upload_size: text('Bytes of an uploaded file.'),
  file_purpose: text('Purpose of an uploaded file.'),
  workers_ai_account_id: text('Cloudflare account.'),
  huggingface_base_url: text('Address of a Hugging Face endpoint of your own.'),
  fireworks_account_id: text('Fireworks account.'),
  mistral_fim_completion: text('`true`: completions go to the fill-in-the-middle operation.'),
  stability_client_id: text('Name of the application, for Stability.'),
  stability_client_user_id: text('End user, for Stability.'),
  stability_client_version: text('Version of the application, for Stability.'),
  snowflake_account: text('Snowflake account identifier, the first part of its host name.'),
  databricks_workspace: text('Databricks workspace, the first part of its host name.'),
  byteplus_region: text('BytePlus region.'),
  oracle_api_version: text("Version of Oracle's API. Default 20231130."),
  oracle_region: text('Oracle Cloud region: us-chicago-1.'),
  oracle_compartment_id: text('OCID of the compartment.'),
  oracle_serving_mode: text('`ON_DEMAND` or `DEDICATED`.'),
  oracle_tenancy: text('OCID of the tenancy.'),
  oracle_user: text('OCID of the user.'),
  oracle_fingerprint: text('Fingerprint of the signing key.'),
  oracle_private_key: text('Signing key, PEM.'),
  oracle_key_passphrase: text('Passphrase of the signing key.'),
} as const;

type ProviderFieldName = keyof typeof providerFieldProperties;

const sameAs = (field: ProviderFieldName) => text(`The same as ${field}.`);

/** The aliases below as schema properties, in addition to `providerFieldProperties`. */
export const providerAliasProperties = {
  resource_name: sameAs('azure_resource_name'),
  deployment_id: sameAs('azure_deployment_id'),
  api_version: sameAs('azure_api_version'),
} as const;

/** Other names of a field in existing configurations. */
export const providerFieldAliases: Readonly<Record<string, ProviderFieldName>> = {
  resource_name: 'azure_resource_name',
  deployment_id: 'azure_deployment_id',
  api_version: 'azure_api_version',
};

interface ProviderField {
  readonly name: ProviderFieldName;
  /** Header name without the prefix: `aws-access-key-id`. */
  readonly header: string;
  /** Never logged, and hidden from dialects. */
  readonly secret: boolean;
  /** Allowed in the template of a row's `base_url`. A value from a request must match `templateValue`. */
  readonly template: boolean;
  /** Holds a whole address: guarded like a custom host when it comes from a request. */
  readonly address: boolean;
}

/** Pattern of a request's value that becomes part of a host's address. */
export const templateValue = /^[a-zA-Z0-9-]{1,63}$/;

const secrets: ReadonlySet<ProviderFieldName> = new Set([
  'azure_ad_token',
  'azure_entra_client_secret',
  'aws_access_key_id',
  'aws_secret_access_key',
  'aws_session_token',
  'aws_external_id',
  'vertex_service_account_json',
  'oracle_private_key',
  'oracle_key_passphrase',
] as const);

const templates: ReadonlySet<ProviderFieldName> = new Set([
  'amzn_sagemaker_model_name',
  'aws_region',
  'azure_endpoint_name',
  'azure_resource_name',
  'byteplus_region',
  'databricks_workspace',
  'fireworks_account_id',
  'oracle_region',
  'snowflake_account',
  'vertex_project_id',
  'vertex_region',
  'workers_ai_account_id',
] as const);

/** Fields that select a site of the same host, never its owner. */
export const regionFields: ReadonlySet<string> = new Set<ProviderFieldName>([
  'aws_region',
  'byteplus_region',
  'oracle_region',
  'vertex_region',
]);

const addresses: ReadonlySet<ProviderFieldName> = new Set([
  'azure_foundry_url',
  'huggingface_base_url',
] as const);

/** Every field, for reading them from headers and configurations. */
export const providerFields: readonly ProviderField[] = (
  Object.keys(providerFieldProperties) as ProviderFieldName[]
).map((name) => ({
  name,
  header: name.replaceAll('_', '-'),
  secret: secrets.has(name),
  template: templates.has(name),
  address: addresses.has(name),
}));

/** Field names in a `base_url`: `https://{aws_region}.example` → `aws_region`. */
export function templateFields(baseUrl: string): readonly string[] {
  return [...baseUrl.matchAll(/\{([a-z][a-z0-9_]*)\}/g)].map((match) => match[1] as string);
}
