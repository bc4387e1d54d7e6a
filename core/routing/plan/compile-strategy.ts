import type { RouteConfigInput } from '../../organisation/route-config.ts';
import { didYouMean, listWords, quoted } from '../../base/did-you-mean.ts';
import { compileCondition, type PatternBudget } from './conditions.ts';
import type { ConfigPlace } from './read-config.ts';
import { type FieldPath, parseFieldPath } from './field-path.ts';
import type { Strategy, StrategyMode } from './plan-node.ts';

type StrategyInput = NonNullable<RouteConfigInput['strategy']>;

/** Context for the compilation of a strategy. */
interface StrategySetup {
  /** The targets in file order. */
  readonly targets: readonly { readonly name: string | undefined; readonly weight: number }[];
  /** Budget that all expressions of the config share. */
  readonly patterns: PatternBudget;
  /** Reports an issue with its place within the strategy. */
  readonly refuse: (place: ConfigPlace, message: string) => void;
  /** Reports a part without effect. */
  readonly warn: (place: ConfigPlace, message: string) => void;
}

/** A strategy, and whether it reads the request's body. */
interface CompiledStrategy {
  readonly strategy: Strategy;
  readonly readsBody: boolean;
}

type Compile = (written: StrategyInput, setup: StrategySetup) => CompiledStrategy;

const compileMode: Readonly<Record<StrategyMode, Compile>> = {
  single: () => plain({ mode: 'single' }),
  fallback: ({ on_status_codes: codes }) =>
    plain({ mode: 'fallback', onStatusCodes: codes === undefined ? undefined : new Set(codes) }),
  loadbalance: compileLoadBalance,
  conditional: compileConditional,
  'least-latency': () => plain({ mode: 'least-latency' }),
  // The price depends on the body of the request.
  'least-cost': () => ({ strategy: { mode: 'least-cost' }, readsBody: true }),
  'round-robin': () => plain({ mode: 'round-robin' }),
  canary: compileCanary,
};

/** Keys that only one mode reads. */
const keysOfModes: readonly (readonly [mode: StrategyMode, key: keyof StrategyInput])[] = [
  ['fallback', 'on_status_codes'],
  ['loadbalance', 'sticky'],
  ['conditional', 'conditions'],
  ['conditional', 'default'],
  ['canary', 'percentage'],
  ['canary', 'hash_fields'],
];

/** Compiles the strategy of a branch. Reports all issues; the result is then unusable. */
export function compileStrategy(written: StrategyInput, setup: StrategySetup): CompiledStrategy {
  for (const [mode, key] of keysOfModes) {
    if (mode !== written.mode && written[key] !== undefined)
      setup.warn([key], `"${key}" has no effect in the mode "${written.mode}": it belongs to "${mode}"`);
  }
  return compileMode[written.mode](written, setup);
}

function plain(strategy: Strategy): CompiledStrategy {
  return { strategy, readsBody: false };
}

function compileLoadBalance({ sticky }: StrategyInput, { targets, refuse }: StrategySetup): CompiledStrategy {
  if (targets.length > 0 && targets.every(({ weight }) => weight === 0))
    refuse(['mode'], 'every target has the weight 0, so none could be chosen; give one of them a weight');
  if (sticky === undefined || sticky.enabled === false)
    return plain({ mode: 'loadbalance', sticky: undefined });
  const at: ConfigPlace = ['sticky', 'hash_fields'];
  if (sticky.hash_fields === undefined)
    refuse(['sticky'], '"hash_fields" is missing: the fields whose values stay with a target');
  const hashFields = compileFields(sticky.hash_fields ?? [], at, refuse);
  const ttlMs = (sticky.ttl ?? 3600) * 1000;
  return {
    strategy: { mode: 'loadbalance', sticky: { hashFields, ttlMs } },
    readsBody: hashFields.some(isOfBody),
  };
}

function compileCanary(written: StrategyInput, { targets, refuse }: StrategySetup): CompiledStrategy {
  if (targets.length !== 2)
    refuse(
      ['mode'],
      `a canary has two targets, the present one and the new one; this one has ${targets.length}`,
    );
  if (written.percentage === undefined)
    refuse(['mode'], 'a canary needs "percentage": the share of the requests for the second target');
  const hashFields = compileFields(written.hash_fields ?? ['trace_id'], ['hash_fields'], refuse);
  return {
    strategy: { mode: 'canary', percentage: written.percentage ?? 0, hashFields },
    readsBody: hashFields.some(isOfBody),
  };
}

function compileConditional(written: StrategyInput, setup: StrategySetup): CompiledStrategy {
  const { conditions = [], default: otherwise } = written;
  const { refuse, patterns } = setup;
  if (conditions.length === 0)
    refuse(['mode'], 'a conditional strategy needs "conditions": [{ "query": { … }, "then": "name" }]');
  let readsBody = false;
  const compiled = conditions.flatMap(({ query, then }, index) => {
    const place: ConfigPlace = ['conditions', index];
    const child = targetNamed(then, [...place, 'then'], setup);
    const condition = compileCondition(query, patterns);
    if (!condition.ok) {
      for (const { path, message } of condition.issues)
        refuse([...place, 'query'], path === '' ? message : `${path.slice(0, 200)} ${message}`);
      return [];
    }
    readsBody ||= condition.reads.some(isOfBody);
    return child === undefined ? [] : [{ test: condition.test, then: child }];
  });
  const fallback = otherwise === undefined ? undefined : targetNamed(otherwise, ['default'], setup);
  return { strategy: { mode: 'conditional', conditions: compiled, otherwise: fallback }, readsBody };
}

/** Index of the one target of this name. */
function targetNamed(name: string, place: ConfigPlace, setup: StrategySetup): number | undefined {
  const { targets, refuse } = setup;
  const index = targets.findIndex((target) => target.name === name);
  if (index === -1) {
    const names = targets.flatMap((target) => target.name ?? []);
    const meant = didYouMean(name, names);
    const remedy =
      meant !== undefined
        ? `did you mean ${quoted(meant)}?`
        : names.length > 0
          ? `their names are ${listWords(names.map(quoted), 'and')}`
          : 'none of them has a "name"';
    refuse(place, `none of the targets is named ${quoted(name)}; ${remedy}`);
    return undefined;
  }
  if (targets.some((target, other) => other > index && target.name === name))
    refuse(place, `two targets are named ${quoted(name)}; give each a name of its own`);
  return index;
}

function compileFields(
  fields: readonly string[],
  place: ConfigPlace,
  refuse: StrategySetup['refuse'],
): FieldPath[] {
  return fields.flatMap((text, index) => {
    const path = parseFieldPath(text);
    if (path !== undefined) return [path];
    refuse(
      [...place, index],
      `${quoted(text)} is no field of a request; write metadata.…, params.…, url.pathname, trace_id or api_key`,
    );
    return [];
  });
}

function isOfBody(path: FieldPath): boolean {
  return path[0] === 'params';
}

/** Whether a target of weight 0 is left out. */
export function usesWeights(mode: StrategyMode): boolean {
  return (
    mode === 'loadbalance' || mode === 'round-robin' || mode === 'least-latency' || mode === 'least-cost'
  );
}
