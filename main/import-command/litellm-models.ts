// `model_list` of LiteLLM: each deployment becomes a target, and its host a provider.
import { didYouMean, quoted } from '../../core/base/did-you-mean.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/base/json.ts';
import {
  defaultAzureVersion,
  type Draft,
  type TargetDraft,
  type Values,
  type Written,
  writtenAs,
} from './draft.ts';
import { hostOfBareModel, type LiteLLMHost, liteLLMHosts, untranslatedHosts } from './litellm-hosts.ts';
import { litellmRemedies } from './litellm-remedies.ts';
import type { SourceReport } from './report.ts';
import { importSources, type Source, type SourcePath } from './source.ts';

/** What the parts of an import share. */
export interface ImportParts {
  readonly source: Source;
  readonly told: SourceReport;
  readonly values: Values;
  readonly draft: Draft;
}

/** One deployment of a group of models. */
export interface Deployment {
  /** Name of its group, which requests ask for; may hold a `*`. */
  readonly group: string;
  /** Without the model. */
  readonly target: TargetDraft;
  /** Model at the host; empty: that of the request. May hold a `*`. */
  readonly model: string;
  readonly weight: number;
  /** Deployments of a higher order are asked when those of a lower one fail. */
  readonly order: number;
  readonly tags: readonly string[];
  /** Retries of this deployment; undefined: those of the router. */
  readonly retries: number | undefined;
  readonly mode: string;
  /** Kind of its provider, by which prices are known. */
  readonly kind: string;
  /** What `model_info` says of it, for clients that ask. */
  readonly told: Written;
  readonly at: SourcePath;
}

/** Every deployment of `model_list` that the gateway can serve, in the order of the file. */
export function readDeployments(parts: ImportParts): Deployment[] {
  const root = isJsonObject(parts.source.value) ? parts.source.value : {};
  const list = root['model_list'];
  if (!Array.isArray(list)) {
    if (list !== undefined) parts.told.missing(['model_list'], 'is no list');
    return [];
  }
  const credentials = new Map<string, { readonly values: JsonObject; readonly at: SourcePath }>();
  const known = root['credential_list'];
  for (const [index, one] of (Array.isArray(known) ? known : []).entries()) {
    if (!isJsonObject(one) || !isJsonObject(one['credential_values'])) continue;
    const at = ['credential_list', index, 'credential_values'];
    credentials.set(importSources.textOf(one['credential_name']), { values: one['credential_values'], at });
    parts.told.mapped(['credential_list', index], 'is written into the providers that use it');
  }
  return list.flatMap(
    (item: unknown, index) => new DeploymentReader(parts, credentials, item, index).read() ?? [],
  );
}

class DeploymentReader {
  readonly #parts: ImportParts;
  readonly #told: SourceReport;
  readonly #at: SourcePath;
  readonly #item: JsonObject;
  readonly #params: JsonObject;
  /** Where each parameter stands: those of a named credential stand elsewhere. */
  readonly #places = new Map<string, SourcePath>();
  readonly #open: Set<string>;

  constructor(
    parts: ImportParts,
    credentials: ReadonlyMap<string, { readonly values: JsonObject; readonly at: SourcePath }>,
    item: unknown,
    index: number,
  ) {
    this.#parts = parts;
    this.#told = parts.told;
    this.#at = ['model_list', index];
    this.#item = isJsonObject(item) ? item : {};
    const own = isJsonObject(this.#item['litellm_params']) ? this.#item['litellm_params'] : {};
    const name = own['litellm_credential_name'];
    const credential = typeof name === 'string' ? credentials.get(name) : undefined;
    this.#params = { ...credential?.values, ...own };
    for (const key of Object.keys(credential?.values ?? {}))
      this.#places.set(key, [...(credential?.at ?? []), key]);
    for (const key of Object.keys(own)) this.#places.set(key, [...this.#at, 'litellm_params', key]);
    this.#open = new Set(Object.keys(this.#params));
    if (name !== undefined) {
      this.#open.delete('litellm_credential_name');
      const at = this.#place('litellm_credential_name');
      if (credential === undefined)
        this.#told.missing(at, 'names no credential of credential_list of this file');
      else this.#told.mapped(at, 'is written into the provider of the target');
    }
  }

  read(): Deployment | undefined {
    const group = this.#item['model_name'];
    const model = this.#params['model'];
    if (typeof group !== 'string' || typeof model !== 'string') {
      this.#told.missing(this.#at, 'has no model_name, or no litellm_params.model, and is left out');
      return undefined;
    }
    this.#open.delete('model');
    const found = this.#host(model);
    if (found === undefined) return undefined;
    const { host, hostName, upstream } = found;
    const slug = this.#provider(host, hostName);
    const target: TargetDraft = { provider: `@${slug}` };
    this.#told.mapped([...this.#at, 'model_name'], `is asked for as ${quoted(group)} (configs.litellm)`);
    this.#told.mapped(
      this.#place('model'),
      `is ${quoted(upstream || group)} at the provider ${quoted(slug)}`,
    );
    this.#info(target, host);
    const deployment = {
      ...{ group, target, model: upstream, at: this.#at },
      order:
        this.#number('order', (value) => `of order ${value}: asked when those of a lower order fail`) ?? 1,
      weight: this.#weight(),
      tags: this.#tags(),
      retries:
        this.#number('max_retries', (value) => `retries: ${value}`) ??
        this.#number('num_retries', (value) => `retries: ${value}`),
      mode: importSources.textOf(this.#infoOf('mode')),
      kind: host.row ?? slug,
      told: litellmRemedies.toldInfo(this.#item['model_info']),
    };
    this.#timeouts(target);
    this.#prices(host, upstream, slug);
    this.#defaults(target);
    for (const key of this.#open)
      this.#told.missing(
        this.#place(key),
        litellmRemedies.deployment[key] ?? 'is not known to the importer, and is left out',
      );
    return deployment;
  }

  /** The host of a model, and its name there; undefined with a line when the gateway cannot serve it. */
  #host(written: string): { host: LiteLLMHost; hostName: string; upstream: string } | undefined {
    const slash = written.indexOf('/');
    const prefix = slash === -1 ? '' : written.slice(0, slash);
    const custom = this.#take('custom_llm_provider');
    const named = typeof custom === 'string' ? custom : prefix;
    const host = liteLLMHosts.get(named);
    if (host !== undefined) {
      const rest = prefix === named ? written.slice(slash + 1) : written;
      if (custom !== undefined)
        this.#told.mapped(this.#place('custom_llm_provider'), 'is the provider of the target');
      return { host, hostName: named, upstream: this.#upstream(host, rest) };
    }
    const reason = untranslatedHosts.get(named);
    const at = this.#place('model');
    if (reason !== undefined) {
      this.#missingDeployment(`${reason}; the deployment is left out`);
      return undefined;
    }
    const bare = slash === -1 ? hostOfBareModel(written) : undefined;
    const base = this.#params['api_base'];
    if (bare === undefined && base === undefined && slash !== -1) {
      const meant = didYouMean(prefix, liteLLMHosts.keys());
      const hint = meant === undefined ? '' : ` (did it mean ${quoted(meant)}?)`;
      this.#missingDeployment(
        `the host ${quoted(prefix)} is not known${hint}: add a provider for it under "providers". The deployment is left out`,
      );
      return undefined;
    }
    if (bare === undefined && base === undefined)
      this.#told.changed(
        at,
        'names no host, which LiteLLM looks up in its map of models; it is taken for a model of OpenAI',
      );
    const hostName = bare ?? (base === undefined ? 'openai' : 'openai_like');
    return { host: liteLLMHosts.get(hostName) ?? { row: 'openai' }, hostName, upstream: written };
  }

  #missingDeployment(message: string): void {
    this.#told.missing(this.#at, message);
  }

  #upstream({ row }: LiteLLMHost, model: string): string {
    if (row !== 'bedrock') return model;
    return model.replace(/^(converse|invoke|converse_like)\//, '').replace(/^[a-z]{2}(-[a-z]+)+-\d\//, '');
  }

  /** The slug of the provider that these parameters describe. */
  #provider(host: LiteLLMHost, hostName: string): string {
    const { draft, values } = this.#parts;
    const { row } = host;
    const settings: Written = {};
    const prefix = writtenAs.variable(hostName);
    const copy = (key: string, field: string, suggested?: string): void => {
      const value = this.#take(key);
      if (value === undefined || value === null || value === '') return;
      const at = this.#place(key);
      settings[field] =
        suggested === undefined ? values.text(at, value) : values.secret(at, value, suggested);
      this.#told.mapped(at, `is ${field} of the provider`);
    };
    let wanted = row ?? hostName;
    const base = this.#address(host, hostName);
    if (base?.azureResource !== undefined) settings['azure_resource_name'] = base.azureResource;
    else if (base !== undefined) {
      settings['base_url'] = base.url;
      if (base.name !== undefined) wanted = base.name;
    }
    if (row === 'azure-openai') this.#azure(settings, copy);
    if (row === 'bedrock') this.#bedrock(settings, copy);
    if (row === 'vertex-ai') this.#vertex(settings, copy);
    if (row === 'workers-ai')
      settings['workers_ai_account_id'] = values.variable(this.#place('model'), 'CLOUDFLARE_ACCOUNT_ID');
    copy('organization', 'openai_organization');
    const hasOwnCredential =
      row === 'bedrock' ||
      row === 'vertex-ai' ||
      'azure_ad_token' in settings ||
      'azure_auth_mode' in settings;
    const keyName = base?.name === undefined ? host.key : undefined;
    copy('api_key', 'api_key', keyName ?? `${writtenAs.variable(base?.name ?? hostName)}_API_KEY`);
    if (settings['api_key'] === undefined && !hasOwnCredential) {
      if (host.key !== undefined) settings['api_key'] = values.variable(this.#place('model'), host.key);
      else settings['credentials'] = 'none';
    }
    for (const key of ['extra_headers', 'headers']) {
      const headers = this.#take(key);
      if (headers === undefined) continue;
      settings['headers'] = values.named(this.#place(key), headers, prefix);
      this.#told.mapped(this.#place(key), 'are headers of the provider');
    }
    const ownRow = base?.name === undefined ? row : row === 'openai' ? undefined : row;
    return draft.providerSlug(wanted, ownRow, settings);
  }

  #address(
    { row, base, address, suffix = '' }: LiteLLMHost,
    hostName: string,
  ): { url: string; name: string | undefined; azureResource?: string } | undefined {
    const { values } = this.#parts;
    const key =
      this.#params['api_base'] !== undefined
        ? 'api_base'
        : this.#params['base_url'] !== undefined
          ? 'base_url'
          : 'aws_bedrock_runtime_endpoint';
    const written = this.#take(key);
    if (typeof written !== 'string' || written === '') {
      const at = this.#place('model');
      if (
        base !== undefined &&
        (row === undefined ||
          row === 'azure-openai' ||
          row === 'databricks' ||
          row === 'azure-ai' ||
          row === 'snowflake-cortex')
      )
        return { url: values.variable(at, base) + suffix, name: row === undefined ? hostName : undefined };
      if (address === undefined) return undefined;
      return { url: address + suffix, name: row === undefined ? hostName : undefined };
    }
    const at = this.#place(key);
    const azure = /^https:\/\/([A-Za-z0-9-]{1,63})\.openai\.azure\.com(\/|$)/.exec(written);
    if (row === 'azure-openai' && azure?.[1] !== undefined) {
      this.#told.mapped(at, 'is azure_resource_name of the provider');
      return { url: '', name: undefined, azureResource: azure[1] };
    }
    const trimmed = written
      .replace(/\/+$/, '')
      .replace(/\/(chat\/completions|v1\/messages|openai\/deployments\/.*)$/, '');
    const text = values.address(at, trimmed, `${writtenAs.variable(hostName)}_API_BASE`);
    const isWhole = suffix === '' || trimmed.endsWith(suffix);
    this.#told.mapped(at, 'is base_url of the provider');
    if (text.startsWith('${') && !isWhole)
      this.#told.changed(at, `the variable is followed by ${quoted(suffix)}; it must not end with a slash`);
    const name =
      hostNameOf(trimmed) ?? (row === 'openai' || row === undefined ? `${hostName}-host` : undefined);
    return { url: isWhole ? text : text + suffix, name };
  }

  #azure(settings: Written, copy: (key: string, field: string, suggested?: string) => void): void {
    copy('api_version', 'azure_api_version');
    copy('azure_ad_token', 'azure_ad_token', 'AZURE_AD_TOKEN');
    copy('tenant_id', 'azure_entra_tenant_id');
    copy('client_id', 'azure_entra_client_id');
    copy('client_secret', 'azure_entra_client_secret', 'AZURE_CLIENT_SECRET');
    if ('azure_entra_client_secret' in settings) settings['azure_auth_mode'] = 'entra';
    if ('azure_api_version' in settings) return;
    settings['azure_api_version'] = this.#parts.values.variable(
      this.#place('model'),
      'AZURE_API_VERSION',
      defaultAzureVersion,
    );
    this.#told.changed(
      this.#place('model'),
      `no api_version: AZURE_API_VERSION, else ${defaultAzureVersion}, where LiteLLM has a default of its own`,
    );
  }

  #bedrock(settings: Written, copy: (key: string, field: string, suggested?: string) => void): void {
    copy('aws_access_key_id', 'aws_access_key_id', 'AWS_ACCESS_KEY_ID');
    copy('aws_secret_access_key', 'aws_secret_access_key', 'AWS_SECRET_ACCESS_KEY');
    copy('aws_session_token', 'aws_session_token', 'AWS_SESSION_TOKEN');
    copy('aws_region_name', 'aws_region');
    copy('aws_role_name', 'aws_role_arn');
    copy('aws_external_id', 'aws_external_id');
    settings['aws_region'] ??= this.#parts.values.variable(
      this.#place('model'),
      'AWS_REGION_NAME',
      'us-west-2',
    );
    if (!('aws_access_key_id' in settings) && this.#params['api_key'] === undefined)
      this.#told.changed(
        this.#place('model'),
        'no credential: that of the environment or machine of the gateway is used (AWS_ACCESS_KEY_ID …)',
      );
  }

  #vertex(settings: Written, copy: (key: string, field: string, suggested?: string) => void): void {
    const { values } = this.#parts;
    copy('vertex_project', 'vertex_project_id');
    copy('vertex_location', 'vertex_region');
    const at = this.#place('model');
    settings['vertex_project_id'] ??= values.variable(at, 'VERTEXAI_PROJECT');
    settings['vertex_region'] ??= values.variable(at, 'VERTEXAI_LOCATION', 'us-central1');
    const key = this.#take('vertex_credentials');
    if (key === undefined) {
      this.#told.changed(
        at,
        'no vertex_credentials: the identity of the machine of the gateway is used (GOOGLE_APPLICATION_CREDENTIALS …)',
      );
      return;
    }
    const place = this.#place('vertex_credentials');
    const isFile =
      typeof key === 'string' && !key.startsWith('os.environ/') && !key.trimStart().startsWith('{');
    settings['vertex_service_account_json'] = isFile
      ? `\${file:${key}}`
      : values.secret(place, key, 'VERTEX_SERVICE_ACCOUNT_JSON');
    if (isFile) this.#told.mapped(place, 'is the file of vertex_service_account_json');
    else this.#told.changed(place, 'the variable must hold the JSON of the key, not the path of a file');
  }

  #timeouts(target: TargetDraft): void {
    const timeout = this.#number('timeout', (value) => `request_timeout: ${value * 1000} ms`);
    if (timeout !== undefined) target['request_timeout'] = Math.round(timeout * 1000);
    const stream = this.#take('stream_timeout');
    if (typeof stream !== 'number') return;
    target['first_token_timeout'] = Math.max(1, Math.round(stream * 1000));
    this.#told.changed(
      this.#place('stream_timeout'),
      'bounds the time to the first token, of answers that are no streams too (first_token_timeout)',
    );
  }

  #weight(): number {
    const weight = this.#number('weight', (value) => `weight ${value}`);
    const rates = (['rpm', 'tpm'] as const).map((key) => {
      // Older files have them beside litellm_params.
      const beside = this.#item[key];
      const at = this.#params[key] === undefined ? [...this.#at, key] : this.#place(key);
      const value = this.#take(key) ?? beside;
      if (value === undefined) return undefined;
      this.#told.changed(
        at,
        `is the weight of the target among its neighbours, and no limit: a limit is rate_limits of a provider of organisation.providers`,
      );
      return typeof value === 'number' ? value : undefined;
    });
    return weight ?? rates[0] ?? rates[1] ?? 1;
  }

  #tags(): readonly string[] {
    const tags = this.#take('tags');
    return Array.isArray(tags) ? tags.map(importSources.textOf) : [];
  }

  /** `input_cost_per_token` and `output_cost_per_token`, in US dollars, are prices per million. */
  #prices(host: LiteLLMHost, model: string, slug: string): void {
    const price: Written = {};
    const fields = {
      input_cost_per_token: 'input',
      output_cost_per_token: 'output',
      cache_read_input_token_cost: 'cache_read',
      cache_creation_input_token_cost: 'cache_write',
    };
    for (const [key, field] of Object.entries(fields)) {
      const inParams = this.#take(key);
      const value = Number(inParams ?? this.#infoOf(key));
      if (!Number.isFinite(value)) continue;
      price[field] = Number((value * 1_000_000).toPrecision(12));
      const at = inParams === undefined ? [...this.#at, 'model_info', key] : this.#place(key);
      this.#told.mapped(at, `is a price per million tokens (prices.models)`);
    }
    if (Object.keys(price).length === 0 || model === '') return;
    if (price['input'] !== undefined && price['output'] === undefined && this.#infoOf('mode') !== 'embedding')
      this.#told.changed(
        this.#place('model'),
        'has a price for input alone, and then no other: write output beside it (prices.models)',
      );
    const provider = host.row ?? slug;
    const { prices } = this.#parts.draft;
    const isKnown = prices.some((one) => one['provider'] === provider && one['model'] === model);
    if (!isKnown) prices.push({ provider, model, input: 0, ...price });
  }

  #info(target: TargetDraft, { row }: LiteLLMHost): void {
    const info = this.#item['model_info'];
    if (!isJsonObject(info)) return;
    for (const [key, value] of Object.entries(info)) {
      const at = [...this.#at, 'model_info', key];
      if (key === 'id') {
        target['name'] = writtenAs.escaped(importSources.textOf(value)).slice(0, 255);
        this.#told.mapped(at, 'is the name of the target');
      } else if (key === 'base_model' && row === 'azure-openai') {
        target['azure_model_name'] = writtenAs.escaped(importSources.textOf(value));
        this.#told.mapped(at, 'is azure_model_name of the target, for prices and logs');
      } else if (key === 'mode') {
        if (value === 'audio_transcription')
          this.#told.changed(
            at,
            'uploads are not read: requests to /audio/transcriptions go to the first such deployment, with the model that the client wrote',
          );
        else this.#told.mapped(at, 'needs no setting: the path of a request says what it is');
      } else if (litellmRemedies.shownInfo.has(key) && Number.isInteger(value))
        this.#told.mapped(at, 'is told by GET /model/info');
      else if (!/cost/.test(key)) this.#told.missing(at, litellmRemedies.info(key));
    }
  }

  #defaults(target: TargetDraft): void {
    const defaults: Written = {};
    const body = this.#take('extra_body');
    if (isJsonObject(body)) {
      Object.assign(defaults, body);
      this.#told.mapped(this.#place('extra_body'), 'is default_params of the target');
    }
    for (const key of this.#open) {
      if (!litellmRemedies.requestParameters.has(key)) continue;
      defaults[key] = this.#take(key);
      this.#told.mapped(
        this.#place(key),
        'is default_params of the target: used where the request says nothing',
      );
    }
    if (Object.keys(defaults).length > 0) target['default_params'] = defaults;
  }

  #infoOf(key: string): JsonValue | undefined {
    const info = this.#item['model_info'];
    return isJsonObject(info) ? info[key] : undefined;
  }

  #number(key: string, told: (value: number) => string): number | undefined {
    const value = this.#take(key);
    if (value === undefined) return undefined;
    const at = this.#place(key);
    if (typeof value === 'number') {
      this.#told.mapped(at, told(value));
      return value;
    }
    this.#told.missing(at, 'is no number, and is left out');
    return undefined;
  }

  #take(key: string): JsonValue | undefined {
    this.#open.delete(key);
    return this.#params[key];
  }

  #place(key: string): SourcePath {
    return this.#places.get(key) ?? [...this.#at, 'litellm_params', key];
  }
}

/** A host as a name: `api.example.com` becomes `api-example-com`; undefined for a variable. */
function hostNameOf(address: string): string | undefined {
  try {
    return new URL(address).host.replaceAll(/[^A-Za-z0-9]+/g, '-');
  } catch {
    return undefined;
  }
}
