// Names and sentences about settings of Bifrost.

/** Rows of providers by their name in Bifrost; undefined: a host that speaks OpenAI's wire. */
const bifrostRows: ReadonlyMap<string, string | undefined> = new Map([
  ...[
    'openai',
    'anthropic',
    'bedrock',
    'cohere',
    'groq',
    'ollama',
    'openrouter',
    'cerebras',
    'huggingface',
    'nebius',
  ].map((name) => [name, name] as const),
  ['azure', 'azure-openai'],
  ['vertex', 'vertex-ai'],
  ['gemini', 'google'],
  ['mistral', 'mistral-ai'],
  ['perplexity', 'perplexity-ai'],
  ['xai', 'x-ai'],
  ['fireworks', 'fireworks-ai'],
  ['deepseek', 'deepseek'],
  ['sgl', undefined],
  ['vllm', undefined],
]);

/** A verdict with its sentence. */
type Told = readonly ['mapped' | 'changed' | 'missing', string];

/** Settings that need a sentence alone, by section and name; `''` stands for the whole section. */
const bifrostSentences: Readonly<Record<string, Readonly<Record<string, Told>>>> = {
  $schema: { '': ['mapped', 'is the schema of the editor: weir schema prints that of the gateway'] },
  encryption_key: {
    '': ['changed', 'stored secrets are encrypted with WEIR_SECRET_KEY, or a key in the data folder'],
  },
  config_store: {
    '': [
      'changed',
      'administration is kept in the data folder; for PostgreSQL set storage.resources.url to a database of its own',
    ],
  },
  logs_store: {
    '': ['changed', 'logs are kept in the data folder; for a server set storage.analytics.url (ClickHouse)'],
  },
  vector_store: { '': ['missing', 'vectors of questions are in memory, or in Redis 8 (docs/cache.md)'] },
  local_cache: {
    '': ['missing', 'the plugin cache with mode: semantic and semantic.provider (docs/cache.md)'],
  },
  framework: { '': ['mapped', 'prices come with the gateway; prices.url reads others'] },
  websocket: { '': ['mapped', 'WebSockets are relayed (docs/realtime.md)'] },
  guardrails_config: {
    '': ['missing', 'write guardrails under organisation.guardrails (docs/guardrails.md)'],
  },
  server: { '': ['mapped', 'buffers need no setting'] },
  client: {
    allow_direct_keys: ['mapped', 'callers may bring their own key with x-service-provider'],
    allowed_origins: [
      'missing',
      'the gateway sends no CORS headers: put a proxy in front of it for pages of other origins',
    ],
    drop_excess_requests: ['mapped', 'requests beyond the bounds are refused'],
    enable_litellm_fallbacks: ['mapped', 'every wire is translated, whatever this says'],
    enable_logging: ['mapped', 'the plugin logger'],
    enforce_governance_header: ['mapped', 'every request needs a key'],
    enforce_auth_on_inference: ['mapped', 'every request needs a key'],
    initial_pool_size: ['mapped', 'needs no setting'],
    enable_local_cache: ['missing', 'the plugin cache with mode: semantic (docs/cache.md)'],
    prometheus_labels: ['missing', 'telemetry.metrics.labels'],
  },
  auth_config: {
    '': ['changed', 'the console asks for a key, or for the identity provider (docs/console.md)'],
  },
  governance: {
    auth_config: ['changed', 'the console asks for a key, or for the identity provider (docs/console.md)'],
    customers: ['missing', 'customers are workspaces (docs/administration.md)'],
    teams: ['missing', 'teams are workspaces (docs/administration.md)'],
    routing_rules: ['missing', 'write conditions (docs/routing-strategies.md)'],
    budgets: ['mapped', 'are written into the keys that name them'],
    rate_limits: ['mapped', 'are written into the keys that name them'],
  },
};

/** Plugins by name. */
const pluginSentences: Readonly<Record<string, Told>> = {
  governance: ['mapped', 'the plugins auth and policies'],
  logging: ['mapped', 'the plugin logger'],
  telemetry: ['mapped', 'GET /metrics'],
  otel: ['changed', 'spans are exported over OTLP/HTTP: telemetry.otlp (docs/telemetry.md)'],
  semantic_cache: ['missing', 'the plugin cache with mode: semantic and semantic.provider (docs/cache.md)'],
};

/** Settings of keys without a counterpart. */
const keySentences: Readonly<Record<string, string>> = {
  use_for_batch_api: 'a request for batches names its provider: x-service-provider: @…',
  blacklisted_models:
    'a model that another key names goes to that one as well: take this key out of the condition',
  bedrock_mantle_key_config: 'write a provider "bedrock-mantle" with a Bedrock API key',
};

/** What the report says about settings. */
export const bifrostRemedies = {
  rows: bifrostRows,
  sentences: bifrostSentences,
  plugins: pluginSentences,
  keys: keySentences,
};
