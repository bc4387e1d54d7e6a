// The configuration that an import writes: values, providers, configs, plugins, and its YAML.
import { Document, isScalar, visit } from 'yaml';
import { isJsonObject } from '../../core/base/json.ts';
import { mayBeSecretName } from '../../core/config/masked-text.ts';
import { providerRows } from '../built-ins.ts';
import type { Report } from './report.ts';
import type { Source, SourcePath } from './source.ts';

/** Texts as the configuration writes them. */
export const writtenAs = { escaped, variable: variableOf, slug: slugOf };

/** Version of Azure's API where a file names none. */
export const defaultAzureVersion = '2024-10-21';

/** An object of the written configuration. */
export interface Written {
  [key: string]: unknown;
}

/** A target of a config, as it is written. */
export type TargetDraft = Written;

const lineWidth = 110;
/** `os.environ/NAME` of LiteLLM, `env.NAME` of Bifrost. */
const environmentValue = /^(?:os\.environ\/|env\.)([A-Za-z_][A-Za-z0-9_]*)$/;
const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/;

const secretsInAddresses = [
  /:\/\/[^/\s]*@/,
  /[?&][^=]*(key|token|secret|password|sig)[^=]*=/i,
  /[/=](sk-|pk-|xox[abp]-|gh[pousr]_|AKIA|AIza|eyJ)[\w.-]{8,}/,
  /\/[A-Za-z0-9_-]*(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[A-Za-z0-9_-]{32,}(\/|$)/,
];

/** Writes texts of a source into the configuration: variables as `${NAME}`, secrets never. */
export class Values {
  readonly #source: Source;
  readonly #report: Report;
  /** Names by the secret that they stand for. */
  readonly #secrets = new Map<string, string>();
  readonly #names: Set<string>;

  /** `reserved`: names that stand for something else, and are not taken for a secret of the source. */
  constructor(source: Source, report: Report, reserved: Iterable<string> = []) {
    this.#source = source;
    this.#report = report;
    this.#names = new Set([...environmentNames(source.value), ...reserved]);
  }

  /** A text that is no secret. */
  text(at: SourcePath, value: unknown): string {
    const text = String(value);
    const variable = environmentName(text);
    return variable === undefined ? escaped(text) : this.variable(at, variable);
  }

  /** A reference to a variable; with `fallback` it need not be set. */
  variable(at: SourcePath, name: string, fallback?: string): string {
    if (fallback !== undefined) return `\${${name}:-${fallback}}`;
    this.#names.add(name);
    this.#report.variable(this.#source, at, name);
    return `\${${name}}`;
  }

  /**
   * A secret: the variable that the source names, else a new one with the suggested name. Equal secrets share a variable.
   */
  secret(at: SourcePath, value: unknown, suggested: string): string {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    const variable = environmentName(text);
    if (variable !== undefined) return this.variable(at, variable);
    let name = this.#secrets.get(text);
    if (name === undefined) {
      name = this.#freeName(suggested);
      this.#secrets.set(text, name);
    }
    this.#report.variable(this.#source, at, name, true);
    return `\${${name}}`;
  }

  /** The text, or a secret where it holds a credential: in its user, its query or a part of its path. */
  address(at: SourcePath, value: unknown, suggested: string): string {
    const text = String(value);
    const isSecret = secretsInAddresses.some((secret) => secret.test(text));
    return isSecret ? this.secret(at, text, suggested) : this.text(at, text);
  }

  /** Values by name, such as headers; those under names of secrets become variables. */
  named(at: SourcePath, values: unknown, prefix: string): Record<string, string> {
    const written: Record<string, string> = {};
    if (!isJsonObject(values)) return written;
    for (const [name, value] of Object.entries(values)) {
      const suggested = variableOf(`${prefix}_${name}`);
      const isSecret = mayBeSecretName(name);
      const here = [...at, name];
      const bearer = typeof value === 'string' ? /^(Bearer|Basic)\s+(\S+)$/i.exec(value) : null;
      if (bearer?.[1] !== undefined && bearer[2] !== undefined)
        written[name] = `${bearer[1]} ${this.secret(here, bearer[2], suggested)}`;
      else written[name] = isSecret ? this.secret(here, value, suggested) : this.text(here, value);
    }
    return written;
  }

  #freeName(suggested: string): string {
    const taken = (one: string): boolean => this.#names.has(one) || this.#report.isNeeded(one);
    let name = suggested;
    for (let count = 2; taken(name); count++) name = `${suggested}_${count}`;
    this.#names.add(name);
    return name;
  }
}

/** Every variable that a value names. */
function environmentNames(value: unknown): readonly string[] {
  if (typeof value === 'string') return [environmentName(value) ?? []].flat();
  if (Array.isArray(value)) return value.flatMap(environmentNames);
  return isJsonObject(value) ? Object.values(value).flatMap(environmentNames) : [];
}

/** The variable that `os.environ/NAME` or `env.NAME` names; undefined for other texts. */
function environmentName(text: string): string | undefined {
  return environmentValue.exec(text)?.[1];
}

/** A text in which `${` is no placeholder. */
function escaped(text: string): string {
  return text.replaceAll('${', '$${');
}

/** A name of an environment variable made of any text. */
function variableOf(text: string): string {
  const name = text
    .toUpperCase()
    .replaceAll(/[^A-Z0-9]+/g, '_')
    .replaceAll(/^_+|_+$/g, '');
  return variableName.test(name) ? name : `V_${name}`;
}

/** A text as a name of letters, digits and hyphens. */
function slugOf(text: string): string {
  const slug = text.replaceAll(/[^A-Za-z0-9_-]+/g, '-').replaceAll(/^-+|-+$/g, '');
  return slug.slice(0, 200) || 'any';
}

/** Collects the parts of the configuration. */
export class Draft {
  readonly security: Written = {};
  readonly server: Written = {};
  readonly storage: Written = {};
  readonly retention: Written = {};
  readonly log: Written = {};
  readonly prices: Written[] = [];
  readonly organisation: Written = {};
  readonly configs: Record<string, Written> = {};
  readonly auth: Written = {};
  readonly cache: Written = { mode: 'config' };
  readonly provider: Written = {};
  readonly logger: Written = {};
  readonly management: Written = {};
  readonly mcpServers: Record<string, Written> = {};
  readonly extraPlugins: unknown[] = [];
  readonly #providers: Record<string, Written> = {};
  readonly #slugs = new Map<string, string>();

  /**
   * The slug of a provider with these settings. Equal settings are one provider. `row` is a built-in one whose address and
   * wire hold where the settings do not say otherwise; undefined: a host of its own.
   */
  providerSlug(wanted: string, row: string | undefined, settings: Written): string {
    const identity = JSON.stringify([row, settings]);
    const known = this.#slugs.get(identity);
    if (known !== undefined) return known;
    const slug = freeName(slugOf(wanted), (name) => name in this.#providers);
    const base = row === undefined || row === slug ? {} : { ...providerRows.get(row), service: row };
    this.#providers[slug] = { ...base, ...settings };
    this.#slugs.set(identity, slug);
    return slug;
  }

  /** Adds a config under a free name; returns the name. */
  addConfig(wanted: string, config: Written): string {
    const name = freeName(slugOf(wanted), (one) => one in this.configs);
    this.configs[name] = config;
    return name;
  }

  /** The YAML, with the sentences as comments in front. */
  text(comments: readonly string[]): string {
    const { auth, cache, provider, logger, management, mcpServers } = this;
    const plugin = (name: string, options: Written): unknown =>
      Object.keys(options).length === 0 ? name : { [name]: options };
    const mcp = Object.keys(mcpServers).length === 0 ? {} : { servers: mcpServers };
    const document = {
      version: 1,
      ...filled({
        server: this.server,
        security: this.security,
        storage: this.storage,
        retention: this.retention,
        log: this.log,
      }),
      ...(this.prices.length > 0 && { prices: { models: this.prices } }),
      ...filled({ providers: this.#providers, configs: this.configs, organisation: this.organisation }),
      pipelines: [
        {
          name: 'admin',
          match: { routes: 'contributed' },
          plugins: [plugin('auth', auth), plugin('management', management)],
        },
        { name: 'console', match: { path: '/console/**' }, plugins: ['console'] },
        {
          name: 'gateway',
          match: { path: '/**' },
          plugins: [
            plugin('auth', auth),
            ...this.extraPlugins,
            ...['prompts', 'policies', 'guardrails'],
            plugin('cache', cache),
            'stored-responses',
            plugin('mcp', mcp),
            plugin('provider', provider),
            plugin('logger', logger),
          ],
        },
      ],
    };
    const head = comments.map((line) => `# ${line}\n`).join('');
    const yaml = new Document(document, { aliasDuplicateObjects: false });
    // Lists of numbers stand in one line.
    visit(yaml, {
      Seq: (_, list) => {
        list.flow =
          list.items.length > 0 && list.items.every((one) => isScalar(one) && typeof one.value === 'number');
      },
    });
    return head + yaml.toString({ lineWidth });
  }
}

function filled(parts: Readonly<Record<string, Written>>): Written {
  return Object.fromEntries(Object.entries(parts).filter(([, part]) => Object.keys(part).length > 0));
}

function freeName(wanted: string, isTaken: (name: string) => boolean): string {
  let name = wanted;
  for (let count = 2; isTaken(name); count++) name = `${wanted}-${count}`;
  return name;
}
