import type { ProviderRow, ProviderTable } from '../core/providers/provider-row.ts';

type RowQuirks = NonNullable<ProviderRow['quirks']>;

/** Hosts of open models support the classic members only: `max_tokens`, and `system` for both kinds of instructions. */
const classic: RowQuirks = {
  rename: { max_completion_tokens: 'max_tokens' },
  roles: { developer: 'system' },
};

/** Same for hosts that document `top_k`, which OpenAI does not have: a listed member counts as supported. */
const classicWithTopK: RowQuirks = { ...classic, rename: { ...classic.rename, top_k: 'top_k' } };

/** Members that Mistral's documentation does not list and that it refuses with 422 (`extra_forbidden`). */
const mistral: RowQuirks = {
  rename: { seed: 'random_seed', max_completion_tokens: 'max_tokens' },
  roles: { developer: 'system' },
  values: { tool_choice: { required: 'any' } },
  drop: [
    'audio',
    'function_call',
    'functions',
    'logit_bias',
    'logprobs',
    'metadata',
    'modalities',
    'prompt_cache_key',
    'prompt_cache_retention',
    'safety_identifier',
    'service_tier',
    'store',
    'stream_options',
    'top_logprobs',
    'user',
    'verbosity',
    'web_search_options',
  ],
};

/** https://docs.snowflake.com/en/user-guide/snowflake-cortex/cortex-rest-api */
const snowflake: ProviderRow = {
  base_url: 'https://{snowflake_account}.snowflakecomputing.com/api/v2/cortex/v1',
  also_speaks: ['anthropic-messages'],
};

/**
 * The built-in hosts: one row each, by the name used in requests and YAML. `base_url` + `/chat/completions` (for
 * Anthropic `/messages`, for embedding hosts `/embeddings`) is the address that the vendor documents; Gemini, Bedrock
 * and Cohere have the host alone. `{field}` takes the value of a provider field. For another region of a vendor, a
 * provider in YAML with the name of the row and another `base_url` overrides it. A row without `base_url` is
 * self-hosted software: it needs one in YAML or as custom host. Hosts other than language models (images, speech,
 * vectors) are available by pass-through.
 */
const rows: Readonly<Record<string, ProviderRow>> = {
  '302ai': { base_url: 'https://api.302.ai/v1' },
  ai21: { base_url: 'https://api.ai21.com/studio/v1', quirks: classic },
  aibadgr: { base_url: 'https://aibadgr.com/api/v1' },
  anthropic: {
    dialect: 'anthropic-messages',
    base_url: 'https://api.anthropic.com/v1',
    credentials: 'x-api-key',
    headers: { 'anthropic-version': '2023-06-01' },
    usage_in_stream: 'always',
  },
  anyscale: { base_url: 'https://api.endpoints.anyscale.com/v1', quirks: classic },
  // Models as a service in Azure AI Foundry, without api versions; `azure_foundry_url` names another deployment.
  'azure-ai': {
    base_url: 'https://{azure_resource_name}.services.ai.azure.com/openai/v1',
    credentials: 'api-key',
  },
  'azure-openai': {
    dialect: 'azure-openai',
    base_url: 'https://{azure_resource_name}.openai.azure.com/openai',
    credentials: 'api-key',
  },
  baseten: { base_url: 'https://inference.baseten.co/v1', quirks: classic },
  bedrock: {
    dialect: 'bedrock-converse',
    base_url: 'https://bedrock-runtime.{aws_region}.amazonaws.com',
    credentials: 'sigv4',
    usage_in_stream: 'always',
  },
  // Bedrock's OpenAI-compatible endpoint; takes a Bedrock API key.
  'bedrock-mantle': {
    base_url: 'https://bedrock-mantle.{aws_region}.api.aws/v1',
    also_speaks: ['openai-responses'],
  },
  byteplus: { base_url: 'https://ark.ap-southeast.bytepluses.com/api/v3', quirks: classic },
  bytez: { base_url: 'https://api.bytez.com/models/v2/openai/v1', quirks: classic },
  // Refused with 400: https://inference-docs.cerebras.ai/resources/openai, which also documents that there is no
  // developer role.
  cerebras: {
    base_url: 'https://api.cerebras.ai/v1',
    quirks: {
      roles: { developer: 'system' },
      drop: ['frequency_penalty', 'logit_bias', 'presence_penalty'],
    },
  },
  chutes: { base_url: 'https://llm.chutes.ai/v1', quirks: classic },
  // Takes an API key of the workspace, whose id is sent in the header `anthropic-workspace-id`.
  'claude-platform-aws': {
    dialect: 'anthropic-messages',
    base_url: 'https://aws-external-anthropic.{aws_region}.api.aws/v1',
    credentials: 'x-api-key',
    headers: { 'anthropic-version': '2023-06-01' },
    usage_in_stream: 'always',
  },
  cohere: { dialect: 'cohere-v2', base_url: 'https://api.cohere.com', usage_in_stream: 'always' },
  cometapi: { base_url: 'https://api.cometapi.com/v1' },
  cortex: snowflake,
  // The international region; others: dashscope.aliyuncs.com (Beijing), dashscope-us.aliyuncs.com (Virginia).
  dashscope: {
    base_url: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
    quirks: classicWithTopK,
  },
  // The part before `.cloud.databricks.com` on AWS; on Azure and Google Cloud set `base_url`.
  databricks: {
    base_url: 'https://{databricks_workspace}.cloud.databricks.com/serving-endpoints',
    quirks: classic,
  },
  deepbricks: { base_url: 'https://api.deepbricks.ai/v1' },
  // Requires `Authorization: Token …`: under `headers` in YAML, or from the caller.
  deepgram: { base_url: 'https://api.deepgram.com/v1' },
  deepinfra: { base_url: 'https://api.deepinfra.com/v1/openai', quirks: classicWithTopK },
  // Without a version path, as DeepSeek documents it.
  deepseek: { base_url: 'https://api.deepseek.com', quirks: classic },
  'ember-cloud': { base_url: 'https://api.embercloud.ai/v1', quirks: classic },
  // Requires `Authorization: Key …`: under `headers` in YAML, or from the caller.
  'fal-ai': { base_url: 'https://fal.run' },
  'featherless-ai': { base_url: 'https://api.featherless.ai/v1', quirks: classic },
  'fireworks-ai': { base_url: 'https://api.fireworks.ai/inference/v1', quirks: classicWithTopK },
  friendli: { base_url: 'https://api.friendli.ai/serverless/v1', quirks: classic },
  github: { base_url: 'https://models.github.ai/inference' },
  google: {
    dialect: 'google-gemini',
    base_url: 'https://generativelanguage.googleapis.com',
    credentials: 'x-goog-api-key',
    usage_in_stream: 'always',
  },
  // Refused with 400: https://console.groq.com/docs/openai
  groq: {
    base_url: 'https://api.groq.com/openai/v1',
    quirks: { drop: ['logit_bias', 'logprobs', 'top_logprobs'] },
  },
  // The router; `huggingface_base_url` names a dedicated endpoint.
  huggingface: { base_url: 'https://router.huggingface.co/v1', quirks: classic },
  hyperbolic: { base_url: 'https://api.hyperbolic.xyz/v1', quirks: classic },
  'inference-net': { base_url: 'https://api.inference.net/v1', quirks: classic },
  iointelligence: { base_url: 'https://api.intelligence.io.solutions/api/v1', quirks: classic },
  jina: { base_url: 'https://api.jina.ai/v1' },
  'kluster-ai': { base_url: 'https://api.kluster.ai/v1', quirks: classic },
  krutrim: { base_url: 'https://cloud.olakrutrim.com/v1', quirks: classic },
  lambda: { base_url: 'https://api.lambda.ai/v1', quirks: classic },
  'lemonfox-ai': { base_url: 'https://api.lemonfox.ai/v1', quirks: classic },
  // Every deployment has a host of its own.
  lepton: { quirks: classic },
  'lightning-ai': { base_url: 'https://lightning.ai/api/v1' },
  lingyi: { base_url: 'https://api.lingyiwanwu.com/v1', quirks: classic },
  matterai: { base_url: 'https://api.matterai.so/v1' },
  meshy: { base_url: 'https://api.meshy.ai' },
  milvus: {},
  minimax: { base_url: 'https://api.minimax.io/v1', quirks: { roles: { developer: 'system' } } },
  // Always sends usage with the last event of a stream.
  'mistral-ai': { base_url: 'https://api.mistral.ai/v1', usage_in_stream: 'always', quirks: mistral },
  mock: {
    base_url: 'mock:',
    credentials: 'none',
    usage_in_stream: 'on_request',
    quirks: { paths: { 'messages.count_tokens': '/messages/count_tokens' } },
  },
  modal: { quirks: classic },
  monsterapi: { base_url: 'https://llm.monsterapi.ai/v1', quirks: classic },
  // The platform in China; the global one has keys of its own: api.moonshot.ai.
  moonshot: { base_url: 'https://api.moonshot.cn/v1', quirks: classic },
  ncompass: { base_url: 'https://api.ncompass.tech/v1', quirks: classic },
  nebius: { base_url: 'https://api.tokenfactory.nebius.com/v1', quirks: classic },
  nextbit: { base_url: 'https://api.nextbit256.com/v1', quirks: classic },
  nomic: { base_url: 'https://api-atlas.nomic.ai/v1' },
  'novita-ai': { base_url: 'https://api.novita.ai/openai/v1', quirks: classicWithTopK },
  nscale: { base_url: 'https://inference.api.nscale.com/v1', quirks: classic },
  nvidia: { base_url: 'https://integrate.api.nvidia.com/v1', quirks: classic },
  // No default address: otherwise a request could reach the gateway's machine. Ollama's own is
  // http://127.0.0.1:11434/v1.
  ollama: { credentials: 'none', quirks: classic },
  openai: { base_url: 'https://api.openai.com/v1', also_speaks: ['openai-responses'] },
  // https://openrouter.ai/docs/api-reference/parameters and .../features/prompt-caching
  openrouter: {
    base_url: 'https://openrouter.ai/api/v1',
    quirks: { rename: { top_k: 'top_k', cache_control: 'cache_control' } },
  },
  // Takes an API key of OCI Generative AI.
  oracle: {
    base_url: 'https://inference.generativeai.{oracle_region}.oci.oraclecloud.com/20231130/actions/v1',
  },
  ovhcloud: { base_url: 'https://oai.endpoints.kepler.ai.cloud.ovh.net/v1', quirks: classic },
  // The PaLM API has ended; its keys serve Gemini at the same host.
  palm: {
    dialect: 'google-gemini',
    base_url: 'https://generativelanguage.googleapis.com',
    credentials: 'x-goog-api-key',
    usage_in_stream: 'always',
  },
  // Every event of a Perplexity stream carries the usage so far.
  'perplexity-ai': {
    base_url: 'https://api.perplexity.ai',
    usage_in_stream: 'always',
    quirks: classicWithTopK,
  },
  // The address contains tenant and deployment:
  // https://serving.app.predibase.com/<tenant>/deployments/v2/llms/<name>/v1
  predibase: { quirks: classic },
  qdrant: { credentials: 'api-key' },
  'recraft-ai': { base_url: 'https://external.api.recraft.ai/v1' },
  'reka-ai': { base_url: 'https://api.reka.ai/v1', quirks: classic },
  replicate: { base_url: 'https://api.replicate.com/v1' },
  sagemaker: {
    base_url: 'https://runtime.sagemaker.{aws_region}.amazonaws.com',
    credentials: 'sigv4',
  },
  sambanova: { base_url: 'https://api.sambanova.ai/v1', quirks: classicWithTopK },
  scaleway: { base_url: 'https://api.scaleway.ai/v1', quirks: classic },
  // Requires `Authorization: Basic …`: under `headers` in YAML, or from the caller.
  'scenario-ai': { base_url: 'https://api.cloud.scenario.com/v1' },
  segmind: { base_url: 'https://api.segmind.com/v1', credentials: 'x-api-key' },
  // The platform in China; the global one has keys of its own: api.siliconflow.com.
  siliconflow: { base_url: 'https://api.siliconflow.cn/v1', quirks: classicWithTopK },
  'snowflake-cortex': snowflake,
  'stability-ai': { base_url: 'https://api.stability.ai' },
  'together-ai': { base_url: 'https://api.together.ai/v1', quirks: classicWithTopK },
  tripo3d: { base_url: 'https://api.tripo3d.ai/v2/openapi' },
  triton: { credentials: 'none' },
  upstage: { base_url: 'https://api.upstage.ai/v1', quirks: classic },
  venice: { base_url: 'https://api.venice.ai/api/v1', quirks: classic },
  // `global` is the one region whose host has no prefix: https://aiplatform.googleapis.com
  'vertex-ai': {
    dialect: 'google-vertex',
    base_url: 'https://{vertex_region}-aiplatform.googleapis.com',
    credentials: 'google',
    usage_in_stream: 'always',
  },
  voyage: { base_url: 'https://api.voyageai.com/v1' },
  'workers-ai': {
    dialect: 'workers-ai',
    base_url: 'https://api.cloudflare.com/client/v4/accounts/{workers_ai_account_id}/ai',
    usage_in_stream: 'always',
  },
  'x-ai': { base_url: 'https://api.x.ai/v1' },
  'z-ai': { base_url: 'https://api.z.ai/api/paas/v4', quirks: classic },
  zhipu: { base_url: 'https://open.bigmodel.cn/api/paas/v4', quirks: classic },
};

/** The built-in hosts by name, sorted. A provider in YAML with the name of a row overrides it. */
export const providerTable: ProviderTable = new Map(Object.entries(rows));
