// With what a request begins: the default config of its key, and the guardrails beside those of its config.
import { RecentMap } from '../base/recent-map.ts';
import { parseJson, type JsonObject } from '../base/json.ts';
import { directoryBehind, GatewayError } from '../errors/gateway-error.ts';
import type { CheckPhase, Checks } from '../pipeline/plugin.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { ToolCall, ToolGuardrails } from '../pipeline/tool-calls.ts';
import { callerKey, ownRequest } from '../pipeline/keys.ts';
import type { Directory, DirectoryDefaults, KeyRecord } from '../ports/directory.ts';
import type { GuardrailSpec, GuardrailSpecs } from '../ports/guardrails.ts';
import type { DefaultGuardrails } from '../ports/organisation-settings.ts';
import type { RecordPlace, StoredRecord } from '../ports/records.ts';
import { SavedNames, type SavedRecords, placeText } from './plan/read-config.ts';
import { placeKey } from './plan/config-store.ts';
import { readGuardrails } from './plan/read-guardrails.ts';

/** Slug of the default config of the workspace, by its list of records. */
const defaultSlugs = new WeakMap<readonly StoredRecord<'config'>[], string>();

/** Source of the defaults of workspaces and organisations, and of saved configs. */
type Defaults = Pick<Directory, 'standing' | 'defaultsOf' | 'record' | 'records'>;

/** The configs with which requests of keys begin. */
export class DefaultConfigs {
  readonly #defaults: Defaults;

  constructor(defaults: Defaults) {
    this.#defaults = defaults;
  }

  /**
   * Name of the default config for requests of this key: the key's own, else that in the defaults of its workspace, else
   * the saved config with `isDefault` of the workspace, else that of the organisation.
   */
  of(key: KeyRecord | undefined): string | undefined {
    if (key === undefined) return undefined;
    const own = key.defaults?.configId;
    if (own !== undefined) return own;
    const { configId, own: ofWorkspace } = this.#defaults.defaultsOf(key.organisationId, key.workspaceId);
    if (ofWorkspace?.configId !== undefined) return configId;
    return defaultConfigSlug(this.#defaults.records('config', key), key.workspaceId) ?? configId;
  }

  /** The refusal of a request whose key forbids it to choose its config. */
  overrideDenied(key: KeyRecord): GatewayError {
    return new GatewayError(
      'config_override_denied',
      `The ${named(key)} does not let its requests bring a config of their own. Leave the config header out, or use a key that allows it (defaults.allow_config_override).`,
      { param: 'config' },
    );
  }

  /** The refusal of a request whose default config no longer exists. */
  missing(slug: string, key: KeyRecord): GatewayError {
    if (this.#defaults.standing() !== 'current') return directoryBehind(`config ${JSON.stringify(slug)}`);
    const owner = ownerOf(slug, key, this.#defaults);
    return new GatewayError(
      'config_unknown',
      `There is no config ${JSON.stringify(slug)}, with which requests of the ${owner} begin. Define it under "configs" in the configuration, name another one in the defaults of the ${owner} (config_id), or send a config with the request.`,
      { param: 'config' },
    );
  }
}

/** Slug of the workspace's default among its saved configs. The directory returns the same list until one changes. */
function defaultConfigSlug(
  records: readonly StoredRecord<'config'>[],
  workspaceId: string,
): string | undefined {
  if (records.length === 0) return undefined;
  let slug = defaultSlugs.get(records);
  if (slug === undefined) {
    const found = records.find((one) => one.data.isDefault && one.workspaceId === workspaceId);
    defaultSlugs.set(records, (slug = found?.slug ?? ''));
  }
  return slug === '' ? undefined : slug;
}

function ownerOf(slug: string, key: KeyRecord, defaults: Defaults): string {
  if (key.defaults?.configId === slug) return named(key);
  const { organisationId, workspaceId } = key;
  const isOrganisations = defaults.defaultsOf(organisationId, '').configId === slug;
  return isOrganisations ? `organisation ${organisationId}` : `workspace ${workspaceId}`;
}

function named({ name, isToken }: KeyRecord): string {
  return `${isToken === true ? 'token' : 'service key'} "${name}"`;
}

/** Upper bound of cached header values. */
const maxValues = 500;

/** Upper bound of a header value, in UTF-16 units. */
const maxLength = 16_384;

const maxGuardrails = 100;

const maxMistakes = 3;

interface Remembered {
  readonly specs: readonly GuardrailSpec[];
  readonly names: SavedNames;
}

/** Default guardrails with the look-ups that they depend on. */
interface RememberedDefaults {
  readonly guardrails: GuardrailSpecs | undefined;
  readonly names: readonly SavedNames[];
}

/** Source of stored guardrails, and of the defaults of organisations and workspaces. */
type GuardrailRecords = SavedRecords & Pick<Directory, 'defaultsOf'>;

/**
 * The guardrails of a request beside those of its config: first those of its organisation, then those of its workspace,
 * then those of its own headers such as `default-input-guardrails`.
 */
export class RequestGuardrails {
  readonly #checks: Checks | undefined;
  readonly #records: GuardrailRecords;
  readonly #known = new RecentMap<Remembered>(maxValues);
  /** By the object of the defaults, which the directory replaces when they change. */
  readonly #defaults = new WeakMap<DirectoryDefaults, RememberedDefaults>();
  /** By what the configuration gives a server, then by organisation. */
  readonly #ofServers = new WeakMap<ToolGuardrails, RecentMap<RememberedDefaults>>();

  constructor(checks: Checks | undefined, records: GuardrailRecords) {
    this.#checks = checks;
    this.#records = records;
  }

  /**
   * Undefined for none. Throws `invalid_header` with the header and its issues, `config_unknown` for a guardrail of the
   * organisation or workspace that cannot run.
   */
  of(exchange: Exchange): GuardrailSpecs | undefined {
    const byDefault = this.#byDefault(exchange.get(callerKey));
    const asking = exchange.guardrailHeaders;
    if (asking === undefined) return byDefault;
    const found: Record<CheckPhase, GuardrailSpec[]> = { input: [], output: [] };
    for (const { lower, service = lower } of asking) {
      const value = exchange.header(lower)?.trim() ?? '';
      if (value === '') continue;
      const phase = /(?:^|-)(?:output|after)-/.test(service) ? 'output' : 'input';
      found[phase].push(...this.#ofValue(service, value, { phase, place: placeOf(exchange) }));
    }
    return mergeSpecs(byDefault, found.input.length + found.output.length === 0 ? undefined : found);
  }

  /** Those of a call of an MCP tool, as `Router.toolGuardrails`. */
  ofTool(
    exchange: Exchange,
    { server, guardrails }: Pick<ToolCall, 'server' | 'guardrails'>,
  ): GuardrailSpecs | undefined {
    if (exchange.get(ownRequest) !== undefined) return undefined;
    const { organisationId } = placeOf(exchange);
    const own = guardrails && this.#ofServer(server, guardrails, organisationId);
    const specs = mergeSpecs(this.of(exchange), own);
    if (specs !== undefined && !exchange.pipeline.runsGuardrails) throw runsNone(exchange, 'mcp');
    return specs;
  }

  /** The reason why the guardrail of this name cannot run for requests in a place; undefined when it can. */
  unusable(name: string, phase: CheckPhase, place: RecordPlace): string | undefined {
    const mistakes: string[] = [];
    this.#read([name], phase, { names: new SavedNames(this.#records, place), mistakes });
    return mistakes[0];
  }

  #ofServer(server: string, written: ToolGuardrails, organisationId: string): GuardrailSpecs | undefined {
    const { input_guardrails: input = [], output_guardrails: output = [] } = written;
    if (input.length + output.length === 0) return undefined;
    let known = this.#ofServers.get(written);
    if (known === undefined) this.#ofServers.set(written, (known = new RecentMap(maxValues)));
    const remembered = known.touch(organisationId);
    if (remembered?.names.every((names) => names.holds()) === true) return remembered.guardrails;
    // The operator gives them: a workspace cannot override their names.
    const names = new SavedNames(this.#records, { organisationId });
    const mistakes: string[] = [];
    const find = (name: string) => names.findGuardrail(name);
    const read = (list: readonly (string | JsonObject)[], phase: CheckPhase) => {
      const place = `${server}.${phase}_guardrails`;
      const of = { phase, type: 'guardrail', place } as const;
      return readGuardrails(
        list,
        of,
        { checks: this.#checks, find },
        (_, message) => void mistakes.push(message),
      );
    };
    const guardrails = { input: read(input, 'input'), output: read(output, 'output') };
    if (mistakes.length > 0) throw this.#unusable(`the MCP server "${server}"`, 'settings', mistakes);
    known.set(organisationId, { guardrails, names: [names] });
    return guardrails;
  }

  #byDefault(key: KeyRecord | undefined): GuardrailSpecs | undefined {
    if (key === undefined) return undefined;
    const { organisationId, workspaceId } = key;
    const defaults = this.#records.defaultsOf(organisationId, workspaceId);
    if (defaults.organisationGuardrails === undefined && defaults.own?.guardrails === undefined)
      return undefined;
    let remembered = this.#defaults.get(defaults);
    if (remembered === undefined || !remembered.names.every((names) => names.holds())) {
      remembered = this.#readDefaults(defaults, { organisationId, workspaceId });
      this.#defaults.set(defaults, remembered);
    }
    return remembered.guardrails;
  }

  #readDefaults(
    { organisationGuardrails, own }: DirectoryDefaults,
    { organisationId, workspaceId }: Required<RecordPlace>,
  ): RememberedDefaults {
    // Names in the organisation's defaults are its own guardrails: a workspace cannot override them.
    const ofOrganisation = this.#ofDefaults(organisationGuardrails, { organisationId });
    const ofWorkspace = this.#ofDefaults(own?.guardrails, { organisationId, workspaceId });
    const guardrails = mergeSpecs(ofOrganisation.guardrails, ofWorkspace.guardrails);
    return { guardrails, names: [...ofOrganisation.names, ...ofWorkspace.names] };
  }

  #ofDefaults(named: DefaultGuardrails | undefined, place: RecordPlace): RememberedDefaults {
    if (named === undefined) return { guardrails: undefined, names: [] };
    const names = new SavedNames(this.#records, place);
    const mistakes: string[] = [];
    const guardrails = {
      input: this.#read(named.input, 'input', { names, mistakes }),
      output: this.#read(named.output, 'output', { names, mistakes }),
    };
    if (mistakes.length > 0)
      throw this.#unusable(
        place.workspaceId === undefined ? 'the organisation' : 'the workspace',
        'defaults',
        mistakes,
      );
    return { guardrails, names: [names] };
  }

  #read(
    list: readonly string[],
    phase: CheckPhase,
    { names, mistakes }: { readonly names: SavedNames; readonly mistakes: string[] },
  ): readonly GuardrailSpec[] {
    const find = (name: string) => names.findGuardrail(name);
    return readGuardrails(
      list,
      { phase, type: 'guardrail', place: 'defaults' },
      { checks: this.#checks, find },
      (_, message) => void mistakes.push(message),
    );
  }

  #unusable(owner: string, place: 'defaults' | 'settings', mistakes: readonly string[]): GatewayError {
    if (this.#records.standing() !== 'current') return directoryBehind(`guardrails of ${owner}`);
    return new GatewayError(
      'config_unknown',
      `A guardrail that judges every request of ${owner} cannot run, and no request passes without it: ${mistakes.slice(0, maxMistakes).join(' | ')}. Correct it, or take it out of the ${place} of ${owner}.`,
      { param: 'guardrails' },
    );
  }

  #ofValue(
    header: string,
    value: string,
    { phase, place }: { readonly phase: CheckPhase; readonly place: RecordPlace },
  ): readonly GuardrailSpec[] {
    const key = `${placeKey(place)} ${header} ${value}`;
    let remembered = this.#known.touch(key);
    if (remembered === undefined || !remembered.names.holds()) {
      const names = new SavedNames(this.#records, place);
      const type = header.includes('mutator') ? 'mutator' : 'guardrail';
      const mistakes: string[] = [];
      const find = (name: string) => names.findGuardrail(name);
      const specs = readGuardrails(
        listIn(header, value),
        { phase, type, place: header },
        { checks: this.#checks, find },
        (at, message) => void mistakes.push(`${placeText(at)}: ${message}`),
      );
      if (mistakes.length > 0) throw invalid(header, mistakes.slice(0, maxMistakes).join(' | '));
      this.#known.set(key, (remembered = { specs, names }));
    }
    return remembered.specs;
  }
}

function placeOf(exchange: Exchange): RecordPlace {
  const key = exchange.get(callerKey);
  return key === undefined ? { organisationId: '' } : key;
}

/** Parses a JSON list of slugs and guardrails, one JSON object, or comma-separated slugs. */
function listIn(header: string, value: string): readonly (string | JsonObject)[] {
  if (value.length > maxLength) throw invalid(header, `It may have ${maxLength} characters`);
  const isJson = value.startsWith('[') || value.startsWith('{');
  const parsed = isJson ? parseJson(value) : value.split(',').map((name) => name.trim());
  if (parsed === undefined) throw invalid(header, 'It is no valid JSON');
  const list: readonly unknown[] = Array.isArray(parsed) ? parsed : [parsed];
  if (list.length > maxGuardrails) throw invalid(header, `It may name ${maxGuardrails} guardrails`);
  if (list.every(isGuardrail)) return list;
  throw invalid(header, 'It must be a list of slugs, or of guardrails with their checks');
}

function isGuardrail(value: unknown): value is string | JsonObject {
  if (typeof value === 'string') return value !== '';
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(header: string, reason: string): GatewayError {
  return new GatewayError(
    'invalid_header',
    `The ${header.slice(0, 64)} header asks for guardrails that cannot run. ${reason}.`,
    { param: header.slice(0, 64) },
  );
}

/** Guardrails of an attempt: the request's own before those of its config; none for requests of the gateway itself. */
export function guardrailsOf({
  exchange,
  guardrails: second,
}: {
  readonly exchange: Exchange;
  readonly guardrails: GuardrailSpecs | undefined;
}): GuardrailSpecs | undefined {
  if (exchange.get(ownRequest) !== undefined) return undefined;
  return mergeSpecs(exchange.guardrails, second);
}

/** Why nothing passes in a pipeline that would run no guardrails; `before` is the plugin that they stand in front of. */
export function runsNone({ pipeline }: Exchange, before: 'provider' | 'mcp'): GatewayError {
  return new GatewayError(
    'not_supported',
    `This request asks for guardrails, and the pipeline "${pipeline.name}" runs none. Add the plugin "guardrails" to it, before "${before}".`,
    { param: 'guardrails' },
  );
}

function mergeSpecs(first: GuardrailSpecs | undefined, second: GuardrailSpecs | undefined) {
  if (first === undefined || second === undefined) return first ?? second;
  return { input: [...first.input, ...second.input], output: [...first.output, ...second.output] };
}
