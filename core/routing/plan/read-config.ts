// A config as it is written: its text, its issues, and the names that it uses.
import { parseJson, pointerSegments } from '../../base/json.ts';
import { maxNesting } from '../../config/parse-yaml.ts';
import { validateValue } from '../../config/validate-value.ts';
import type { Directory } from '../../ports/directory.ts';
import type { RecordPlace, StoredRecord } from '../../ports/records.ts';
import { type RouteConfigInput, RouteConfigSchema } from '../../organisation/route-config.ts';
import { didYouMean, quoted } from '../../base/did-you-mean.ts';
import { inProcessProvider } from '../../providers/provider-row.ts';
import type { LeafProvider } from './plan-node.ts';

/** A place in a config: `['targets', 1, 'provider']`. */
export type ConfigPlace = readonly (string | number)[];

/** A semantic issue of a config. */
export interface ConfigIssue {
  /** Readable place: `config.targets[1].provider`. */
  readonly path: string;
  /** Without a full stop. */
  readonly message: string;
  /** The same place for programs, without the leading `config`. */
  readonly place: ConfigPlace;
  /** Name of the referenced config that contains the issue; `place` is then the reference. */
  readonly within: string | undefined;
}

/** Upper bound of reported issues; a hostile config may have thousands. */
const maxIssues = 100;

/** Collects the issues of one config, at most 100. */
export class ConfigIssues {
  readonly found: ConfigIssue[] = [];

  add(place: ConfigPlace, message: string, within?: string): void {
    if (this.found.length < maxIssues)
      this.found.push({ path: placeText(place), message: message.replace(/\.$/, ''), place, within });
  }
}

const plainName = /^[A-Za-z_$][\w$-]*$/;

/** A place in readable form: `config.targets[1].metadata["a.b"]`. */
export function placeText(place: ConfigPlace): string {
  let text = 'config';
  for (const part of place) {
    if (typeof part === 'number') text += `[${part}]`;
    else text += plainName.test(part) ? `.${part}` : `[${JSON.stringify(part)}]`;
  }
  return text;
}

/** An inline config, or the issues of its text, keys and values. */
export type InlineConfig =
  | { readonly ok: true; readonly config: RouteConfigInput }
  | { readonly ok: false; readonly issues: readonly { readonly path: string; readonly message: string }[] };

/** Upper bound of an inline config, in bytes of UTF-8: 64 KiB. */
const maxBytes = 65_536;

/** Upper bound of evaluated schema errors, of keys and of values each. */
/** Number of values above which only the first error of a config is reported. */
const maxExplained = 2000;

/** Parses the inline config of a request. Its meaning is checked when it is compiled. Never throws. */
export function parseInlineConfig(text: string): InlineConfig {
  if (text.length > maxBytes || Buffer.byteLength(text) > maxBytes)
    return refused(`it is longer than ${maxBytes} bytes; define it under "configs" and send its name`);
  return readConfigObject(parseJson(text));
}

/** As `parseInlineConfig`, for a parsed value and without a bound of its size. */
export function readConfigObject(value: unknown): InlineConfig {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return refused('it is no JSON object; send one object with its quotes, commas and brackets in place');
  const values = countValues(value, maxNesting);
  if (values === undefined) return refused(`its lists and objects are nested more than ${maxNesting} deep`);
  const validated = validateValue(RouteConfigSchema, value, { most: values > maxExplained ? 1 : maxIssues });
  if (validated.issues.length === 0) return { ok: true, config: validated.value as RouteConfigInput };
  const issues = validated.issues.map(({ path, message }) => ({ path: placeText(placeOf(path)), message }));
  return { ok: false, issues };
}

function refused(message: string): InlineConfig {
  return { ok: false, issues: [{ path: 'config', message }] };
}

/** The place of a JSON pointer. Digits are an index, because no setting has a numeric name. */
function placeOf(pointer: string): (string | number)[] {
  return pointerSegments(pointer).map((segment) => (/^\d+$/.test(segment) ? Number(segment) : segment));
}

/** Number of values; undefined when one is too deep. Works level by level, so that no depth exhausts the stack. */
function countValues(value: unknown, maxDepth: number): number | undefined {
  let count = 1;
  let level = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) return undefined;
    level = level.flatMap((each) => {
      const members: unknown[] = typeof each === 'object' && each !== null ? Object.values(each) : [];
      count += members.length;
      return members.filter((member) => typeof member === 'object' && member !== null);
    });
  }
  return count;
}

/** In-memory source of saved configs and providers. */
export type SavedRecords = Pick<Directory, 'standing' | 'record' | 'records'>;

/** A saved config that another config refers to. */
export interface SavedConfig {
  readonly slug: string;
  /** Undefined for a config that is no longer valid; `problem` has the reason. */
  readonly input: RouteConfigInput | undefined;
  readonly problem?: string;
}

/** Saved configs that one workspace can use, and the guardrails that they can name. */
export interface SavedConfigs {
  /** By slug or id. */
  find(name: string): SavedConfig | undefined;
  /** For suggestions. */
  slugs(): Iterable<string>;
  /** By slug or id; else the message that it does not exist. */
  findGuardrail(name: string): GuardrailRecord | string;
}

/** Fields of a stored guardrail that determine its behaviour. */
export type GuardrailRecord = Pick<StoredRecord<'guardrail'>, 'id' | 'slug' | 'version' | 'data' | 'secrets'>;

/** The message for an unknown guardrail, with a suggestion. */
export function unknownGuardrail(name: string, slugs: Iterable<string>): string {
  const meant = didYouMean(name, slugs);
  const remedy =
    meant === undefined
      ? 'create it in the workspace, define it under "organisation.guardrails" in the configuration, or write its checks here'
      : `did you mean ${quoted(meant)}?`;
  return `there is no guardrail ${quoted(name)}; ${remedy}`;
}

/** Result of a look-up in the store; `record` is undefined when there is none. */
interface Use {
  readonly kind: 'config' | 'provider' | 'guardrail';
  readonly name: string;
  readonly record: StoredRecord | undefined;
}

/** Upper bound of names of each kind that are considered for suggestions. */
const maxOffered = 1000;

/** Parsed configs by their record. Records are immutable: a new version is a new object. */
const readConfigs = new WeakMap<StoredRecord<'config'>, InlineConfig>();

/** A saved config in the form of the schema; parsed once for each version of its record. */
export function configOfRecord(record: StoredRecord<'config'>): InlineConfig {
  let read = readConfigs.get(record);
  if (read === undefined) readConfigs.set(record, (read = readConfigObject(record.data.config)));
  return read;
}

/**
 * Look-up of one workspace's saved configs and providers, for the compilation of one config. It records its look-ups:
 * the compiled config is valid while they have the same results.
 */
export class SavedNames implements SavedConfigs, SavedProviders {
  readonly #records: SavedRecords;
  readonly #place: RecordPlace;
  readonly #uses: Use[] = [];

  constructor(records: SavedRecords, place: RecordPlace) {
    this.#records = records;
    this.#place = place;
  }

  /** True when there was no look-up. */
  get isUnused(): boolean {
    return this.#uses.length === 0;
  }

  /** Whether all look-ups still have the same results. */
  holds(): boolean {
    for (const { kind, name, record } of this.#uses)
      if (this.#records.record(kind, this.#place, name) !== record) return false;
    return true;
  }

  find(name: string): SavedConfig | undefined {
    const record = this.#records.record('config', this.#place, name);
    this.#uses.push({ kind: 'config', name, record });
    if (record === undefined) return undefined;
    const read = configOfRecord(record);
    if (read.ok) return { slug: record.slug, input: read.config };
    const [first] = read.issues;
    const problem = `the config "${record.slug}" is not valid any more: ${first?.path ?? 'config'}: ${first?.message ?? ''}`;
    return { slug: record.slug, input: undefined, problem };
  }

  slugs(): Iterable<string> {
    return slugsOf(this.#records.records('config', this.#place));
  }

  findGuardrail(name: string): GuardrailRecord | string {
    const record = this.#records.record('guardrail', this.#place, name);
    this.#uses.push({ kind: 'guardrail', name, record });
    return record ?? unknownGuardrail(name, slugsOf(this.#records.records('guardrail', this.#place)));
  }

  hasProvider(name: string): boolean {
    const record = this.#records.record('provider', this.#place, name);
    this.#uses.push({ kind: 'provider', name, record });
    return record !== undefined;
  }

  providerSlugs(): Iterable<string> {
    return slugsOf(this.#records.records('provider', this.#place));
  }
}

function slugsOf(records: readonly StoredRecord[]): readonly string[] {
  return records.slice(0, maxOffered).map(({ slug }) => slug);
}

/**
 * Undefined for a provider that exists, else the message that it does not, with a suggestion. `saved`: providers of a
 * store, which count like those of the configuration.
 */
export type KnowsProvider = (provider: LeafProvider, saved?: SavedProviders) => string | undefined;

/** Stored providers that one workspace can use. */
export interface SavedProviders {
  /** By slug or id. */
  hasProvider(name: string): boolean;
  /** For suggestions. */
  providerSlugs(): Iterable<string>;
}

/** Names of the providers of a configuration. */
interface ProviderNames {
  /** Rows of the provider table. */
  readonly builtIn: Iterable<string>;
  /** Names under `providers` in the configuration: only these, and `mock`, can be a virtual key or follow an `@`. */
  readonly configured: Iterable<string>;
}

/** Looks names up among the providers of one configuration. */
export function providerLookup(names: ProviderNames): KnowsProvider {
  const builtIn = new Set(names.builtIn);
  const configured = new Set(names.configured);
  if (builtIn.has(inProcessProvider)) configured.add(inProcessProvider);
  const all = new Set([...configured, ...builtIn]);
  return ({ name, kind }, saved) => {
    const isSlug = name.startsWith('@');
    const candidates = isSlug || kind === 'virtual-key' ? configured : all;
    const bare = isSlug ? name.slice(1) : name;
    if (candidates.has(bare)) return undefined;
    const maySave = candidates === configured;
    if (maySave && saved?.hasProvider(bare) === true) return undefined;
    const meant = didYouMean(
      bare,
      maySave && saved !== undefined ? [...candidates, ...saved.providerSlugs()] : candidates,
    );
    const what = kind === 'virtual-key' ? 'virtual key' : isSlug ? 'provider slug' : 'provider';
    const remedy =
      meant !== undefined
        ? `did you mean ${quoted(isSlug ? `@${meant}` : meant)}?`
        : maySave && saved !== undefined
          ? 'make a provider of that slug for the workspace, or define it under "providers" in the configuration'
          : 'define it under "providers" in the configuration';
    return `there is no ${what} ${quoted(name)}; ${remedy}`;
  };
}
