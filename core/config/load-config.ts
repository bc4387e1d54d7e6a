import type { Static } from 'typebox';
import { type CheckedValue, checkValue } from './check-value.ts';
import { type ConfigNode, type MapEntry, nodeValue, type Origin, type ScalarNode } from './config-node.ts';
import { type ConfigSource, createSource, digestOf } from './config-source.ts';
import { gatherConfig } from './include.ts';
import { childPointer, isJsonObject } from '../base/json.ts';
import { splitPluginEntries } from './plugin-entries.ts';
import { arrangeProblems, isError, type Problem, problemAtNode } from './problem.ts';
import { type ReadFile, type ReadResult, readText } from './read-file.ts';
import { type GatewayConfig, GatewayConfigSchema } from './schema.ts';
import type { OtlpSettings, TelemetrySettings } from '../base/trace-context.ts';
import type { Telemetry } from './telemetry-schema.ts';
import { dirname, isAbsolute, resolve } from 'node:path';
import { percentDecoded } from '../base/bytes.ts';

/** Largest `${file:…}` input, in bytes: secrets and certificates. */
const maxInputFileBytes = 65_536;

/** `telemetry:` after the schema: members without a default may be absent. */
type WrittenTelemetry = Static<typeof Telemetry>;

type Environment = Readonly<Record<string, string | undefined>>;

/** Settings in use, and mistakes in the environment variables, as sentences. */
interface ResolvedTelemetry {
  readonly settings: TelemetrySettings;
  readonly warnings: readonly string[];
}

const signalPath = '/v1/traces';
const none = { labels: [], max_label_values: 50 };

/**
 * Completes the file's settings from the variables that OpenTelemetry defines: endpoint and headers (those for traces
 * before the general ones), service name, resource attributes. An unusable value is left out and reported.
 */
export function resolveTelemetry(written: WrittenTelemetry, env: Environment): ResolvedTelemetry {
  const warnings: string[] = [];
  const { propagate = false, otlp = {}, metrics = {} } = written;
  const url = otlp.url === undefined ? endpointOf(env, warnings) : withSignalPath(otlp.url);
  return {
    settings: {
      propagate,
      otlp: url === undefined ? undefined : { ...settingsOf(otlp, env, warnings), url },
      metrics: { ...none, ...metrics },
    },
    warnings,
  };
}

function settingsOf(
  otlp: NonNullable<WrittenTelemetry['otlp']>,
  env: Environment,
  warnings: string[],
): Omit<OtlpSettings, 'url'> {
  const resource = pairs(env, ['OTEL_RESOURCE_ATTRIBUTES'], warnings);
  const { 'service.name': named, ...others } = resource;
  return {
    headers:
      otlp.headers ??
      pairs(env, ['OTEL_EXPORTER_OTLP_TRACES_HEADERS', 'OTEL_EXPORTER_OTLP_HEADERS'], warnings),
    service_name: otlp.service_name ?? (env['OTEL_SERVICE_NAME'] || named || 'weir'),
    resource: others,
    sample_ratio: otlp.sample_ratio ?? 1,
    content: otlp.content ?? false,
    timeout_ms: otlp.timeout_ms ?? 10_000,
    queue: otlp.queue ?? 4096,
  };
}

/** Endpoint from the variables; undefined when they name none, switch traces off, or name an unusable one. */
function endpointOf(env: Environment, warnings: string[]): string | undefined {
  const own = env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'];
  const name = own ? 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT' : 'OTEL_EXPORTER_OTLP_ENDPOINT';
  const text = env[name];
  if (!text || env['OTEL_SDK_DISABLED'] === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none')
    return undefined;
  const protocol = env['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] || env['OTEL_EXPORTER_OTLP_PROTOCOL'];
  if (protocol === 'grpc') {
    warnings.push(
      `no spans are sent to ${name}: its protocol is grpc, and the gateway speaks OTLP over HTTP; set telemetry.otlp.url to the collector's HTTP port (4318 as a rule)`,
    );
    return undefined;
  }
  if (!/^https?:\/\/[^\s/?#@]+(\/[^\s?#]*)?$/.test(text)) {
    warnings.push(
      `no spans are sent: ${name} is no http or https address without user and query; correct it or set telemetry.otlp.url`,
    );
    return undefined;
  }
  // The standard takes this one verbatim.
  return own ? text : withSignalPath(text);
}

function withSignalPath(url: string): string {
  const base = url.replace(/\/+$/, '');
  return base.endsWith(signalPath) ? base : base + signalPath;
}

/** `key=value,key=value` of the first variable that is set, values percent-decoded. */
function pairs(env: Environment, names: readonly string[], warnings: string[]): Record<string, string> {
  const name = names.find((one) => env[one]);
  const found: Record<string, string> = {};
  if (name === undefined) return found;
  for (const item of (env[name] as string).split(',')) {
    if (item.trim() === '') continue;
    const at = item.indexOf('=');
    const key = item.slice(0, at).trim();
    const value = percentDecoded(item.slice(at + 1).trim());
    // Never quotes the item: it may hold a credential.
    if (at === -1 || value === undefined || !/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(key))
      warnings.push(`a part of ${name} is left out: it is no key=value with a percent-encoded value`);
    else found[key] = value;
  }
  return found;
}

/** Options of loading, apart from the name of the file. */
interface LoadOptions {
  /** Source of `${NAME}`. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Reads one file by absolute name. Default: from disk, bounded. Include patterns always search the disk. */
  readonly readFile?: ReadFile;
}

/** A configuration ready for use, or all its problems, in file order. */
export type LoadResult =
  | {
      readonly ok: true;
      readonly config: GatewayConfig;
      readonly source: ConfigSource;
      readonly warnings: Problem[];
    }
  | {
      readonly ok: false;
      readonly problems: Problem[];
      /** Entries to watch for a correction; as in `ConfigSource`. */
      readonly files: readonly string[];
      /** Present when the shape of the pipelines is valid: their plugins and configs can be checked nevertheless. */
      readonly draft?: ConfigDraft;
    };

/** Part of an invalid configuration that can still be checked. */
export interface ConfigDraft {
  /** Without configs, or without `organisation`, when its shape is invalid. */
  readonly config: Pick<GatewayConfig, 'pipelines' | 'providers' | 'configs' | 'organisation'> &
    Partial<Pick<GatewayConfig, 'storage'>>;
  readonly source: ConfigSource;
}

/** The value after defaults: optional members with a default are present. */
type Filled = Omit<GatewayConfig, 'pipelines' | 'telemetry'> & {
  readonly telemetry: WrittenTelemetry;
} & Pick<Static<typeof GatewayConfigSchema>, 'pipelines'>;

/**
 * Reads a configuration file with all its includes, replaces variables, validates everything except the plugins' own
 * options (`validateOptions` does), and fills in defaults. Never throws: every mistake is a problem with its place.
 * Messages never quote values from variables.
 */
export async function loadConfig(file: string, { env, readFile }: LoadOptions): Promise<LoadResult> {
  const gathered = await gatherConfig(file, readFile);
  const fileNames = gathered.read.map(({ name }) => name);
  if (gathered.root === undefined)
    return {
      ok: false,
      problems: arrangeProblems(gathered.problems, fileNames),
      files: [...gathered.wanted, ...gathered.globs],
    };
  const interpolated = await interpolate(gathered.root, { env, readFile });
  const files = [...new Set([...gathered.wanted, ...interpolated.inputs, ...gathered.globs])];
  const source = createSource(interpolated.root, { files, digest: digestOf(gathered.read) });
  const written = nodeValue(interpolated.root);
  const checked = checkValue(GatewayConfigSchema, written, { pointer: '', source, isSlim: true });
  const plugins = splitPipelines(checked.value, source);
  const problems = arrangeProblems(
    [...gathered.problems, ...interpolated.problems, ...checked.problems, ...plugins.problems],
    fileNames,
  );
  const filled = checked.value as Filled;
  const pipelines = (): GatewayConfig['pipelines'] =>
    filled.pipelines.map(({ name, match }, index) => ({
      name,
      match,
      plugins: plugins.entries[index] ?? [],
    }));
  if (problems.some(isError)) {
    const isShaped =
      Array.isArray(membersOf(checked.value, 'pipelines')) &&
      !checked.problems.some(({ path }) => path.startsWith('/pipelines'));
    return {
      ok: false,
      problems,
      files,
      ...(isShaped && { draft: { config: { pipelines: pipelines(), ...routes(checked) }, source } }),
    };
  }
  const { settings: telemetry, warnings } = resolveTelemetry(filled.telemetry, env);
  const told = warnings.map((message): Problem => {
    return { file, line: 0, column: 0, path: '/telemetry/otlp', message, severity: 'warning' };
  });
  const config = { ...filled, telemetry, pipelines: pipelines() };
  return { ok: true, config, source, warnings: [...problems, ...told, ...inactiveAlerts(config, source)] };
}

/** Alerts need jobs and recipients, which only gateways with a store have. */
function inactiveAlerts({ alerts, storage }: GatewayConfig, source: ConfigSource): Problem[] {
  const isTold = alerts.smtp !== undefined || alerts.webhooks.length > 0;
  if (!isTold || storage.resources.url !== 'none:') return [];
  const message = '"alerts": nobody is told, because storage.resources.url is "none:"; name a store there';
  return [{ ...source.locate('/alerts', 'key'), path: '/alerts', message, severity: 'warning' }];
}

/** Configs and `organisation`, when their own shape is valid, and the providers that configs may name, valid or not. */
function routes({ value, problems }: CheckedValue): Omit<ConfigDraft['config'], 'pipelines'> {
  const { providers, configs, organisation, storage } = value as Partial<GatewayConfig>;
  const isSound = (section: unknown, pointer: string): boolean =>
    isJsonObject(section) && !problems.some(({ path }) => path.startsWith(pointer));
  return {
    providers: isJsonObject(providers) ? providers : {},
    configs: configs !== undefined && isSound(configs, '/configs') ? configs : {},
    ...(storage !== undefined && isSound(storage, '/storage') && { storage }),
    ...(organisation !== undefined &&
      isSound(configs, '/configs') &&
      isSound(organisation, '/organisation') && { organisation }),
  };
}

/** Plugin entries of every pipeline, as far as a possibly invalid value shows them. */
function splitPipelines(
  value: unknown,
  source: ConfigSource,
): { entries: ReturnType<typeof splitPluginEntries>['entries'][]; problems: Problem[] } {
  const pipelines = membersOf(value, 'pipelines');
  const split = (Array.isArray(pipelines) ? pipelines : []).map((pipeline: unknown, index) => {
    const plugins = membersOf(pipeline, 'plugins');
    const pointer = `${childPointer('/pipelines', index)}/plugins`;
    return splitPluginEntries(Array.isArray(plugins) ? plugins : [], pointer, source);
  });
  return {
    entries: split.map(({ entries }) => entries),
    problems: split.flatMap(({ problems }) => problems),
  };
}

function membersOf(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null
    ? Object.entries(value).find(([name]) => name === key)?.[1]
    : undefined;
}

/** A piece of a text with placeholders. */
export type TemplatePart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'variable'; readonly name: string; readonly fallback: string | undefined }
  | { readonly kind: 'file'; readonly path: string };

/** Pieces of a text, or a sentence about its mistake. The sentence never quotes the text. */
type Template =
  | { readonly ok: true; readonly parts: readonly TemplatePart[] }
  | { readonly ok: false; readonly message: string };

const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/;
const opening = /\$\$\{|\$\{/g;

const escapeHint = 'write "$${" where the characters "${" themselves are meant';

function parsePlaceholder(inside: string): TemplatePart | string {
  if (inside.includes('${')) return 'a placeholder cannot hold another one; use one variable';
  if (inside.startsWith('file:')) {
    const path = inside.slice('file:'.length).trim();
    return path === '' ? '"${file:}" names no file; write ${file:PATH}' : { kind: 'file', path };
  }
  const separator = inside.indexOf(':-');
  const name = separator === -1 ? inside : inside.slice(0, separator);
  if (!variableName.test(name))
    return `"\${…}" must hold NAME, NAME:-default or file:PATH, where NAME is an environment variable; ${escapeHint}`;
  return { kind: 'variable', name, fallback: separator === -1 ? undefined : inside.slice(separator + 2) };
}

/**
 * Splits a text at its placeholders: `${NAME}`, `${NAME:-default}`, `${file:PATH}`; `$${` is a literal `${`. A text
 * without `${` is one piece.
 */
export function parseTemplate(text: string): Template {
  const parts: TemplatePart[] = [];
  let literal = '';
  let position = 0;
  const flush = (): void => {
    if (literal !== '') parts.push({ kind: 'text', text: literal });
    literal = '';
  };
  for (;;) {
    opening.lastIndex = position;
    const found = opening.exec(text);
    if (found === null) break;
    literal += text.slice(position, found.index);
    position = found.index + found[0].length;
    if (found[0] === '$${') {
      literal += '${';
      continue;
    }
    const end = text.indexOf('}', position);
    if (end === -1)
      return { ok: false, message: `a "\${" in this value has no "}"; add it, or ${escapeHint}` };
    const part = parsePlaceholder(text.slice(position, end));
    if (typeof part === 'string') return { ok: false, message: part };
    flush();
    parts.push(part);
    position = end + 1;
  }
  literal += text.slice(position);
  flush();
  return { ok: true, parts };
}

/** Sources of placeholder values. */
interface InterpolationInput {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly readFile?: ReadFile | undefined;
}

/** The tree with its placeholders replaced. */
interface Interpolated {
  readonly root: ConfigNode;
  readonly problems: readonly Problem[];
  /** Absolute names of the `${file:…}` inputs, including unreadable ones. */
  readonly inputs: readonly string[];
}

/**
 * Replaces `${…}` in the texts of a parsed tree, never in the YAML itself: the content of a variable cannot become
 * structure. Numbers stay text here; validation converts `${PORT}` to a number where the schema asks for one.
 */
async function interpolate(root: ConfigNode, input: InterpolationInput): Promise<Interpolated> {
  const interpolation = new Interpolation(input);
  const replaced = await interpolation.node(root, '');
  return { root: replaced, problems: interpolation.problems, inputs: [...interpolation.files.keys()] };
}

/** Value of one placeholder, or a sentence with the reason why it has none. */
type Resolved = { readonly text: string } | { readonly message: string };

class Interpolation {
  readonly problems: Problem[] = [];
  readonly files = new Map<string, Promise<ReadResult>>();
  readonly #input: InterpolationInput;

  constructor(input: InterpolationInput) {
    this.#input = input;
  }

  async node(node: ConfigNode, pointer: string): Promise<ConfigNode> {
    if (node.kind === 'scalar')
      return typeof node.value === 'string' && node.value.includes('${')
        ? this.#scalar(node, node.value, pointer)
        : node;
    if (node.kind === 'list') {
      const items: ConfigNode[] = [];
      for (const [index, item] of node.items.entries())
        items.push(await this.node(item, childPointer(pointer, index)));
      return { ...node, items };
    }
    const entries = new Map<string, MapEntry>();
    for (const [key, entry] of node.entries) {
      const path = childPointer(pointer, key);
      if (key.includes('${'))
        this.problems.push(
          problemAtNode(entry.key, path, 'variables are not replaced in keys; write the key itself'),
        );
      entries.set(key, { key: entry.key, node: await this.node(entry.node, path) });
    }
    return { ...node, entries };
  }

  async #scalar(node: ScalarNode, text: string, pointer: string): Promise<ScalarNode> {
    const template = parseTemplate(text);
    if (!template.ok) {
      this.problems.push(problemAtNode(node.place, pointer, template.message));
      return { ...node, origin: { names: [], whole: false, resolved: false } };
    }
    const { parts } = template;
    let value = '';
    let resolved = true;
    for (const part of parts) {
      const result = await this.#resolve(part, node);
      if ('text' in result) value += result.text;
      else {
        resolved = false;
        this.problems.push(problemAtNode(node.place, pointer, result.message));
      }
    }
    const names = parts.flatMap((part) => (part.kind === 'text' ? [] : [placeholderName(part)]));
    if (names.length === 0) return { ...node, value };
    const origin: Origin = { names, whole: parts.length === 1, resolved };
    return { ...node, value, origin };
  }

  async #resolve(part: TemplatePart, node: ScalarNode): Promise<Resolved> {
    if (part.kind === 'text') return part;
    if (part.kind === 'variable') {
      const value = this.#input.env[part.name];
      // As in a shell, `:-` also replaces an empty variable.
      if (part.fallback !== undefined && (value === undefined || value === ''))
        return { text: part.fallback };
      if (value !== undefined) return { text: value };
      return {
        message: `the environment variable ${part.name} is not set; set it, or give a default: \${${part.name}:-default}`,
      };
    }
    const path = isAbsolute(part.path) ? part.path : resolve(dirname(node.place.file.path), part.path);
    const reading = this.files.get(path) ?? readText(path, maxInputFileBytes, this.#input.readFile);
    this.files.set(path, reading);
    const result = await reading;
    // Secret files end with a line break that is not part of the secret.
    if (result.ok) return { text: result.text.replace(/\r?\n$/, '') };
    return { message: `the file in \${file:${part.path}} ${result.message}` };
  }
}

function placeholderName(part: Exclude<TemplatePart, { kind: 'text' }>): string {
  return part.kind === 'file' ? `\${file:${part.path}}` : `\${${part.name}}`;
}
