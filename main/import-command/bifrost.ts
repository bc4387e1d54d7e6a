// `weir import bifrost`: the `config.json` of Bifrost.
import { quoted } from '../../core/base/did-you-mean.ts';
import type { JsonObject, JsonValue } from '../../core/base/json.ts';
import { isJsonObject } from '../../core/base/json.ts';
import { bifrostRemedies } from './bifrost-remedies.ts';
import { Draft, Values, type Written, writtenAs } from './draft.ts';
import { choiceOf, type Host, type HostKey } from './bifrost-routing.ts';
import type { Report, SourceReport } from './report.ts';
import { importSources, type Source, type SourcePath } from './source.ts';

/** The configuration that does what a file of Bifrost says. Throws when it is no such file. */
export function importBifrost(source: Source, report: Report): Draft {
  const { value } = source;
  if (
    !isJsonObject(value) ||
    ![
      'providers',
      'governance',
      'config_store',
      'client',
      'mcp',
      'logs_store',
      'vector_store',
      'plugins',
    ].some((key) => key in value)
  )
    throw new Error(
      `${source.file} is no configuration of Bifrost: it has none of providers, governance, config_store, logs_store, client, mcp, vector_store and plugins.`,
    );
  const importer = new BifrostImport(source, report, value);
  const draft = importer.write();
  report.addForgotten(source);
  return draft;
}

class BifrostImport {
  readonly #told: SourceReport;
  readonly #root: JsonObject;
  readonly #values: Values;
  readonly #draft = new Draft();

  constructor(source: Source, report: Report, root: JsonObject) {
    this.#told = report.of(source);
    this.#root = root;
    this.#values = new Values(source, report);
  }

  write(): Draft {
    const draft = this.#draft;
    const hosts = Object.entries(importSources.objectOf(this.#root['providers'])).flatMap(
      ([name, host]) => this.#host(name, importSources.objectOf(host)) ?? [],
    );
    if (hosts.length > 0) {
      draft.addConfig('bifrost', choiceOf(hosts));
      draft.provider['config'] = 'bifrost';
      const isBare = hosts.some(({ keys }) => keys.some(({ models }) => models === undefined));
      if (isBare && hosts.length > 1)
        this.#told.changed(
          ['providers'],
          'a model is asked for as provider/model, or as one that a key names: no catalogue says whose other models are',
        );
    } else draft.provider['default'] = 'mock';
    this.#virtualKeys(hosts);
    this.#client();
    this.#servers();
    this.#plugins();
    for (const [section, sentences] of Object.entries(bifrostRemedies.sentences))
      if (this.#root[section] !== undefined)
        for (const [key, [verdict, message]] of Object.entries(sentences)) {
          const at = key === '' ? [section] : [section, key];
          if (key === '' || importSources.objectOf(this.#root[section])[key] !== undefined)
            this.#told[verdict](at, message);
        }
    return draft;
  }

  #host(name: string, host: JsonObject): Host | undefined {
    const at = ['providers', name];
    const custom = importSources.objectOf(host['custom_provider_config']);
    const base = importSources.textOf(custom['base_provider_type']) || name;
    const network = importSources.objectOf(host['network_config']);
    const address = network['base_url'];
    if (!bifrostRemedies.rows.has(base) && address === undefined) {
      this.#told.missing(
        at,
        `${quoted(base)} is not known, and is left out: add it under providers with dialect and base_url`,
      );
      return undefined;
    }
    const row = bifrostRemedies.rows.get(base);
    if (host['custom_provider_config'] !== undefined)
      this.#told.mapped([...at, 'custom_provider_config'], `speaks the wire of ${quoted(base)}`);
    const shared: Written = {};
    if (typeof address === 'string') {
      const here = [...at, 'network_config', 'base_url'];
      const trimmed = this.#values.address(
        here,
        address.replace(/\/+$/, ''),
        `${writtenAs.variable(name)}_URL`,
      );
      const hasVersion =
        ['anthropic', undefined, 'openai', 'ollama'].includes(row) && !/\/v\d+$/.test(trimmed);
      shared['base_url'] = hasVersion ? `${trimmed}/v1` : trimmed;
      this.#told.mapped(here, 'is base_url of the provider');
    }
    if (network['extra_headers'] !== undefined) {
      shared['headers'] = this.#values.named(
        [...at, 'network_config', 'extra_headers'],
        network['extra_headers'],
        writtenAs.variable(name),
      );
      this.#told.mapped([...at, 'network_config', 'extra_headers'], 'are headers of the provider');
    }
    const settings: Written = {};
    this.#number(
      [...at, 'network_config', 'default_request_timeout_in_seconds'],
      network,
      (seconds) => (settings['request_timeout'] = Math.round(seconds * 1000)),
      'is request_timeout',
    );
    this.#number(
      [...at, 'network_config', 'max_retries'],
      network,
      (attempts) => (settings['retry'] = { attempts: Math.min(5, attempts) }),
      'is retry.attempts, 5 at the most',
    );
    for (const key of [
      'retry_backoff_initial',
      'retry_backoff_max',
      'retry_backoff_initial_ms',
      'retry_backoff_max_ms',
    ])
      if (network[key] !== undefined)
        this.#told.missing([...at, 'network_config', key], 'retries wait 1, 2, 4 … seconds');
    if (host['concurrency_and_buffer_size'] !== undefined)
      this.#told.missing(
        [...at, 'concurrency_and_buffer_size'],
        'the gateway bounds rates of requests, not how many run at a time',
      );
    const list = Array.isArray(host['keys']) ? host['keys'] : [];
    const keys = list.map((key, index) =>
      this.#key({ name, row, shared }, importSources.objectOf(key), [...at, 'keys', index]),
    );
    if (keys.length === 0) {
      const slug = this.#draft.providerSlug(name, row, { ...shared, credentials: 'none' });
      keys.push({ id: '', slug, weight: 1, models: undefined, aliases: {} });
    }
    return { name, keys, settings };
  }

  #key(
    { name, row, shared }: { name: string; row: string | undefined; shared: Written },
    key: JsonObject,
    at: SourcePath,
  ): HostKey {
    const settings: Written = { ...shared };
    const id = importSources.textOf(key['id']) || importSources.textOf(key['name']);
    const prefix = writtenAs.variable(id || name);
    const say = (keyName: string, message: string): void => this.#told.mapped([...at, keyName], message);
    if (key['value'] !== undefined && key['value'] !== '') {
      settings['api_key'] = this.#values.secret(
        [...at, 'value'],
        this.#plain(key['value']),
        `${prefix}_API_KEY`,
      );
      say('value', 'is api_key of the provider');
    } else if (row !== 'bedrock' && row !== 'vertex-ai') settings['credentials'] = 'none';
    const own: readonly (readonly [
      string,
      Readonly<Record<string, readonly [field: string, secret: boolean]>>,
    ])[] = [
      [
        'azure_key_config',
        {
          api_version: ['azure_api_version', false],
          client_id: ['azure_entra_client_id', false],
          client_secret: ['azure_entra_client_secret', true],
          tenant_id: ['azure_entra_tenant_id', false],
        },
      ],
      [
        'bedrock_key_config',
        {
          access_key: ['aws_access_key_id', true],
          secret_key: ['aws_secret_access_key', true],
          session_token: ['aws_session_token', true],
          region: ['aws_region', false],
          role_arn: ['aws_role_arn', false],
        },
      ],
      [
        'vertex_key_config',
        {
          project_id: ['vertex_project_id', false],
          region: ['vertex_region', false],
          auth_credentials: ['vertex_service_account_json', true],
        },
      ],
    ];
    for (const [section, fields] of own)
      for (const [member, [field, isSecret]] of Object.entries(fields)) {
        const value = importSources.objectOf(key[section])[member];
        if (value === undefined || value === '') continue;
        const here = [...at, section, member];
        settings[field] = isSecret
          ? this.#values.secret(here, this.#plain(value), `${prefix}_${writtenAs.variable(member)}`)
          : this.#values.text(here, this.#plain(value));
        this.#told.mapped(here, `is ${field} of the provider`);
      }
    if ('azure_entra_client_secret' in settings) settings['azure_auth_mode'] = 'entra';
    if (row === 'azure-openai') settings['azure_api_version'] ??= '2024-10-21';
    const endpoint = importSources.textOf(
      this.#plain(importSources.objectOf(key['azure_key_config'])['endpoint']),
    );
    if (endpoint !== '') {
      const here = [...at, 'azure_key_config', 'endpoint'];
      const resource = /^https:\/\/([A-Za-z0-9-]{1,63})\.openai\.azure\.com\/?$/.exec(endpoint)?.[1];
      if (resource !== undefined) settings['azure_resource_name'] = resource;
      else
        settings['base_url'] =
          `${this.#values.address(here, endpoint.replace(/\/+$/, ''), `${prefix}_ENDPOINT`)}/openai`;
      this.#told.mapped(here, 'is the address of the provider');
    }
    const slug = this.#draft.providerSlug(id || name, row, settings);
    for (const keyName of ['id', 'name'])
      if (key[keyName] !== undefined) say(keyName, `is providers.${slug}`);
    const models = (Array.isArray(key['models']) ? key['models'] : ['*']).map(importSources.textOf);
    if (key['models'] !== undefined) say('models', 'is a condition over the model');
    const aliases = {
      ...importSources.objectOf(importSources.objectOf(key['azure_key_config'])['deployments']),
      ...importSources.objectOf(importSources.objectOf(key['vertex_key_config'])['deployments']),
      ...importSources.objectOf(key['aliases']),
    };
    for (const place of [
      ['azure_key_config', 'deployments'],
      ['vertex_key_config', 'deployments'],
      ['aliases'],
    ])
      if (
        place.reduce<JsonValue | undefined>((value, step) => importSources.objectOf(value)[step], key) !==
        undefined
      )
        this.#told.mapped([...at, ...place], 'are the models that the host is asked for');
    if (typeof key['weight'] === 'number') say('weight', 'is weight of the target');
    for (const [keyName, message] of Object.entries(bifrostRemedies.keys))
      if (key[keyName] === false) say(keyName, 'is off');
      else if (key[keyName] !== undefined) this.#told.missing([...at, keyName], message);
    const weight = typeof key['weight'] === 'number' ? key['weight'] : 1;
    return {
      id,
      slug,
      weight,
      models: models.includes('*') || models.length === 0 ? undefined : models,
      aliases,
    };
  }

  #virtualKeys(hosts: readonly Host[]): void {
    const governance = importSources.objectOf(this.#root['governance']);
    const list = Array.isArray(governance['virtual_keys']) ? governance['virtual_keys'] : [];
    const keys = list.flatMap((item, index) => {
      const key = importSources.objectOf(item);
      const at = ['governance', 'virtual_keys', index];
      const name = importSources.textOf(key['name']) || importSources.textOf(key['id']);
      if (key['is_active'] === false) {
        this.#told.mapped(at, 'is switched off, and left out');
        return [];
      }
      const value = this.#plain(key['value']) ?? key['id'];
      const scopes = [
        'completions.write',
        'models.list',
        ...(key['mcp_configs'] === undefined ? [] : ['mcp.invoke']),
      ];
      const written: Written = {
        name,
        type: 'workspace-service',
        workspace: 'ws-default',
        key: this.#values.secret([...at, 'value'], value ?? name, `${writtenAs.variable(name)}_KEY`),
        scopes,
      };
      this.#told.mapped(
        [...at, 'value'],
        `is the key ${quoted(name)} of organisation.keys; a key needs at least 16 characters`,
      );
      for (const member of ['id', 'name', 'is_active', 'description'])
        if (key[member] !== undefined) this.#told.mapped([...at, member], 'tells of the key');
      if (key['mcp_configs'] !== undefined)
        this.#told.changed(
          [...at, 'mcp_configs'],
          'the key may use every MCP server (scope mcp.invoke); workspaces and allow of a server bound that',
        );
      const bounds = Array.isArray(key['provider_configs'])
        ? key['provider_configs'].map(importSources.objectOf)
        : [];
      if (bounds.length > 0) {
        const allowed = hosts.flatMap((host) => {
          const bound = bounds.find((one) => importSources.textOf(one['provider']) === host.name);
          if (bound === undefined) return [];
          const ids = (Array.isArray(bound['key_ids']) ? bound['key_ids'] : ['*']).map(importSources.textOf);
          const kept = host.keys.filter(
            ({ id }) => ids.includes('*') || ids.length === 0 || ids.includes(id),
          );
          return kept.length === 0 ? [] : [{ ...host, keys: kept }];
        });
        if (allowed.length > 0) {
          const config = this.#draft.addConfig(`key-${name}`, choiceOf(allowed));
          written['defaults'] = { config_id: config, allow_config_override: false };
          this.#told.changed(
            [...at, 'provider_configs'],
            `is configs.${config}, to which the key is bound; weights among providers are left out: the model names the provider`,
          );
        } else this.#told.missing([...at, 'provider_configs'], 'names no provider of this file');
      }
      this.#limits(written, key, at);
      return [written];
    });
    if (keys.length > 0) this.#draft.organisation['keys'] = keys;
  }

  /** Budget and rate limit of a virtual key, in it or named by it. */
  #limits(written: Written, key: JsonObject, at: SourcePath): void {
    const governance = importSources.objectOf(this.#root['governance']);
    const find = (section: string, id: JsonValue | undefined): JsonObject => {
      const list = Array.isArray(governance[section]) ? governance[section].map(importSources.objectOf) : [];
      return list.find((one) => one['id'] === id) ?? {};
    };
    const budget = isJsonObject(key['budget']) ? key['budget'] : find('budgets', key['budget_id']);
    const days = daysOf(budget['reset_duration']);
    if (typeof budget['max_limit'] === 'number' && budget['max_limit'] >= 1)
      written['usage_limits'] = {
        type: 'cost',
        credit_limit: budget['max_limit'],
        ...(days !== undefined && { periodic_reset_days: days }),
      };
    for (const name of ['budget', 'budget_id'])
      if (key[name] !== undefined) this.#told.mapped([...at, name], 'is usage_limits of the key, in days');
    const rate = isJsonObject(key['rate_limit'])
      ? key['rate_limit']
      : find('rate_limits', key['rate_limit_id']);
    const limits = (['request', 'token'] as const).flatMap((kind) => {
      const value = rate[`${kind}_max_limit`];
      const unit = { '1s': 'rps', '1m': 'rpm', '1h': 'rph', '1d': 'rpd', '1w': 'rpw' }[
        importSources.textOf(rate[`${kind}_reset_duration`])
      ];
      return typeof value === 'number' && unit !== undefined ? [{ type: `${kind}s`, unit, value }] : [];
    });
    if (limits.length > 0) written['rate_limits'] = limits;
    for (const name of ['rate_limit', 'rate_limit_id'])
      if (key[name] !== undefined)
        this.#told.mapped(
          [...at, name],
          limits.length > 0
            ? 'is rate_limits of the key'
            : 'has no limit of 1s, 1m, 1h, 1d or 1w, and is left out',
        );
  }

  #client(): void {
    const client = importSources.objectOf(this.#root['client']);
    const at = (key: string): SourcePath => ['client', key];
    if (client['disable_content_logging'] === true) this.#draft.logger['bodies'] = false;
    if (client['disable_content_logging'] !== undefined)
      this.#told.mapped(at('disable_content_logging'), 'is bodies of the plugin logger');
    this.#number(
      at('max_request_body_size_mb'),
      client,
      (size) => (this.#draft.server['max_body_bytes'] = Math.max(1024, Math.round(size * 1024 * 1024))),
      'is server.max_body_bytes',
    );
    this.#number(
      at('log_retention_days'),
      client,
      (days) => (this.#draft.retention['logs_days'] = Math.min(99_999, Math.max(0, Math.round(days)))),
      'is retention.logs_days',
    );
  }

  #servers(): void {
    const list = importSources.objectOf(this.#root['mcp'])['client_configs'];
    for (const [index, item] of (Array.isArray(list) ? list : []).entries()) {
      const server = importSources.objectOf(item);
      const at = ['mcp', 'client_configs', index];
      const slug = writtenAs.slug(importSources.textOf(server['name'])).slice(0, 50);
      const prefix = writtenAs.variable(slug);
      const address = server['connection_string'] ?? server['http_url'] ?? server['sse_url'];
      const program = importSources.objectOf(server['stdio_config']);
      const entry: Written = {};
      if (server['is_enabled'] === false || server['disabled'] === true) {
        this.#told.mapped(at, 'is switched off, and left out');
        continue;
      }
      if (typeof program['command'] === 'string') {
        entry['command'] = this.#values.text([...at, 'stdio_config', 'command'], program['command']);
        if (Array.isArray(program['args']))
          entry['args'] = program['args'].map((one, place) =>
            this.#values.text([...at, 'stdio_config', 'args', place], one),
          );
        const names = Array.isArray(program['envs']) ? program['envs'].map(importSources.textOf) : [];
        if (names.length > 0)
          entry['env'] = Object.fromEntries(
            names.map((name) => [name, this.#values.variable([...at, 'stdio_config', 'envs'], name)]),
          );
      } else if (address !== undefined) {
        entry['url'] = this.#values.address(at, this.#plain(address), `${prefix}_URL`);
        if (importSources.textOf(server['connection_type']) === 'sse') entry['transport'] = 'sse';
        const headers = this.#values.named([...at, 'headers'], server['headers'], prefix);
        if (Object.keys(headers).length > 0) entry['headers'] = headers;
      } else {
        this.#told.missing(at, 'has neither an address nor a program, and is left out');
        continue;
      }
      const tools = Array.isArray(server['tools_to_execute'])
        ? server['tools_to_execute'].map(importSources.textOf)
        : [];
      if (tools.length > 0 && !tools.includes('*')) entry['allow'] = tools;
      this.#draft.mcpServers[slug] = entry;
      this.#told.mapped(
        at,
        `is mcp.servers.${slug}: clients reach it at /${slug}/mcp, and models are not given its tools by themselves`,
      );
    }
  }

  #plugins(): void {
    const list = this.#root['plugins'];
    for (const [index, item] of (Array.isArray(list) ? list : []).entries()) {
      const [verdict, message] = bifrostRemedies.plugins[
        importSources.textOf(importSources.objectOf(item)['name'])
      ] ?? ['missing', 'has no counterpart: plugins of the gateway are TypeScript (docs/plugins.md)'];
      this.#told[verdict](['plugins', index], message);
    }
  }

  #number(at: SourcePath, from: JsonObject, use: (value: number) => void, message: string): void {
    const value = from[String(at.at(-1))];
    if (typeof value !== 'number') return;
    use(value);
    this.#told.mapped(at, message);
  }

  /** A value of the API, which says whether it comes from the environment, as in the file. */
  #plain(value: JsonValue | undefined): JsonValue | undefined {
    if (!isJsonObject(value)) return value;
    return value['from_env'] === true
      ? `env.${importSources.textOf(value['env_var']).replace(/^env\./, '')}`
      : value['value'];
  }
}

function daysOf(duration: JsonValue | undefined): number | undefined {
  const [, count = '', unit = ''] = /^(\d+)([dwMY])$/.exec(importSources.textOf(duration)) ?? [];
  const days = Number(count) * ({ d: 1, w: 7, M: 30, Y: 365 }[unit] ?? NaN);
  return Number.isInteger(days) && days >= 1 && days <= 365 ? days : undefined;
}
