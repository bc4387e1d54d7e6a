import { didYouMean } from '../../base/did-you-mean.ts';
import { childPointer } from '../../base/json.ts';
import { boundedMessage, directoryBehind, GatewayError, withFullStop } from '../../errors/gateway-error.ts';
import { errorTable } from '../../errors/codes.ts';
import { withoutStore } from '../../organisation/without-store.ts';
import { RecentMap } from '../../base/recent-map.ts';
import type { RecordPlace, StoredRecord } from '../../ports/records.ts';
import type { RouteConfigInput } from '../../organisation/route-config.ts';
import type { Checks } from '../../pipeline/plugin.ts';
import type { ConfigDraft } from '../../pipeline/router.ts';
import { sha256 } from '../../base/bytes.ts';
import { compileConfig, type CompileSetup } from './compile-config.ts';
import { secretsInConfig } from './node-settings.ts';
import type { CompiledConfig } from './plan-node.ts';
import {
  configOfRecord,
  type KnowsProvider,
  type SavedConfigs,
  SavedNames,
  type SavedProviders,
  type SavedRecords,
  unknownGuardrail,
  type InlineConfig,
  parseInlineConfig,
} from './read-config.ts';

/**
 * Names in a config of the configuration that the configuration does not define. Each may belong to a saved record,
 * which is looked up when a request uses the config. Providers are assumed to exist; configs are not, because nothing
 * can be compiled without them.
 */
class LaterNames implements SavedConfigs, SavedProviders {
  /** Configs and guardrails. */
  readonly configs = new Set<string>();
  readonly providers = new Set<string>();

  find(name: string): undefined {
    this.configs.add(name);
  }

  slugs(): readonly string[] {
    return [];
  }

  findGuardrail(name: string): string {
    this.configs.add(name);
    return unknownGuardrail(name, []);
  }

  hasProvider(name: string): boolean {
    this.providers.add(name);
    return true;
  }

  providerSlugs(): readonly string[] {
    return [];
  }
}

/** Options of `ConfigStore`. */
interface ConfigStoreOptions {
  /** Configs of the configuration by name, validated. */
  readonly configs: Readonly<Record<string, RouteConfigInput>>;
  /** The providers that targets may name: `providerLookup`. */
  readonly knowsProvider: KnowsProvider;
  /** As in `CompileSetup`. */
  readonly servicePrefixes?: readonly string[];
  /** As in `CompileSetup`. */
  readonly checks?: Checks | undefined;
  /** Source of saved configs and providers. Default: none. */
  readonly saved?: SavedRecords;
}

/** Upper bound of cached inline configs, each of 64 KiB at the most. */
const maxTexts = 500;
/** Upper bounds of the issues that an answer lists, and that its message names. */
const maxListed = 20;
const maxNamed = 3;
/** Upper bound of the name of a config in a message. */
const maxShown = 200;

type Issues = readonly { readonly path: string; readonly message: string }[];
type Compiled = { readonly config: CompiledConfig } | { readonly issues: Issues };
/** A compiled config with the look-ups that it depends on. */
interface Remembered {
  readonly compiled: Compiled;
  readonly names: SavedNames;
}

/**
 * The configs of one generation: configs of the configuration by name, saved ones by slug or id, and inline ones of
 * requests. Saved ones belong to a `place`; without a place there are none.
 */
export class ConfigStore {
  readonly #setup: Omit<CompileSetup, 'id' | 'slug' | 'version' | 'saved' | 'isSaved'>;
  readonly #records: SavedRecords;
  readonly #compiled = new Map<string, CompiledConfig>();
  /** Configs of the configuration that refer to saved configs, whose meaning depends on the workspace. */
  readonly #open = new Map<string, RouteConfigInput>();
  readonly #saved = new WeakMap<StoredRecord<'config'>, Remembered>();
  /** Saved configs of the organisation, compiled by workspace. */
  readonly #shared = new WeakMap<StoredRecord<'config'>, RecentMap<Remembered>>();
  /** Inline configs by text; refusals too, because clients resend an invalid config. Null: it depends on the workspace. */
  readonly #inline = new RecentMap<Compiled | null>(maxTexts);
  /** Inline configs that name saved records, by workspace and text. */
  readonly #placed = new RecentMap<Remembered>(maxTexts);

  /** Throws an `Error` for an invalid config, which `checkConfigs` has reported before. */
  constructor(options: ConfigStoreOptions) {
    const { configs, knowsProvider, servicePrefixes = [], saved = withoutStore, checks } = options;
    const byName = new Map(Object.entries(configs));
    this.#setup = { configs: byName, knowsProvider, servicePrefixes, checks };
    this.#records = saved;
    for (const [slug, input] of byName) {
      const names = new LaterNames();
      const result = compileConfig(input, {
        ...this.#setup,
        id: slug,
        slug,
        saved: names,
        knowsProvider: (provider) => knowsProvider(provider, names),
      });
      if (result.ok) this.#compiled.set(slug, result.config);
      else if (names.configs.size > 0) this.#open.set(slug, input);
      else throw new Error(`The config "${slug}" is not valid. ${sentence(result.issues)}`);
    }
  }

  /** The config of this name, if there is one. Throws `invalid_config` for a saved one that is no longer valid. */
  find(slug: string, place?: RecordPlace): CompiledConfig | undefined {
    const own = this.#compiled.get(slug);
    if (own !== undefined) return own;
    const input = this.#open.get(slug);
    if (input !== undefined) return this.#ofOpen(slug, input, place);
    if (place === undefined) return undefined;
    const record = this.#records.record('config', place, slug);
    return record === undefined ? undefined : this.#ofRecord(record, place);
  }

  /** Throws `config_unknown` for an unknown name, `store_unavailable` while the store cannot confirm that. */
  bySlug(slug: string, place?: RecordPlace): CompiledConfig {
    const found = this.find(slug, place);
    if (found !== undefined) return found;
    if (place !== undefined && this.#records.standing() !== 'current')
      throw directoryBehind(`config ${JSON.stringify(slug.slice(0, maxShown))}`);
    const message = this.missing(slug, place) ?? '';
    throw new GatewayError('config_unknown', message, {
      param: 'config',
      extra: { errors: listed('config_unknown', [{ path: 'config', message }]) },
    });
  }

  /** The message that no config has this name; undefined when one exists, valid or not. */
  missing(slug: string, place?: RecordPlace): string | undefined {
    if (this.#compiled.has(slug) || this.#open.has(slug)) return undefined;
    if (place !== undefined && this.#records.record('config', place, slug) !== undefined) return undefined;
    const saved = place === undefined ? [] : new SavedNames(this.#records, place).slugs();
    const meant = didYouMean(slug, [...this.#compiled.keys(), ...this.#open.keys(), ...saved]);
    return (
      `There is no config ${JSON.stringify(slug.slice(0, maxShown))}.` +
      (meant === undefined ? '' : ` Did you mean "${meant}"?`) +
      (place === undefined ? ' Define' : ' Save it in the workspace of the key, define') +
      ' it under "configs" in the configuration, or send the config itself as JSON.'
    );
  }

  /** The config of this JSON text; compiled once per text. Throws `invalid_config` with all issues. */
  inline(text: string, place?: RecordPlace): CompiledConfig {
    const compiled = this.#inline.touch(text) ?? this.#ofText(text, place);
    if ('config' in compiled) return compiled.config;
    throw refusal('The config is not valid.', compiled.issues);
  }

  /** The config of a draft. Throws `invalid_config`, with pointers into the body, for one that cannot be saved. */
  check({ text, slug, place }: ConfigDraft): CompiledConfig {
    const parsed = parseInlineConfig(text);
    const names = new SavedNames(this.#records, place);
    const compiled = this.#compile(parsed, { id: slug, slug, isSaved: true, names });
    const issues = [
      ...(parsed.ok ? secretsInConfig(parsed.config) : []),
      ...('issues' in compiled ? compiled.issues : []),
    ];
    if ('config' in compiled && issues.length === 0) return compiled.config;
    throw new GatewayError('invalid_config', `The config is not valid. ${sentence(issues)}`, {
      param: '/config',
      extra: {
        errors: issues
          .slice(0, maxListed)
          .map(({ path: place, message }) => ({ path: pointerOf(place), message })),
      },
    });
  }

  #ofRecord(record: StoredRecord<'config'>, place: RecordPlace): CompiledConfig {
    const { id, slug, version } = record;
    // In a config of the organisation, names refer to the records of each workspace.
    if (record.workspaceId === undefined) {
      let known = this.#shared.get(record);
      if (known === undefined) this.#shared.set(record, (known = new RecentMap(maxTexts)));
      const key = `${id} ${placeKey(place)}`;
      const compiled = this.#inPlace({ known, key, place }, (names) =>
        this.#compile(configOfRecord(record), { id: key, slug, version, isSaved: true, names }),
      );
      return compiledOf(compiled, `The config "${slug}" cannot be used in this workspace.`);
    }
    let remembered = this.#saved.get(record);
    if (remembered === undefined || !remembered.names.holds()) {
      // Names refer to its own place, not to that of the request: it means the same for all of its users.
      const names = new SavedNames(this.#records, record);
      const compiled = this.#compile(configOfRecord(record), { id, slug, version, isSaved: true, names });
      this.#saved.set(record, (remembered = { compiled, names }));
    }
    return compiledOf(remembered.compiled, `The saved config "${slug}" is not valid any more.`);
  }

  #ofOpen(slug: string, input: RouteConfigInput, place: RecordPlace | undefined): CompiledConfig {
    const key = `${slug} ${placeKey(place)}`;
    const compiled = this.#inPlace({ known: this.#placed, key, place }, (names) =>
      this.#compile({ ok: true, config: input }, { id: key, slug, isSaved: false, names }),
    );
    return compiledOf(compiled, `The config "${slug}" cannot be used in this workspace.`);
  }

  /** The config compiled for one workspace; cached while its look-ups there have the same results. */
  #inPlace({ known, key, place }: InPlace, compile: (names: SavedNames) => Compiled): Compiled {
    let remembered = known.touch(key);
    if (remembered === undefined || !remembered.names.holds()) {
      const names = place === undefined ? noNames() : new SavedNames(this.#records, place);
      known.set(key, (remembered = { compiled: compile(names), names }));
    }
    return remembered.compiled;
  }

  #ofText(text: string, place: RecordPlace | undefined): Compiled {
    if (this.#inline.get(text) === undefined) {
      const { compiled, names } = this.#compileText(text, text, place);
      this.#inline.set(text, names.isUnused ? compiled : null);
      if (names.isUnused) return compiled;
    }
    // The state of its targets (breakers, turns) also belongs to this workspace alone.
    const key = place === undefined ? text : `${placeKey(place)} ${text}`;
    let remembered = this.#placed.touch(key);
    if (remembered === undefined || !remembered.names.holds())
      this.#placed.set(key, (remembered = this.#compileText(text, key, place)));
    return remembered.compiled;
  }

  #compileText(text: string, key: string, place: RecordPlace | undefined): Remembered {
    const names = place === undefined ? noNames() : new SavedNames(this.#records, place);
    const id = `inline:${sha256(key, 'base64url')}`;
    const compiled = this.#compile(parseInlineConfig(text), { id, slug: undefined, isSaved: false, names });
    return { compiled, names };
  }

  #compile(parsed: InlineConfig, { names, ...own }: CompilingSaved): Compiled {
    if (!parsed.ok) return { issues: parsed.issues };
    const { knowsProvider } = this.#setup;
    const result = compileConfig(parsed.config, {
      ...this.#setup,
      ...own,
      saved: names,
      knowsProvider: (provider) => knowsProvider(provider, names),
    });
    return result.ok ? { config: result.config } : { issues: result.issues };
  }
}

/** Cache slot of a config that is compiled for one workspace. */
interface InPlace {
  readonly known: RecentMap<Remembered>;
  readonly key: string;
  readonly place: RecordPlace | undefined;
}

/** Cache key of a workspace. */
export function placeKey(place: RecordPlace | undefined): string {
  return place === undefined ? '' : `${place.organisationId}/${place.workspaceId ?? ''}`;
}

/** The compiled config. Throws `invalid_config` with `head` and the issues. */
function compiledOf(compiled: Compiled, head: string): CompiledConfig {
  if ('config' in compiled) return compiled.config;
  throw refusal(head, compiled.issues);
}

/** Look-up for a request without a key: it finds nothing. */
function noNames(): SavedNames {
  return new SavedNames(withoutStore, { organisationId: '' });
}

/** Options for the compilation of a config that may refer to saved records. */
interface CompilingSaved extends Pick<CompileSetup, 'id' | 'slug' | 'version' | 'isSaved'> {
  readonly names: SavedNames;
}

function refusal(head: string, issues: Issues): GatewayError {
  return new GatewayError('invalid_config', `${head} ${sentence(issues)}`, {
    param: 'config',
    extra: { errors: listed('invalid_config', issues) },
  });
}

const placeParts = /\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|([\w$-]+)/g;

/** `config.targets[0].retry` as a JSON pointer into the body: `/config/targets/0/retry`. */
function pointerOf(place: string): string {
  return [...place.matchAll(placeParts)]
    .map(([, index, quoted, plain]) => index ?? quoted ?? plain ?? '')
    .reduce<string>(childPointer, '');
}

/** The first issues as a sentence: `config.targets[0].provider: there is no …`. */
function sentence(issues: Issues): string {
  const named = issues.slice(0, maxNamed).map(({ path, message }) => `${path}: ${message}`);
  const rest = issues.length - named.length;
  return withFullStop(`${named.join(' | ')}${rest === 0 ? '' : ` | and ${rest} more`}`);
}

/** The issues as a list, in the format of existing clients. */
function listed(code: 'invalid_config' | 'config_unknown', issues: Issues): string[] {
  const head = errorTable[code].admin;
  return issues
    .slice(0, maxListed)
    .map(({ path, message }) => boundedMessage(`${head}: path: ${path}, message: ${message}`));
}
