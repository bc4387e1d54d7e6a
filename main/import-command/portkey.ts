// `weir import portkey`: gateway configs of Portkey, what its API lists of configs, virtual keys, integrations and
// guardrails, and the `conf.json` of its gateway.
import { didYouMean, quoted } from '../../core/base/did-you-mean.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/base/json.ts';
import { providerFieldAliases, providerFields } from '../../core/providers/provider-fields.ts';
import { providerNames, providerRows } from '../built-ins.ts';
import { defaultAzureVersion, Draft, Values, type Written, writtenAs } from './draft.ts';
import { type Found, portkeyFiles, type SourceRecord } from './portkey-files.ts';
import type { Report } from './report.ts';
import { importSources, type Source, type SourcePath } from './source.ts';

const secretFields: ReadonlySet<string> = new Set(
  providerFields.filter(({ secret }) => secret).map(({ name }) => name),
);
const fieldNames: ReadonlySet<string> = new Set([
  ...providerFields.map(({ name }) => name),
  ...Object.keys(providerFieldAliases),
]);

/** Keys of a config, in snake_case; those of provider fields besides. */
const configKeys = new Set(
  `name strategy weight config provider virtual_key api_key custom_host passthrough forward_headers default_params
  override_params drop_params request_timeout first_token_timeout idle_timeout retry cache hedge cb_config on_drop
  strict_open_ai_compliance strict_openai_compliance fetch_integrated_models deployments before_request_hooks
  after_request_hooks input_guardrails output_guardrails input_mutators output_mutators targets`.split(/\s+/),
);
/** Providers that need a key alone, the longest name first. */
const providerNamesByLength = [...providerRows]
  .filter(
    ([, { base_url: base = '', credentials }]) =>
      base !== '' && !/[{$]/.test(base) && (credentials === undefined || credentials === 'bearer'),
  )
  .map(([name]) => name)
  .toSorted((one, other) => other.length - one.length);

const guardrailLists = new Set(
  'before_request_hooks after_request_hooks input_guardrails output_guardrails input_mutators output_mutators'.split(
    ' ',
  ),
);
/** The configuration that does what these files say. Throws when none of them is of Portkey. */
export function importPortkey(sources: readonly Source[], report: Report): Draft {
  const found: Found = { configs: [], keys: [], guardrails: [], isOfGateway: false };
  for (const source of sources) portkeyFiles.gather(source, found, report);
  if (!found.isOfGateway && found.configs.length + found.keys.length + found.guardrails.length === 0)
    throw new Error(
      `${sources[0]?.file ?? 'The folder'} holds no config, virtual key, integration or guardrail of Portkey.`,
    );
  const importer = new PortkeyImport(found, report);
  const draft = importer.write();
  for (const source of sources) report.addForgotten(source);
  return draft;
}

class PortkeyImport {
  readonly #found: Found;
  readonly #report: Report;
  readonly #draft = new Draft();
  readonly #values = new Map<Source, Values>();
  readonly #slugs: ReadonlySet<string>;
  readonly #guardrails: ReadonlySet<string>;
  readonly #configNames: ReadonlyMap<string, string>;

  constructor(found: Found, report: Report) {
    this.#found = found;
    this.#report = report;
    this.#slugs = new Set(found.keys.map(({ value }) => importSources.textOf(value['slug'])));
    this.#guardrails = new Set(
      found.guardrails.flatMap(({ value }) => [
        importSources.textOf(value['slug']),
        importSources.textOf(value['id']),
      ]),
    );
    this.#configNames = new Map(found.configs.map(({ name }) => [name, writtenAs.slug(name)]));
  }

  write(): Draft {
    const { configs, keys, guardrails } = this.#found;
    for (const one of keys) this.#key(one);
    const written = guardrails.map((one) => this.#guardrail(one));
    if (written.length > 0) this.#draft.organisation['guardrails'] = written;
    for (const { source, config, configAt, name, value, at } of configs) {
      this.#draft.addConfig(name, this.#config(source, importSources.objectOf(config), configAt));
      const isOnly = configs.length === 1;
      const isDefault = value['is_default'] === 1 || value['is_default'] === true;
      if (!isDefault && !isOnly) continue;
      this.#draft.provider['config'] = writtenAs.slug(name);
      this.#report
        .of(source)
        .changed(
          isDefault ? [...at, 'is_default'] : at,
          namesHost(importSources.objectOf(config))
            ? `is the config of requests that name neither a config nor a provider; others name it in x-portkey-config: ${writtenAs.slug(name)}`
            : `names no provider, so each request has to (x-portkey-provider: @…, or @…/model), with x-portkey-config: ${writtenAs.slug(name)}`,
        );
    }
    if (this.#draft.provider['config'] === undefined) this.#draft.provider['default'] = 'mock';
    return this.#draft;
  }

  /** A virtual key, provider or integration. */
  #key({ source, value, at }: SourceRecord): void {
    const told = this.#report.of(source);
    const values = this.#of(source);
    const slug = importSources.textOf(value['slug']);
    const kind = portkeyFiles.kindOf(value) ?? '';
    const settings: Written = {};
    if (!providerNames.has(kind)) {
      const meant = didYouMean(kind, providerNames);
      told.missing(
        at,
        `is for ${quoted(kind)}, which is no provider of the table${meant === undefined ? '' : ` (${quoted(meant)}?)`}: write it under providers with dialect and base_url`,
      );
      return;
    }
    const secretName = `${writtenAs.variable(slug)}_API_KEY`;
    const row = providerRows.get(kind);
    if (row?.credentials !== 'none' && row?.credentials !== 'sigv4' && row?.credentials !== 'google') {
      const key = ['key', 'api_key', 'apiKey'].find((one) => typeof value[one] === 'string');
      const credentials = importSources.objectOf(value['credentials']);
      const nested = typeof credentials['apiKey'] === 'string' ? ['credentials', 'apiKey'] : undefined;
      const place = [...at, ...(key === undefined ? (nested ?? ['slug']) : [key])];
      // Lists show keys masked: the secret itself has to be set by hand in any case.
      const secret = key === undefined ? credentials['apiKey'] : value[key];
      settings['api_key'] = values.secret(
        place,
        importSources.textOf(secret) || `key of ${slug}`,
        secretName,
      );
      if (key !== undefined || nested !== undefined)
        told.mapped(place, `is api_key of providers.${writtenAs.slug(slug)}`);
    }
    for (const section of ['model_config', 'modelConfig', 'configurations', 'credentials', 'config'])
      for (const [key, item] of Object.entries(importSources.objectOf(value[section]))) {
        if (key === 'apiKey') continue;
        this.#field(source, { key, item, at: [...at, section, key], settings, slug });
      }
    const written = this.#draft.providerSlug(slug, kind, settings);
    told.mapped(
      [...at, 'slug'],
      `is providers.${written}: named ${quoted(`@${written}`)}, or as a virtual key`,
    );
    for (const key of Object.keys(value)) {
      const here = [...at, key];
      if (portkeyFiles.kindOf({ [key]: value[key] ?? null }) !== undefined && key !== 'name')
        told.mapped(here, `is the kind of providers.${written}`);
      else if (key === 'rate_limits' || key === 'usage_limits') {
        const list = [value[key]].flat().filter(isJsonObject);
        if (list.length > 0)
          told.missing(
            here,
            'limits belong to providers of the administration: make it an entry of organisation.integrations and organisation.providers (docs/config-reference.md)',
          );
        else told.mapped(here, 'is no limit');
      } else if (key === 'models')
        told.missing(
          here,
          'all models of the host are served; allow_all_models of an integration bounds them',
        );
      else if (
        ![
          'slug',
          'key',
          'api_key',
          'apiKey',
          'model_config',
          'modelConfig',
          'configurations',
          'credentials',
          'config',
        ].includes(key)
      )
        told.mapped(here, 'tells of the record');
    }
  }

  #field(
    source: Source,
    {
      key,
      item,
      at,
      settings,
      slug,
    }: { key: string; item: unknown; at: SourcePath; settings: Written; slug: string },
  ): void {
    const told = this.#report.of(source);
    const values = this.#of(source);
    const snake = snakeCase(key);
    const name = portkeyFiles.shortNames[snake] ?? snake;
    if (item === null || item === '' || isJsonObject(item) || Array.isArray(item)) {
      if (item !== null && item !== '') told.missing(at, 'is no text, and is left out');
      return;
    }
    if (name === 'custom_host')
      settings['base_url'] = values.address(at, item, `${writtenAs.variable(slug)}_URL`);
    else if (fieldNames.has(name))
      settings[name] = secretFields.has(name)
        ? values.secret(at, item, `${writtenAs.variable(slug)}_${writtenAs.variable(name)}`)
        : values.text(at, item);
    else {
      told.missing(at, 'is no setting of a provider');
      return;
    }
    told.mapped(at, `is ${name === 'custom_host' ? 'base_url' : name} of the provider`);
  }

  #guardrail({ source, value, at }: SourceRecord): Written {
    const told = this.#report.of(source);
    const slug = writtenAs.slug(
      importSources.textOf(value['slug']) ||
        importSources.textOf(value['id']) ||
        importSources.textOf(value['name']),
    );
    told.mapped(at, `is the guardrail ${quoted(slug)} of organisation.guardrails`);
    const checks = (Array.isArray(value['checks']) ? value['checks'] : []).map((check, index) => {
      const { id, name, parameters, is_enabled: isEnabled } = importSources.objectOf(check);
      const here = [...at, 'checks', index, 'parameters'];
      return {
        id: importSources.textOf(id),
        ...(typeof name === 'string' && { name }),
        ...(typeof isEnabled === 'boolean' && { is_enabled: isEnabled }),
        ...(isJsonObject(parameters) && { parameters: this.#data(source, parameters, here) }),
      };
    });
    const actions = importSources.objectOf(value['actions']);
    const kept = Object.entries(actions).map(([key, item]) => [snakeCase(key), item] as const);
    return {
      slug,
      name: importSources.textOf(value['name']) || slug,
      checks,
      actions: Object.fromEntries(
        kept.filter(([key]) => ['deny', 'async', 'sequential', 'on_success', 'on_fail'].includes(key)),
      ),
    };
  }

  /** A config or target. */
  #config(source: Source, config: JsonObject, at: SourcePath): Written {
    const values = this.#of(source);
    const written: Written = {};
    // A config that stands as text in its record has no places of its own.
    const isText = at.length === 0 && config !== source.value;
    const told = this.#report.of(source);
    const say = (verdict: 'mapped' | 'changed' | 'missing', here: SourcePath, message: string): void => {
      if (!isText || verdict !== 'mapped') told[verdict](isText ? [] : here, message);
    };
    for (const [key, value] of Object.entries(config)) {
      const here = [...at, key];
      const name = snakeCase(key);
      if (name === 'options' || name === 'targets') {
        const targets = (Array.isArray(value) ? value : []).map((target, index) =>
          this.#config(source, importSources.objectOf(target), [...here, index]),
        );
        written['targets'] = targets;
        if (name === 'options')
          say('changed', here, 'is of an older form: targets, with mode as the strategy');
      } else if (name === 'mode' && typeof value === 'string') {
        written['strategy'] = { mode: value };
        say('mapped', here, 'is strategy.mode');
      } else if (name === 'prompt_id')
        say('missing', here, 'prompts in configs are not served: send /prompts/{id}/completions');
      else if (name === 'config' && typeof value === 'string') {
        const known = this.#configNames.get(value);
        if (known === undefined) say('missing', here, `there is no config ${quoted(value)} in these files`);
        else {
          written['config'] = known;
          say('mapped', here, `is configs.${known}`);
        }
      } else if (
        name === 'virtual_key' ||
        (name === 'provider' && importSources.textOf(value).startsWith('@'))
      ) {
        const slug = importSources.textOf(value).replace(/^@/, '');
        this.#reference(source, slug, here);
        written[name] = name === 'provider' ? `@${writtenAs.slug(slug)}` : writtenAs.slug(slug);
      } else if (name === 'provider' && !providerNames.has(importSources.textOf(value))) {
        say(
          'missing',
          here,
          `${quoted(importSources.textOf(value))} is no provider of the table: write it under providers with dialect and base_url`,
        );
      } else if (guardrailLists.has(name)) this.#guardrailList(source, { name, value, here, written });
      else if (name === 'api_key') {
        written[name] = values.secret(
          here,
          value,
          `${writtenAs.variable(importSources.textOf(config['provider']) || 'provider')}_API_KEY`,
        );
        say('mapped', here, 'is api_key of the target');
      } else if (fieldNames.has(name)) {
        written[name] = secretFields.has(name)
          ? values.secret(here, value, writtenAs.variable(name))
          : values.text(here, value);
        say('mapped', here, `is ${name} of the target`);
      } else if (name === 'custom_host') {
        written[name] = values.address(here, value, 'CUSTOM_HOST');
        say('mapped', here, 'is custom_host of the target');
      } else if (name === 'cache' && importSources.objectOf(value)['mode'] === 'semantic') {
        written[name] = this.#data(source, value, here);
        say(
          'changed',
          here,
          'similar questions need semantic.provider of the plugin cache (docs/cache.md); until then the same questions alone are found',
        );
      } else if (configKeys.has(name)) {
        written[name] = this.#data(source, value, here);
        say('mapped', here, `is ${name}`);
      } else say('missing', here, 'is no key of a config (docs/configs.md)');
    }
    if (written['provider'] === 'azure-openai') this.#azure(source, written, at);
    return written;
  }

  /** A target at Azure needs a resource and a version, which clients may have sent. */
  #azure(source: Source, target: Written, at: SourcePath): void {
    if ('azure_resource_name' in target || 'custom_host' in target) return;
    target['azure_resource_name'] = this.#of(source).variable(at, 'AZURE_RESOURCE_NAME');
    target['azure_api_version'] ??= defaultAzureVersion;
    this.#report
      .of(source)
      .changed(
        [...at, 'provider'],
        'names no resource of Azure: AZURE_RESOURCE_NAME does; a deployment has the name of the model',
      );
  }

  /** A provider of a config that no record describes is guessed by its name. */
  #reference(source: Source, slug: string, at: SourcePath): void {
    const told = this.#report.of(source);
    if (this.#slugs.has(slug)) {
      told.mapped(at, `is providers.${writtenAs.slug(slug)}`);
      return;
    }
    const name = slug.toLowerCase();
    const kind = portkeyFiles.guesses.find(([word]) => name.includes(word))?.[1] ?? rowByWord(name);
    if (kind === undefined) {
      const settings = {
        dialect: 'openai-chat',
        base_url: this.#of(source).variable(at, `${writtenAs.variable(slug)}_URL`),
        api_key: this.#of(source).variable(at, `${writtenAs.variable(slug)}_API_KEY`),
      };
      this.#draft.providerSlug(slug, undefined, settings);
      told.changed(
        at,
        `no record says what ${quoted(slug)} is: providers.${writtenAs.slug(slug)} is a host that speaks OpenAI's wire, at the address of a variable`,
      );
      return;
    }
    const values = this.#of(source);
    const settings: Written = { api_key: values.variable(at, `${writtenAs.variable(slug)}_API_KEY`) };
    if (kind === 'azure-openai') {
      settings['azure_resource_name'] = values.variable(at, `${writtenAs.variable(slug)}_RESOURCE_NAME`);
      settings['azure_api_version'] = defaultAzureVersion;
    }
    if (kind === 'bedrock') settings['aws_region'] = values.variable(at, 'AWS_REGION', 'us-east-1');
    this.#draft.providerSlug(slug, kind, settings);
    told.changed(
      at,
      `no record says what ${quoted(slug)} is: by its name providers.${writtenAs.slug(slug)} is taken for ${quoted(kind)}`,
    );
  }

  #guardrailList(
    source: Source,
    { name, value, here, written }: { name: string; value: JsonValue; here: SourcePath; written: Written },
  ): void {
    const told = this.#report.of(source);
    const kept: unknown[] = [];
    for (const [index, item] of (Array.isArray(value) ? value : []).entries()) {
      const at = [...here, index];
      const members = importSources.objectOf(item);
      const slug =
        typeof item === 'string'
          ? item
          : Object.keys(members).length === 1
            ? importSources.textOf(members['id'])
            : '';
      if (slug === '') {
        kept.push(this.#data(source, item, at));
        told.mapped(at, `is a guardrail of ${name}`);
      } else if (this.#guardrails.has(slug)) {
        kept.push(writtenAs.slug(slug));
        told.mapped(at, `is the guardrail ${quoted(slug)}`);
      } else
        told.missing(
          at,
          `no record says what the guardrail ${quoted(slug)} is: write it under organisation.guardrails, and name it here`,
        );
    }
    if (kept.length > 0) written[name] = kept;
    if (Array.isArray(value) && value.length === 0) told.mapped(here, 'is empty');
  }

  /** Values as they are, with secrets as variables. */
  #data(source: Source, value: JsonValue, at: SourcePath): unknown {
    const values = this.#of(source);
    if (Array.isArray(value)) return value.map((item, index) => this.#data(source, item, [...at, index]));
    if (isJsonObject(value))
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => {
          const here = [...at, key];
          const isSecret = /(api_?key|secret|password|token)$/i.test(key) && typeof item === 'string';
          return [
            key,
            isSecret
              ? values.secret(here, item, writtenAs.variable(snakeCase(key)))
              : this.#data(source, item, here),
          ];
        }),
      );
    return typeof value === 'string' ? values.text(at, value) : value;
  }

  #of(source: Source): Values {
    const known = this.#values.get(source) ?? new Values(source, this.#report);
    this.#values.set(source, known);
    return known;
  }
}

/** True when the config, or each of its targets, says where requests go. */
function namesHost(config: JsonObject): boolean {
  const keys = new Set(Object.keys(config).map(snakeCase));
  if (['provider', 'virtual_key', 'custom_host', 'config'].some((key) => keys.has(key))) return true;
  const targets = config['targets'] ?? config['options'];
  return (
    Array.isArray(targets) &&
    targets.length > 0 &&
    targets.every((one) => namesHost(importSources.objectOf(one)))
  );
}

/** The provider of the table that the first word of a name stands for: `stability-prod` for `stability-ai`. */
function rowByWord(name: string): string | undefined {
  return providerNamesByLength.find((row) => {
    const [word = ''] = row.split('-');
    return word.length >= 4 && name.split(/[^a-z0-9]+/).includes(word);
  });
}

function snakeCase(name: string): string {
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replaceAll('OpenAI', 'OpenAi')
    .toLowerCase();
}
