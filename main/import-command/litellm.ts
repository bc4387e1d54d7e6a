// `weir import litellm`: the configuration of LiteLLM's proxy.
import { isJsonObject, type JsonObject } from '../../core/base/json.ts';
import { Draft, Values, writtenAs } from './draft.ts';
import { liteLLMHosts } from './litellm-hosts.ts';
import { type Deployment, type ImportParts, readDeployments } from './litellm-models.ts';
import { writeRouting } from './litellm-routing.ts';
import type { Report } from './report.ts';
import { importSources, type Source, type SourcePath } from './source.ts';
import { quoted } from '../../core/base/did-you-mean.ts';
import { liteLLMDurations } from '../../plugins/management/litellm/fields.ts';
import { litellmRemedies, type Told } from './litellm-remedies.ts';
import { writeGuardrails, writeMcpServers } from './litellm-tools.ts';

/** The configuration that does what a file of LiteLLM's proxy says. Throws when it is no such file. */
export function importLiteLLM(source: Source, report: Report): Draft {
  const sections = [
    'model_list',
    'litellm_settings',
    'router_settings',
    'general_settings',
    'mcp_servers',
    'guardrails',
  ];
  const { value } = source;
  if (!isJsonObject(value) || !sections.some((name) => name in value))
    throw new Error(`${source.file} is no configuration of LiteLLM: it has none of ${sections.join(', ')}.`);
  const draft = new Draft();
  // A host without a key of its own takes the variable that LiteLLM would read.
  const reserved = [...liteLLMHosts.values()].flatMap(({ key }) => key ?? []);
  const needsOwn = (item: unknown): boolean =>
    isJsonObject(item) && !JSON.stringify(item).includes('"api_key"');
  const list = Array.isArray(value['model_list']) ? value['model_list'] : [];
  const values = new Values(source, report, list.some(needsOwn) ? reserved : []);
  const told = report.of(source);
  const parts = { source, told, draft, values };
  const include = value['include'];
  if (include !== undefined)
    told.missing(
      ['include'],
      'other files are imported one by one; keep them together with "include" of the gateway',
    );
  const deployments = readDeployments(parts);
  writeRouting(parts, deployments);
  writeSettings(parts, deployments);
  report.addForgotten(source, sections);
  return draft;
}

// Settings of LiteLLM around its models: keys, stores, cache, callbacks, guardrails, MCP servers.

const endpointsOfCalls: Readonly<Record<string, readonly string[]>> = {
  completion: ['chat.completions'],
  acompletion: ['chat.completions'],
  text_completion: ['completions'],
  atext_completion: ['completions'],
  embedding: ['embeddings'],
  aembedding: ['embeddings'],
  rerank: ['rerank'],
  arerank: ['rerank'],
  responses: ['responses'],
  aresponses: ['responses'],
  moderation: ['moderations'],
  amoderation: ['moderations'],
};

/** Sections without a counterpart, and what to write instead. */
const sectionRemedies: Readonly<Record<string, string>> = {
  sandbox_tools: 'the gateway runs no code for models; a tool of an MCP server does (plugins.mcp.servers)',
  policies:
    'input_guardrails and output_guardrails of a config or a workspace say what is judged (docs/guardrails.md)',
  policy_attachments: 'a config names the guardrails of its models (docs/guardrails.md)',
};

const shortestKey = 16;
/** As the plugin `litellm` bounds them. */
const mostModels = 1000;

/** Writes everything of the file but models and routing. */
function writeSettings(parts: ImportParts, deployments: readonly Deployment[]): void {
  const { source, told } = parts;
  const root = importSources.objectOf(source.value);
  writeKeys(parts, importSources.objectOf(root['general_settings']));
  writeForClients(parts, deployments);
  writeStores(parts, root);
  writeCache(parts, importSources.objectOf(root['litellm_settings']), deployments);
  writeLogging(parts, importSources.objectOf(root['litellm_settings']));
  writeBudget(parts, importSources.objectOf(root['litellm_settings']));
  writeGuardrails(
    parts,
    root['guardrails'] ?? importSources.objectOf(root['litellm_settings'])['guardrails'],
    root['guardrails'] === undefined,
  );
  writeMcpServers(parts, root);
  for (const [section, sentences] of Object.entries(litellmRemedies.settings))
    for (const key of Object.keys(importSources.objectOf(root[section]))) {
      const sentence = sentences[key];
      if (sentence !== undefined) told[sentence[0]]([section, key], sentence[1]);
    }
  for (const name of Object.keys(importSources.objectOf(root['environment_variables'])))
    told.changed(
      ['environment_variables', name],
      `set ${name} in the environment of the gateway: its file sets no variables`,
    );
  for (const section of ['files_settings', 'finetune_settings', 'batch_settings'])
    if (root[section] !== undefined)
      told.missing([section], 'a request for files or jobs names its provider: x-service-provider: @…');
  if (root['search_tools'] !== undefined)
    told.missing(
      ['search_tools'],
      'the check tavily.online or exa.online of a guardrail searches for a request; tools are those of MCP servers',
    );
  for (const [section, remedy] of Object.entries(sectionRemedies))
    if (root[section] !== undefined) told.missing([section], remedy);
  if (root['vector_store_registry'] !== undefined)
    told.missing(['vector_store_registry'], 'vector stores are not searched for chats');
}

function writeKeys({ told, values, draft }: ImportParts, general: JsonObject): void {
  const key = general['master_key'];
  draft.security['key_prefix'] = 'sk-';
  if (typeof key !== 'string' || key === '') {
    told.changed(
      key === undefined ? [] : ['general_settings', 'master_key'],
      'without a master key LiteLLM lets everybody in; the gateway asks for a key: the first start shows one, or take WEIR_ADMIN_KEY',
    );
    return;
  }
  const at = ['general_settings', 'master_key'];
  draft.auth['keys'] = [{ name: 'master', key: values.secret(at, key, 'LITELLM_MASTER_KEY'), kind: 'owner' }];
  if (key.length < shortestKey && !key.startsWith('os.environ/'))
    told.changed(
      at,
      `is an owner's key of the plugin auth; it has ${key.length} characters, and a key needs ${shortestKey}: choose a longer one`,
    );
  else
    told.mapped(
      at,
      `is an owner's key of the plugin auth, with all rights; a key needs at least ${shortestKey} characters`,
    );
  const size = general['max_request_size_mb'];
  if (typeof size === 'number') {
    draft.server['max_body_bytes'] = Math.max(1024, Math.round(size * 1024 * 1024));
    told.mapped(['general_settings', 'max_request_size_mb'], 'is server.max_body_bytes');
  }
  const answer = general['max_response_size_mb'];
  if (typeof answer === 'number') {
    draft.provider['max_answer_bytes'] = Math.max(1024, Math.round(answer * 1024 * 1024));
    told.mapped(['general_settings', 'max_response_size_mb'], 'is max_answer_bytes of the plugin provider');
  }
}

/** What clients of LiteLLM expect: its header for keys, its list of models, its paths for keys. */
function writeForClients({ draft }: ImportParts, deployments: readonly Deployment[]): void {
  const models = deployments
    .filter(({ group }) => !group.includes('*'))
    .slice(0, mostModels)
    .map(({ group, kind, model, told }) => ({
      ...{
        name: writtenAs.escaped(group),
        provider: kind,
        ...(model !== '' && { model: writtenAs.escaped(model) }),
      },
      ...told,
    }));
  draft.server['header_aliases'] = ['x-portkey', 'x-litellm'];
  draft.extraPlugins.push(models.length === 0 ? 'litellm' : { litellm: { models } });
  draft.management['litellm'] = true;
}

/** Redis of the router or of several instances, for counters. */
function writeStores(parts: ImportParts, root: JsonObject): void {
  const { draft } = parts;
  const router = importSources.objectOf(root['router_settings']);
  const own = { host: 'host', port: 'port', password: 'password', url: 'url' };
  const shared = importSources.objectOf(
    importSources.objectOf(root['general_settings'])['coordination_redis'],
  );
  const url =
    redisUrl(parts, 'router_settings', router, {
      host: 'redis_host',
      port: 'redis_port',
      password: 'redis_password',
      url: 'redis_url',
    }) ?? redisUrl(parts, ['general_settings', 'coordination_redis'], shared, own);
  if (url !== undefined) draft.storage['counters'] = { url };
}

interface RedisNames {
  readonly host: string;
  readonly port: string;
  readonly password: string;
  readonly url: string;
}

function redisUrl(
  { told, values }: ImportParts,
  section: string | readonly string[],
  settings: JsonObject,
  names: RedisNames,
): string | undefined {
  const sections = typeof section === 'string' ? [section] : section;
  const at = (key: string): SourcePath => [...sections, key];
  const whole = settings[names.url];
  const mapped = (key: string): void => {
    if (settings[key] !== undefined) told.mapped(at(key), 'is part of the address of Redis under storage');
  };
  if (typeof whole === 'string') {
    mapped(names.url);
    return values.address(at(names.url), whole, 'REDIS_URL');
  }
  const host = settings[names.host];
  if (host === undefined) return undefined;
  for (const key of [names.host, names.port]) mapped(key);
  const password = settings[names.password];
  const login =
    password === undefined || password === null
      ? ''
      : `:${values.secret(at(names.password), password, 'REDIS_PASSWORD')}@`;
  if (login !== '')
    told.changed(
      at(names.password),
      'stands in an address (storage): characters such as @ : / % must be percent-encoded in the variable',
    );
  const port = settings[names.port] ?? 6379;
  return `redis://${login}${values.text(at(names.host), host)}:${values.text(at(names.port), port)}`;
}

function writeCache(parts: ImportParts, settings: JsonObject, deployments: readonly Deployment[]): void {
  const { told, values, draft } = parts;
  const section = ['litellm_settings', 'cache_params'];
  const given = importSources.objectOf(settings['cache_params']);
  if (settings['cache'] !== true) {
    if (settings['cache'] !== undefined)
      told.mapped(
        ['litellm_settings', 'cache'],
        'is mode: config of the plugin cache: nothing is cached unless a config says so',
      );
    if (settings['cache_params'] !== undefined) told.missing(section, 'litellm_settings.cache is off');
    return;
  }
  told.mapped(
    ['litellm_settings', 'cache'],
    'is mode: simple of the plugin cache; each workspace and each caller with other metadata has answers of its own (docs/cache.md)',
  );
  draft.cache['mode'] = 'simple';
  for (const [key, value] of Object.entries(given)) {
    const at = [...section, key];
    if (key === 'ttl' && typeof value === 'number') {
      draft.cache['max_age'] = Math.min(7_776_000, Math.max(1, Math.round(value)));
      told.mapped(at, 'is max_age of the plugin cache');
    } else if (key === 'supported_call_types' && Array.isArray(value)) {
      const endpoints = [
        ...new Set(value.flatMap((one) => endpointsOfCalls[importSources.textOf(one)] ?? [])),
      ];
      if (endpoints.length === 0) draft.cache['mode'] = 'config';
      else draft.cache['endpoints'] = endpoints;
      told.mapped(
        at,
        endpoints.length === 0 ? 'nothing is cached: mode: config' : 'is endpoints of the plugin cache',
      );
    } else if (key === 'mode') {
      if (value === 'default_off') draft.cache['mode'] = 'config';
      told.changed(at, 'configs say what is cached (cache of a config); requests do not');
    } else if (key === 'namespace') told.missing(at, 'callers name a namespace in x-service-cache-namespace');
    else if (key === 'type') writeCacheType(parts, importSources.textOf(value), { at, given, deployments });
    else if (
      ![
        'host',
        'port',
        'password',
        'url',
        'similarity_threshold',
        'redis_semantic_cache_embedding_model',
        'qdrant_semantic_cache_embedding_model',
      ].includes(key)
    )
      told.missing(at, 'has no counterpart in the plugin cache (docs/cache.md)');
  }
  const type = importSources.textOf(given['type']);
  const url = redisUrl(parts, section, given, {
    host: 'host',
    port: 'port',
    password: 'password',
    url: 'url',
  });
  if (url !== undefined) draft.storage['cache'] = { url };
  else if (type.startsWith('redis')) {
    const at = [...section, 'type'];
    draft.storage['cache'] = {
      url: `redis://${values.variable(at, 'REDIS_HOST', '127.0.0.1')}:${values.variable(at, 'REDIS_PORT', '6379')}`,
    };
    told.changed(at, 'names no host: REDIS_HOST and REDIS_PORT do; write a password into storage.cache.url');
  }
}

function writeCacheType(
  { told, draft }: ImportParts,
  type: string,
  { at, given, deployments }: { at: SourcePath; given: JsonObject; deployments: readonly Deployment[] },
): void {
  if (type === 'local' || type === 'redis') {
    told.mapped(at, type === 'local' ? 'is the memory of the process' : 'is storage.cache');
    return;
  }
  const semantic = /^(redis|qdrant)-semantic$/.exec(type)?.[1];
  if (semantic === undefined) {
    told.changed(at, `answers are kept in memory or Redis, not in ${quoted(type.slice(0, 40))}`);
    return;
  }
  const key = `${semantic}_semantic_cache_embedding_model`;
  const wanted = given[key];
  const deployment = deployments.find(({ group }) => group === wanted);
  const place = [...at.slice(0, -1), key];
  if (deployment === undefined) {
    told.changed(
      wanted === undefined ? at : place,
      'similar questions need an embedding model of this file: the same questions alone are found (mode: simple)',
    );
    return;
  }
  draft.cache['mode'] = 'semantic';
  const threshold = given['similarity_threshold'];
  draft.cache['semantic'] = {
    provider: String(deployment.target['provider']).replace(/^@/, ''),
    model: writtenAs.escaped(deployment.model),
    ...(typeof threshold === 'number' && { threshold }),
  };
  told.mapped(place, 'is semantic.provider and semantic.model of the plugin cache');
  if (threshold !== undefined)
    told.mapped([...at.slice(0, -1), 'similarity_threshold'], 'is semantic.threshold');
  told.changed(at, 'is mode: semantic; vectors are in memory, or in Redis 8 (docs/cache.md)');
}

function writeLogging({ told, draft }: ImportParts, settings: JsonObject): void {
  if (settings['set_verbose'] === true) draft.log['level'] = 'debug';
  if (settings['set_verbose'] !== undefined) told.mapped(['litellm_settings', 'set_verbose'], 'is log.level');
  if (settings['json_logs'] === true) draft.log['format'] = 'json';
  if (settings['json_logs'] !== undefined) told.mapped(['litellm_settings', 'json_logs'], 'is log.format');
  if (settings['turn_off_message_logging'] === true) draft.logger['bodies'] = false;
  if (settings['turn_off_message_logging'] !== undefined)
    told.mapped(['litellm_settings', 'turn_off_message_logging'], 'is bodies of the plugin logger');
  for (const key of [
    'callbacks',
    'success_callback',
    'failure_callback',
    'service_callback',
    'audit_log_callbacks',
  ]) {
    const list = settings[key];
    const items = Array.isArray(list) ? list : list === undefined ? [] : [list];
    for (const [index, item] of items.entries()) {
      const name = importSources.textOf(item);
      const at = ['litellm_settings', key, ...(Array.isArray(list) ? [index] : [])];
      const own: Told = name.includes('.')
        ? litellmRemedies.inPlugin
        : [
            'missing',
            `requests are in the log and analytics of the gateway; ${quoted(name.slice(0, 64))} has no counterpart`,
          ];
      const sentence = litellmRemedies.callbacks[name] ?? own;
      told[sentence[0]](at, sentence[1]);
    }
    if (Array.isArray(list) && list.length === 0) told.mapped(['litellm_settings', key], 'is empty');
  }
}

/** The budget of the whole proxy. */
function writeBudget({ told, draft }: ImportParts, settings: JsonObject): void {
  const limit = settings['max_budget'];
  const duration = settings['budget_duration'];
  if (typeof limit !== 'number' || limit <= 0) {
    if (duration !== undefined)
      told.missing(['litellm_settings', 'budget_duration'], 'there is no max_budget');
    return;
  }
  const reset = liteLLMDurations.reset(importSources.textOf(duration));
  draft.organisation['usage_limit_policies'] = [
    {
      slug: 'litellm-max-budget',
      name: 'Budget of the gateway',
      conditions: [{ key: 'workspace_id', value: '*' }],
      group_by: [{ key: 'organisation_id' }],
      type: 'cost',
      credit_limit: limit,
      ...reset,
    },
  ];
  if (duration === undefined) return;
  const at = ['litellm_settings', 'budget_duration'];
  if (reset === undefined)
    told.missing(at, 'is neither 1mo nor whole days from 1 to 365: the budget is not reset');
  else
    told.mapped(
      at,
      Object.entries(reset)
        .map(([name, value]) => `is ${name}: ${value}`)
        .join(),
    );
}
