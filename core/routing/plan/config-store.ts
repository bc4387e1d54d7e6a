import { didYouMean } from '../../config/did-you-mean.ts';
import { errorTable } from '../../errors/codes.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { RouteConfigInput } from '../../ports/route-config.ts';
import { sha256 } from '../../ports/sha256.ts';
import { compileConfig, type CompileSetup } from './compile-config.ts';
import { parseInlineConfig } from './parse-inline-config.ts';
import type { CompiledConfig } from './plan-node.ts';
import type { KnowsProvider } from './provider-names.ts';
import { RecentMap } from '../../ports/recent-map.ts';

/** What a generation knows of configs. */
export interface ConfigStoreOptions {
  /** Those of the configuration by name, checked. */
  readonly configs: Readonly<Record<string, RouteConfigInput>>;
  /** The providers that targets may name: `providerLookup`. */
  readonly knowsProvider: KnowsProvider;
  /** As in `CompileSetup`. */
  readonly servicePrefixes?: readonly string[];
}

/** Texts that are remembered, each of 64 KiB at the most. */
const maxTexts = 500;
/** Mistakes that an answer lists, and that its message names. */
const maxListed = 20;
const maxNamed = 3;
/** Longest name of a config that a message repeats. */
const maxShown = 255;

type Issues = readonly { readonly path: string; readonly message: string }[];
type Compiled = { readonly config: CompiledConfig } | { readonly issues: Issues };

/** The configs of one generation: those of the configuration by name, and those that requests bring along. */
export class ConfigStore {
  readonly #setup: Omit<CompileSetup, 'id' | 'slug'>;
  readonly #compiled = new Map<string, CompiledConfig>();
  /** Refusals too: a client that sends a wrong config sends it again. */
  readonly #inline = new RecentMap<Compiled>(maxTexts);

  /** Throws an `Error` for a config that is not valid; `checkConfigs` has reported it before. */
  constructor({ configs, knowsProvider, servicePrefixes = [] }: ConfigStoreOptions) {
    const byName = new Map(Object.entries(configs));
    this.#setup = { configs: byName, knowsProvider, servicePrefixes };
    for (const [slug, input] of byName) {
      const result = compileConfig(input, { ...this.#setup, id: slug, slug });
      if (!result.ok) throw new Error(`The config "${slug}" is not valid. ${sentence(result.issues)}`);
      this.#compiled.set(slug, result.config);
    }
  }

  /** The config of this name, if there is one. */
  find(slug: string): CompiledConfig | undefined {
    return this.#compiled.get(slug);
  }

  /** Throws `config_unknown` when there is none of this name. */
  bySlug(slug: string): CompiledConfig {
    const found = this.find(slug);
    if (found !== undefined) return found;
    const meant = didYouMean(slug, this.#compiled.keys());
    const message =
      `There is no config ${JSON.stringify(slug.slice(0, maxShown))}.` +
      (meant === undefined ? '' : ` Did you mean "${meant}"?`) +
      ' Define it under "configs" in the configuration, or send the config itself as JSON.';
    throw new GatewayError('config_unknown', message, {
      param: 'config',
      extra: { errors: listed('config_unknown', [{ path: 'config', message }]) },
    });
  }

  /** The config that this JSON text is; compiled once per text. Throws `invalid_config` with everything that is wrong. */
  inline(text: string): CompiledConfig {
    let compiled = this.#inline.touch(text);
    if (compiled === undefined) {
      compiled = this.#compile(text);
      this.#inline.set(text, compiled);
    }
    if ('config' in compiled) return compiled.config;
    const { issues } = compiled;
    throw new GatewayError('invalid_config', `The config is not valid. ${sentence(issues)}`, {
      param: 'config',
      extra: { errors: listed('invalid_config', issues) },
    });
  }

  #compile(text: string): Compiled {
    const parsed = parseInlineConfig(text);
    if (!parsed.ok) return { issues: parsed.issues };
    const id = `inline:${sha256(text, 'base64url')}`;
    const result = compileConfig(parsed.config, { ...this.#setup, id, slug: undefined });
    return result.ok ? { config: result.config } : { issues: result.issues };
  }
}

/** The first mistakes, for people: `config.targets[0].provider: there is no …`. */
function sentence(issues: Issues): string {
  const named = issues.slice(0, maxNamed).map(({ path, message }) => `${path}: ${message}`);
  const rest = issues.length - named.length;
  return `${named.join(' | ')}${rest === 0 ? '' : ` | and ${rest} more`}.`;
}

/** The mistakes, for programs, in the form that existing clients know. */
function listed(code: 'invalid_config' | 'config_unknown', issues: Issues): string[] {
  const head = errorTable[code].admin;
  return issues.slice(0, maxListed).map(({ path, message }) => `${head}: path: ${path}, message: ${message}`);
}
