// Sentences about settings of LiteLLM: what they mean here, or what to write instead.
import type { JsonValue } from '../../core/base/json.ts';
import { writtenAs } from './draft.ts';
import { importSources } from './source.ts';

/** A verdict with its sentence. */
export type Told = readonly [verdict: 'mapped' | 'changed' | 'missing', message: string];

const unneeded: Told = ['mapped', 'needs no setting: the gateway does so, or has no such part'];
const inPlugin: Told = ['missing', 'runs code of yours: write it as a plugin (docs/plugins.md)'];
const byAdministration: Told = [
  'missing',
  'limits of keys and people are given with each: docs/administration.md',
];

/** Settings that need a sentence alone, by section and name. */
const settingSentences: Readonly<Record<string, Readonly<Record<string, Told>>>> = {
  general_settings: {
    database_url: [
      'changed',
      'administration is kept in the data folder (embedded PostgreSQL); for a server set storage.resources.url to a database of its own: the tables of LiteLLM are not read',
    ],
    database_type: ['missing', 'storage.resources is embedded, or PostgreSQL'],
    database_connection_pool_limit: unneeded,
    database_connection_timeout: unneeded,
    store_model_in_db: [
      'changed',
      'models are in this file, integrations and providers of the administration API beside it',
    ],
    store_prompts_in_spend_logs: [
      'mapped',
      'bodies are logged (logger.bodies), redacted as docs/log-privacy.md says',
    ],
    use_redis_transaction_buffer: unneeded,
    proxy_batch_write_at: unneeded,
    proxy_budget_rescheduler_min_time: unneeded,
    proxy_budget_rescheduler_max_time: unneeded,
    disable_spend_logs: ['missing', 'set storage.analytics.url to "none:" to keep no logs'],
    disable_master_key_return: unneeded,
    disable_adding_master_key_hash_to_db: unneeded,
    disable_prisma_schema_update: unneeded,
    background_health_checks: [
      'missing',
      'the gateway asks no provider on its own; breakers learn from requests',
    ],
    health_check_interval: ['missing', 'the gateway asks no provider on its own'],
    health_check_details: unneeded,
    custom_auth: inPlugin,
    custom_key_generate: inPlugin,
    custom_sso: inPlugin,
    enable_jwt_auth: [
      'missing',
      'give the plugin auth the option jwt with jwks_url, issuer and audience (docs/authentication.md)',
    ],
    litellm_jwtauth: [
      'missing',
      'claims are named by jwt.claims of the plugin auth (docs/authentication.md)',
    ],
    alerting: ['missing', 'alerts about budgets go to mail and signed webhooks: alerts (docs/alerts.md)'],
    alerting_threshold: ['missing', 'slow requests are seen in metrics and logs'],
    alerting_args: ['missing', 'alerts about budgets: docs/alerts.md'],
    alert_types: ['missing', 'alerts about budgets: docs/alerts.md'],
    alert_to_webhook_url: ['missing', 'alerts.webhooks takes signed webhooks (docs/alerts.md)'],
    allowed_ips: ['missing', 'addresses of callers are filtered in front of the gateway'],
    allowed_routes: ['missing', 'scopes of a key say what it may do'],
    ui_access_mode: ['missing', 'who may use the console is a matter of scopes (docs/console.md)'],
    max_parallel_requests: ['missing', 'the gateway bounds rates of requests, not how many run at a time'],
    global_max_parallel_requests: [
      'missing',
      'the gateway bounds rates of requests, not how many run at a time',
    ],
    pass_through_endpoints: [
      'missing',
      'every path that is not modelled goes to the provider that x-service-provider names; a host of its own is an entry of providers',
    ],
    key_management_system: [
      'missing',
      'secrets of managers: secret references (docs/secrets.md), or ${NAME} and ${file:PATH} here',
    ],
    key_management_settings: ['missing', 'secrets of managers: secret references (docs/secrets.md)'],
    use_queue: ['missing', 'requests are not queued'],
    otel: [
      'changed',
      'spans are exported over OTLP/HTTP: set OTEL_EXPORTER_OTLP_ENDPOINT, or telemetry.otlp.url',
    ],
    reject_clientside_metadata_tags: [
      'missing',
      'tags of a request are taken by the plugin litellm; without it they change nothing here',
    ],
    custom_team_metadata_validate: inPlugin,
    team_metadata_validation_timeout: ['missing', 'belongs to custom_team_metadata_validate'],
    team_metadata_validation_error_message: ['missing', 'belongs to custom_team_metadata_validate'],
    debug: ['missing', 'log.level: debug'],
    infer_model_from_keys: ['missing', 'models are those of this file'],
    completion_model: ['missing', 'a default model is override_params of a config'],
    pass_through_all_models: ['missing', 'a model "*" serves every model'],
  },
  litellm_settings: {
    telemetry: ['mapped', 'the gateway sends nothing to its makers'],
    modify_params: ['mapped', 'messages are brought into the shape of the host where wires differ'],
    max_budget: ['mapped', 'is a usage limit of the organisation (organisation.usage_limit_policies)'],
    include_cost_in_streaming_usage: ['missing', 'the cost of a stream is in its log row'],
    default_team_settings: [
      'missing',
      'logs of each workspace are apart; destinations of its own are exports (docs/exports.md)',
    ],
    default_internal_user_params: byAdministration,
    default_key_generate_params: byAdministration,
    upperbound_key_generate_params: byAdministration,
    max_internal_user_budget: byAdministration,
    max_end_user_budget: [
      'missing',
      'a usage limit policy with group_by metadata.user bounds each end user (docs/policies.md)',
    ],
    max_ui_session_budget: ['missing', 'the console has no budget of its own'],
    ssl_verify: ['missing', 'certificates of providers are verified; NODE_EXTRA_CA_CERTS adds authorities'],
    forward_traceparent_to_llm_provider: ['missing', 'telemetry.propagate: true'],
    redact_user_api_key_info: ['mapped', 'keys are logged by id and name, never as they are'],
    return_response_headers: ['mapped', 'headers of the provider reach the client'],
    force_ipv4: unneeded,
    enable_json_schema_validation: ['missing', 'the check default.jsonSchema of a guardrail judges answers'],
    add_function_to_prompt: [
      'missing',
      'tools are translated into the wire of the host, never into the prompt',
    ],
    key_generation_settings: byAdministration,
    public_model_groups: ['missing', 'GET /models shows what the key may use'],
    custom_provider_map: inPlugin,
    langfuse_default_tags: [
      'missing',
      'spans are exported over OTLP, with metadata of the request (docs/telemetry.md)',
    ],
    s3_callback_params: ['missing', 'logs are exported to S3 on demand: exports (docs/exports.md)'],
    websearch_interception_params: ['missing', 'the gateway does not search the web for models'],
    code_interpreter_interception_params: [
      'missing',
      'the gateway runs no code for models; a tool of an MCP server does',
    ],
    mcp_semantic_tool_filter: [
      'missing',
      'allow of a server says which of its tools there are (docs/mcp.md)',
    ],
    require_auth_for_metrics_endpoint: ['missing', 'server.operations says who may read /metrics'],
    disable_end_user_cost_tracking: [
      'missing',
      'the member user of a request is logged with its metadata (docs/log-privacy.md)',
    ],
    disable_end_user_cost_tracking_prometheus_only: [
      'mapped',
      'metrics have no label of end users unless telemetry.metrics.labels adds one',
    ],
    default_redis_ttl: unneeded,
    default_in_memory_ttl: unneeded,
    mcp_aliases: ['missing', 'name the server under plugins.mcp.servers by that name'],
    max_tokens: ['missing', 'write default_params: { max_tokens: … } into configs.litellm'],
    tag_budget_config: ['missing', 'a usage limit policy with the condition metadata.… (docs/policies.md)'],
  },
  router_settings: {
    enable_pre_call_checks: ['missing', 'context windows are not compared before a request is sent'],
    optional_pre_call_checks: [
      'missing',
      'sticky targets: strategy.sticky of a load balance (docs/configs.md)',
    ],
    routing_strategy_args: ['missing', 'strategies have no such arguments (docs/routing-strategies.md)'],
    retry_policy: ['missing', 'retry.on_status_codes says what is tried again, with one number of attempts'],
    model_group_retry_policy: ['missing', 'retry of a target or config (docs/resilience.md)'],
    allowed_fails_policy: ['missing', 'failure_status_codes and failure_threshold of cb_config'],
    retry_after: [
      'missing',
      'the gateway waits 1, 2, 4 … seconds between retries, or as long as the provider says (use_retry_after_headers)',
    ],
    max_fallbacks: ['missing', 'fallbacks of a fallback are not followed'],
    enable_tag_filtering: ['mapped', 'deployments are chosen by tags'],
    tag_filtering_match_any: ['mapped', 'one tag of the request is enough'],
    cache_responses: ['missing', 'the plugin cache (docs/cache.md)'],
    provider_budget_config: ['missing', 'usage_limits of a provider of organisation.providers'],
    set_verbose: ['missing', 'log.level: debug'],
    debug_level: ['missing', 'log.level: debug'],
    default_litellm_params: ['missing', 'write default_params into configs.litellm'],
    client_ttl: unneeded,
    model_group_info: unneeded,
  },
};

/** Destinations of logs. */
const callbackSentences: Readonly<Record<string, Told>> = {
  prometheus: [
    'mapped',
    'GET /metrics has the metrics of requests, under names of its own (docs/telemetry.md)',
  ],
  otel: [
    'changed',
    'spans are exported over OTLP/HTTP: set OTEL_EXPORTER_OTLP_ENDPOINT, or telemetry.otlp.url',
  ],
  langfuse: ['changed', 'Langfuse takes spans over OTLP: telemetry.otlp.url and headers (docs/telemetry.md)'],
  langfuse_otel: [
    'changed',
    'Langfuse takes spans over OTLP: telemetry.otlp.url and headers (docs/telemetry.md)',
  ],
  langsmith: ['changed', 'LangSmith takes spans over OTLP: telemetry.otlp.url and headers'],
  arize: ['changed', 'Arize takes spans over OTLP: telemetry.otlp.url and headers'],
  arize_phoenix: ['changed', 'Phoenix takes spans over OTLP: telemetry.otlp.url and headers'],
  datadog: ['changed', 'spans go to the OTLP port of the Datadog agent: telemetry.otlp.url'],
  datadog_llm_observability: [
    'changed',
    'spans go to the OTLP port of the Datadog agent: telemetry.otlp.url',
  ],
  logfire: ['changed', 'Logfire takes spans over OTLP: telemetry.otlp.url and headers'],
  braintrust: ['changed', 'Braintrust takes spans over OTLP: telemetry.otlp.url and headers'],
  s3: [
    'changed',
    'logs are kept in the analytics store, and exported to S3 on demand: exports (docs/exports.md)',
  ],
  s3_v2: [
    'changed',
    'logs are kept in the analytics store, and exported to S3 on demand: exports (docs/exports.md)',
  ],
  max_budget_limiter: ['mapped', 'the plugin policies enforces budgets'],
  parallel_request_limiter: ['missing', 'the gateway bounds rates of requests, not how many run at a time'],
  cache_control_check: unneeded,
};

/** Members of requests that a deployment may set. */
const requestParameters = new Set(
  `temperature top_p n max_tokens max_completion_tokens presence_penalty frequency_penalty stop seed logit_bias user
  response_format tools tool_choice parallel_tool_calls logprobs top_logprobs top_k reasoning_effort thinking modalities
  dimensions encoding_format voice service_tier store verbosity stream_options repetition_penalty min_p safety_settings
  prediction audio web_search_options metadata quality size style`.split(/\s+/),
);

/** Settings of deployments without a counterpart, with the reason or the remedy. */
const deploymentRemedies: Readonly<Record<string, string>> = {
  region_name: 'regions are not compared with those that a request may use',
  max_parallel_requests: 'the gateway bounds rates of requests, not how many run at a time',
  mock_response: 'name the built-in provider "mock" instead: provider: "@mock" (docs/mock-provider.md)',
  mock_timeout: 'the built-in provider "mock" plays timeouts (docs/mock-provider.md)',
  input_cost_per_second: 'prices are per token or per request',
  output_cost_per_second: 'prices are per token or per request',
  drop_params: 'of a single deployment: what a host cannot say is left out and reported; on_drop changes it',
  additional_drop_params: 'write the paths into drop_params of the target',
  allowed_openai_params: 'every parameter of the client reaches a host that speaks its wire',
  cooldown_time: 'of a single deployment: cb_config of its target',
  budget_duration: 'of a deployment: usage_limits of a provider of organisation.providers',
  max_budget: 'of a deployment: usage_limits of a provider of organisation.providers',
  configurable_clientside_auth_params:
    'callers bring their own key with x-service-provider and Authorization',
  use_in_pass_through: 'every provider serves pass-through',
  s3_bucket_name: 'batches of Bedrock in another shape are not served',
  s3_region_name: 'batches of Bedrock in another shape are not served',
  s3_access_key_id: 'batches of Bedrock in another shape are not served',
  s3_secret_access_key: 'batches of Bedrock in another shape are not served',
  aws_batch_role_arn: 'batches of Bedrock in another shape are not served',
  aws_profile_name: 'the gateway reads no profiles; it takes keys, roles and the identity of its machine',
  aws_session_name: 'sessions of assumed roles are named by the gateway',
  aws_web_identity_token: 'the federated identity of the machine is taken without being named',
  vector_store_ids: 'vector stores are not searched for chats',
};

/** Members of `model_info` that clients are told. */
const shownInfo: ReadonlySet<string> = new Set(['max_tokens', 'max_input_tokens', 'max_output_tokens']);

/** What the report says about settings. */
export const litellmRemedies = {
  inPlugin,
  settings: settingSentences,
  callbacks: callbackSentences,
  requestParameters,
  deployment: deploymentRemedies,
  shownInfo,
  info: infoRemedy,
  toldInfo,
};

/** What to do instead of a member of `model_info`. */
function infoRemedy(key: string): string {
  if (key === 'access_groups')
    return 'who may use a model is said by integrations of workspaces (allow_all_models)';
  if (key.startsWith('health_check'))
    return 'the gateway asks no provider on its own; breakers learn from requests';
  return 'tells of the model, and changes nothing here';
}

/** What the plugin `litellm` tells clients of `model_info`. */
function toldInfo(value: JsonValue | undefined): Readonly<Record<string, string | number>> {
  const info = importSources.objectOf(value);
  const texts = {
    id: importSources.textOf(info['id']).slice(0, 255),
    mode: importSources.textOf(info['mode']).slice(0, 64),
  };
  const limits = [...shownInfo].flatMap((key) => {
    const limit = info[key];
    return typeof limit === 'number' && Number.isInteger(limit) && limit > 0 ? [[key, limit] as const] : [];
  });
  return {
    ...(texts.id !== '' && { id: writtenAs.escaped(texts.id) }),
    ...(texts.mode !== '' && { mode: writtenAs.escaped(texts.mode) }),
    ...Object.fromEntries(limits),
  };
}
