import { didYouMean, quoted } from '../../base/did-you-mean.ts';
import { type BreakerInput, guardrailKeys, type RouteConfigInput } from '../../organisation/route-config.ts';
import { compileParamEdits } from '../params/compile-param-edits.ts';
import type { ParamEdits } from '../params/apply-param-edits.ts';
import { PatternBudget } from './conditions.ts';
import { compileStrategy } from './compile-strategy.ts';
import {
  type Inherited,
  inheritSettings,
  nothingInherited,
  checkDestination,
  checkNode,
  type Refuse,
} from './node-settings.ts';
import type {
  AttemptSettings,
  BreakerSettings,
  CompiledConfig,
  HedgeSettings,
  PlanBranch,
  PlanLeaf,
  PlanNode,
  RetrySettings,
} from './plan-node.ts';
import {
  type KnowsProvider,
  type SavedConfigs,
  unknownGuardrail,
  type ConfigIssue,
  ConfigIssues,
  type ConfigPlace,
  placeText,
} from './read-config.ts';
import { readGuardrails } from './read-guardrails.ts';
import type { Checks } from '../../pipeline/plugin.ts';
import type { GuardrailSpec, GuardrailSpecs } from '../../ports/guardrails.ts';
import type { CacheSettings } from '../../ports/cache.ts';
import { maxRetries } from '../attempts/attempt-times.ts';

/** Compiles the settings for the attempts at a target. */
function attemptSettings(own: Inherited, params: ParamEdits | undefined): AttemptSettings {
  return {
    params,
    retry: retrySettings(own.retry),
    requestTimeoutMs: timeoutMs(own.requestTimeout),
    firstTokenTimeoutMs: timeoutMs(own.firstTokenTimeout),
    idleTimeoutMs: timeoutMs(own.idleTimeout),
    cache: cacheSettings(own.cache),
    guardrails: own.guardrails.input.length + own.guardrails.output.length > 0 ? own.guardrails : undefined,
    customHost: own.destination.customHost,
    forwardHeaders: own.forwardHeaders,
    strictOpenAiCompliance: own.strictOpenAiCompliance,
    onDrop: own.onDrop,
    apiKey: own.destination.apiKey,
    fields: own.destination.fields,
  };
}

/** A target writes 0 to undo an inherited timeout. */
function timeoutMs(written: number | undefined): number | undefined {
  return written === 0 ? undefined : written;
}

const retriedStatusCodes: readonly number[] = [429, 500, 502, 503, 504, 529];

function retrySettings(retry: RouteConfigInput['retry']): RetrySettings | undefined {
  if (retry === undefined) return undefined;
  return {
    attempts: Math.min(retry.attempts, maxRetries),
    onStatusCodes: new Set(retry.on_status_codes ?? retriedStatusCodes),
    useRetryAfter: retry.use_retry_after_headers ?? false,
  };
}

function cacheSettings(cache: RouteConfigInput['cache']): CacheSettings | undefined {
  if (cache === undefined) return undefined;
  if (typeof cache === 'string') return { mode: cache, maxAgeMs: undefined, threshold: undefined };
  const { mode, max_age: maxAge, threshold } = cache;
  return { mode, maxAgeMs: maxAge === undefined ? undefined : maxAge * 1000, threshold };
}

/** Minimum number of requests within the minute for the share of failures to count. */
const minimumRequests = 10;

/** Compiles the breaker of a target. */
function breakerSettings(breaker: BreakerInput | undefined): BreakerSettings | undefined {
  if (breaker === undefined) return undefined;
  const codes = breaker.failure_status_codes;
  return {
    failureThreshold: breaker.failure_threshold,
    failureThresholdPercentage: breaker.failure_threshold_percentage,
    minimumRequests: breaker.minimum_requests ?? minimumRequests,
    cooldownMs: breaker.cooldown_interval,
    failureStatusCodes: codes === undefined ? undefined : new Set(codes),
  };
}

/** Keys that affect neither the target of a request nor its attempts. */
const keysWithoutEffect: ReadonlySet<string> = new Set(['name', 'weight', 'fetch_integrated_models']);

/** True when a config has no effect and could be omitted. */
function hasNoEffect(config: RouteConfigInput): boolean {
  return !Object.entries(config).some(([key, value]) => value !== undefined && !keysWithoutEffect.has(key));
}

/** Context for the compilation of a config. */
export interface CompileSetup {
  /** `CompiledConfig.id`. */
  readonly id: string;
  /** Name of the config; undefined for an inline one. */
  readonly slug: string | undefined;
  /** All configs that targets may refer to, this one included. */
  readonly configs: ReadonlyMap<string, RouteConfigInput>;
  /** Configs of a store, for references to names that `configs` lacks. Default none. */
  readonly saved?: SavedConfigs | undefined;
  /** `CompiledConfig.version`. */
  readonly version?: number | undefined;
  /** `CompiledConfig.isSaved`. Default false. */
  readonly isSaved?: boolean;
  readonly knowsProvider: KnowsProvider;
  /** The checks of guardrails; undefined: no guardrail is accepted. */
  readonly checks?: Checks | undefined;
  /** Prefixes of the gateway's own headers, each with its dash; such headers cannot be forwarded. Default none. */
  readonly servicePrefixes?: readonly string[];
}

/** A compiled config, or all of its issues; `warnings` name parts without effect. */
type CompileResult =
  | { readonly ok: true; readonly config: CompiledConfig; readonly warnings: readonly ConfigIssue[] }
  | {
      readonly ok: false;
      readonly issues: readonly ConfigIssue[];
      readonly warnings: readonly ConfigIssue[];
    };

/** Upper bound of the nesting of targets, including references to other configs. */
const maxDepth = 16;
/** Upper bound of leaf targets, including those of referenced configs. */
const maxLeaves = 256;
/** Upper bound of the parameters that all targets together change, inherited ones included. */
const maxParams = 4096;

/**
 * Compiles a config that the schema has accepted: fills in inherited settings, resolves references to other configs, and
 * makes the checks that a schema cannot. Never throws; reports all issues at once.
 */
export function compileConfig(input: RouteConfigInput, setup: CompileSetup): CompileResult {
  const compilation = new Compilation(setup);
  if (hasNoEffect(input))
    compilation.issues.add(
      [],
      'it says nothing; give it "provider", "virtual_key", "config", "passthrough" or "targets", or settings such as "retry", "cache", "request_timeout", "override_params", "default_params", "drop_params", "forward_headers" or guardrails',
    );
  const spot: Spot = {
    path: [],
    name: input.name,
    weight: input.weight ?? 1,
    depth: 0,
    slugs: setup.slug === undefined ? [] : [setup.slug],
    reference: undefined,
  };
  const root = compilation.node(input, spot, nothingInherited);
  const { issues, warnings, leaves, readsBody } = compilation;
  if (root === undefined || issues.found.length > 0)
    return { ok: false, issues: issues.found, warnings: warnings.found };
  const isComplete = leaves.every(({ provider }) => provider !== undefined);
  const ranksByLatency = usesLatency(root);
  const { id, slug, version, isSaved = false } = setup;
  const config = { id, slug, version, isSaved, root, leaves, readsBody, isComplete, ranksByLatency };
  return { ok: true, config, warnings: warnings.found };
}

/** Settings that become edits of the request's body. */
type ParamSettings = Pick<Inherited, 'defaults' | 'overrides' | 'drops' | 'modelPrefix'>;

class Compilation {
  readonly issues = new ConfigIssues();
  readonly warnings = new ConfigIssues();
  readonly leaves: PlanLeaf[] = [];
  readsBody = false;
  readonly #patterns = new PatternBudget();
  readonly #setup: CompileSetup;
  /** Number of leaves, valid or not. */
  #ends = 0;
  /** Number of parameters that the targets so far change; neighbours with equal parameters count once. */
  #params = 0;
  #lastParams: (ParamSettings & { readonly edits: ParamEdits | undefined }) | undefined;

  constructor(setup: CompileSetup) {
    this.#setup = setup;
  }

  node(input: RouteConfigInput, spot: Spot, parent: Inherited): PlanNode | undefined {
    if (this.#ends > maxLeaves) return undefined;
    if (spot.depth > maxDepth) return this.#tooLarge(spot, `targets are nested more than ${maxDepth} deep`);
    if (input.config !== undefined) return this.#referred(input, input.config, spot, parent);
    const refuse = reporter(this.issues, spot);
    checkNode(input, this.#setup, refuse);
    reportParams(input, refuse);
    const own = inheritSettings(parent, input, this.#guardrails(input, spot, refuse));
    const { targets } = input;
    if (input.strategy === undefined && targets === undefined) return this.#leaf(input, spot, own);
    if (targets === undefined || targets.length === 0) {
      this.#ends++;
      refuse(['targets'], 'there is nothing to choose from: give the strategy a list of "targets"');
      return undefined;
    }
    return this.#branch(input, spot, { own, targets });
  }

  /** The node's own guardrails, for each phase that it sets. */
  #guardrails(input: RouteConfigInput, spot: Spot, refuse: Refuse): Partial<GuardrailSpecs> {
    const { saved, checks } = this.#setup;
    const find = (name: string) => saved?.findGuardrail(name) ?? unknownGuardrail(name, []);
    const own: { input?: GuardrailSpec[]; output?: GuardrailSpec[] } = {};
    for (const [key, phase, type] of guardrailKeys) {
      const list = input[key];
      if (list === undefined) continue;
      const place = placeText([...spot.path, key]);
      const specs = readGuardrails(list, { phase, type, place }, { checks, find }, (at, message) =>
        refuse([key, ...at], message),
      );
      (own[phase] ??= []).push(...specs);
    }
    return own;
  }

  #leaf(input: RouteConfigInput, spot: Spot, own: Inherited): PlanLeaf | undefined {
    this.#ends++;
    if (this.#ends > maxLeaves) return this.#tooLarge(spot, `there are more than ${maxLeaves} targets`);
    const refuse = reporter(this.issues, spot);
    checkDestination(own.destination, refuse);
    const params = this.#paramEdits(own, spot, refuse);
    const path = placeText(spot.path);
    const leaf: PlanLeaf = {
      kind: 'leaf',
      id: `${this.#setup.id}#${path}`,
      path,
      name: spot.name,
      weight: spot.weight,
      provider: own.destination.provider,
      definedIn: spot.reference?.isSaved === true ? undefined : spot.reference?.slug,
      isSaved: spot.reference?.isSaved ?? this.#setup.isSaved ?? false,
      settings: attemptSettings(own, params),
      breaker: breakerSettings(own.breaker),
      hedge: hedgeSettings(input.hedge),
    };
    this.leaves.push(leaf);
    return leaf;
  }

  #paramEdits(own: ParamSettings, spot: Spot, refuse: Refuse): ParamEdits | undefined {
    const { defaults, overrides, drops, modelPrefix } = own;
    const last = this.#lastParams;
    // Neighbouring targets mostly inherit the same objects.
    if (
      last?.defaults === defaults &&
      last.overrides === overrides &&
      last.drops === drops &&
      last.modelPrefix === modelPrefix
    )
      return last.edits;
    this.#params += Object.keys(defaults).length + Object.keys(overrides).length + drops.length;
    if (this.#params > maxParams)
      return this.#tooLarge(spot, `all targets together change more than ${maxParams} parameters`);
    const { edits, issues } = compileParamEdits({ defaults, overrides, drops, modelPrefix });
    // Issues were reported where they are written; remaining ones come from inherited parameters.
    if (this.issues.found.length === 0)
      for (const { path, message } of issues) refuse(placeOfParam(path), message);
    this.#lastParams = { defaults, overrides, drops, modelPrefix, edits };
    return edits;
  }

  #branch(
    input: RouteConfigInput,
    spot: Spot,
    { own, targets }: { own: Inherited; targets: readonly RouteConfigInput[] },
  ): PlanBranch {
    const refuse = reporter(this.issues, spot);
    const warn = reporter(this.warnings, spot);
    if (input.strategy === undefined && targets.length > 1)
      refuse(['targets'], 'a "strategy" is missing: it says how one of several targets is chosen');
    const { strategy, readsBody } = compileStrategy(input.strategy ?? { mode: 'single' }, {
      targets: targets.map((target) => ({ name: this.#nameOf(target), weight: target.weight ?? 1 })),
      patterns: this.#patterns,
      refuse: (place, message) => refuse(['strategy', ...place], message),
      warn: (place, message) => warn(['strategy', ...place], message),
    });
    this.readsBody ||= readsBody;
    const children = targets.flatMap(
      (target, index) => this.node(target, spotOf(target, index, spot), own) ?? [],
    );
    const path = placeText(spot.path);
    return {
      kind: 'branch',
      id: `${this.#setup.id}#${path}`,
      path,
      name: spot.name,
      weight: spot.weight,
      strategy,
      children,
      hedge: hedgeSettings(input.hedge),
    };
  }

  /**
   * Compiles a reference: another config replaces this target. It inherits settings, but no provider, credential or host.
   */
  #referred(input: RouteConfigInput, named: string, spot: Spot, parent: Inherited): PlanNode | undefined {
    const { configs, saved, slug: ownSlug } = this.#setup;
    const refuse = reporter(this.issues, spot);
    for (const [key, value] of Object.entries(input)) {
      if (value !== undefined && key !== 'config' && key !== 'name' && key !== 'weight')
        refuse([key], 'only "name" and "weight" may stand beside "config"; write it into that config');
    }
    const written = configs.get(named);
    const stored = written === undefined ? saved?.find(named) : undefined;
    const referred = written ?? stored?.input;
    const slug = stored?.slug ?? named;
    const circle = spot.slugs.indexOf(slug);
    if (referred === undefined || circle !== -1) {
      this.#ends++;
      if (referred === undefined) refuse(['config'], stored?.problem ?? this.#unknown(named));
      else {
        const names = [...spot.slugs.slice(circle), slug].join(' → ');
        const message = `the configs refer to each other in a circle: ${names}`;
        // A circle through this config is reported at its own reference, wherever it closes.
        if (circle === 0 && ownSlug !== undefined)
          this.issues.add(spot.reference?.place ?? [...spot.path, 'config'], message);
        else refuse(['config'], message);
      }
      return undefined;
    }
    const within: Spot = {
      ...spot,
      name: spot.name ?? referred.name,
      depth: spot.depth + 1,
      slugs: [...spot.slugs, slug],
      reference: {
        slug,
        place: spot.reference?.place ?? [...spot.path, 'config'],
        start: spot.path.length,
        isSaved: stored !== undefined,
      },
    };
    return this.node(referred, within, { ...parent, destination: nothingInherited.destination });
  }

  #nameOf(target: RouteConfigInput): string | undefined {
    if (target.name !== undefined || target.config === undefined) return target.name;
    const { configs, saved } = this.#setup;
    return (configs.get(target.config) ?? saved?.find(target.config)?.input)?.name;
  }

  #unknown(slug: string): string {
    const { configs, saved } = this.#setup;
    if (saved === undefined) return unknownConfig(slug, configs.keys());
    return unknownConfig(slug, [...configs.keys(), ...saved.slugs()]);
  }

  /** Reports the issue and ends the walk, because further issues would repeat it. */
  #tooLarge(spot: Spot, message: string): undefined {
    this.issues.add(spot.reference?.place ?? spot.path, `${message}; a config this large is refused`);
    this.#ends = maxLeaves + 1;
    return undefined;
  }
}

function usesLatency(node: PlanNode): boolean {
  if (node.kind === 'leaf') return false;
  return node.strategy.mode === 'least-latency' || node.children.some(usesLatency);
}

/** The message for an unknown config, with a suggestion. */
export function unknownConfig(slug: string, slugs: Iterable<string>): string {
  const meant = didYouMean(slug, slugs);
  const remedy =
    meant === undefined ? 'define it under "configs" in the configuration' : `did you mean ${quoted(meant)}?`;
  return `there is no config ${quoted(slug)}; ${remedy}`;
}

function reportParams(own: RouteConfigInput, refuse: Refuse): void {
  const { default_params: defaults, override_params: overrides, drop_params: drops } = own;
  if (defaults === undefined && overrides === undefined && drops === undefined) return;
  const { issues } = compileParamEdits({ defaults, overrides, drops });
  for (const { path, message } of issues) refuse(placeOfParam(path), message);
}

/** `drop_params[2]` as a place. */
function placeOfParam(path: string): ConfigPlace {
  const [, name = path, index] = /^(\w+)(?:\[(\d+)\])?/.exec(path) ?? [];
  return index === undefined ? [name] : [name, Number(index)];
}

function hedgeSettings(hedge: RouteConfigInput['hedge']): HedgeSettings | undefined {
  return hedge === undefined ? undefined : { afterMs: hedge.after_ms, max: hedge.max ?? 1 };
}

/** Position of the walk over a config. */
interface Spot {
  /** In the whole tree: continues through references. */
  readonly path: ConfigPlace;
  readonly name: string | undefined;
  readonly weight: number;
  readonly depth: number;
  /** Configs around this spot, outermost first. */
  readonly slugs: readonly string[];
  /** The reference that led here, when the spot is within another config. */
  readonly reference: Reference | undefined;
}

/** A target that refers to another config. */
interface Reference {
  readonly slug: string;
  /** Place of the reference in the compiled config. */
  readonly place: ConfigPlace;
  /** Length of the tree's path at the root of the other config. */
  readonly start: number;
  /** The other config is a saved one, not the operator's. */
  readonly isSaved: boolean;
}

/** The spot of a target. */
function spotOf(target: RouteConfigInput, index: number, parent: Spot): Spot {
  return {
    ...parent,
    path: [...parent.path, 'targets', index],
    name: target.name,
    weight: target.weight ?? 1,
    depth: parent.depth + 1,
  };
}

/** Reports issues at a spot. Within another config the place is that of the reference, and the message names the rest. */
function reporter(issues: ConfigIssues, { path, reference }: Spot): Refuse {
  if (reference === undefined) return (place, message) => issues.add([...path, ...place], message);
  const inside = path.slice(reference.start);
  return (place, message) =>
    issues.add(
      reference.place,
      `in the config ${quoted(reference.slug)}, ${placeText([...inside, ...place])}: ${message}`,
      reference.slug,
    );
}
