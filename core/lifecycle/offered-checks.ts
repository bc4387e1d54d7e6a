import { compileSchema } from '../config/ajv.ts';
import type { ConfigSource } from '../config/config-source.ts';
import type { Problem } from '../config/problem.ts';
import type { PluginEntry } from '../config/schema.ts';
import type { AnyCheck, AnyPlugin, CheckResult, Checks, Judge } from '../pipeline/plugin.ts';
import { callCheck, type HookRuntime, type PluginInstance } from '../pipeline/call-hook.ts';
import { problemAt } from './problem-at.ts';
import type { Mistake } from '../base/json.ts';

const maxExplained = 20;

/** Prefix of the gateway's own checks. */
export const ownPrefix = 'default.';

/**
 * The checks that these plugins offer.
 * `isComplete: false`: the code of other plugins has not been run, so that any id may be that of one of their checks.
 */
export function guardsOf(plugins: Iterable<AnyPlugin>, { isComplete = true } = {}): Checks {
  const offered = new Map<string, AnyCheck>();
  for (const { offers = [] } of plugins)
    for (const check of offers) for (const id of idsOf(check)) offered.set(id, check);
  return {
    ids: [...offered.keys()].sort(),
    definition: (id) => offered.get(id),
    issues(id, parameters): readonly Mistake[] | undefined {
      const check = offered.get(id);
      if (check === undefined) return isComplete || id.startsWith(ownPrefix) ? undefined : [];
      const validate = compileSchema(check.schema, { all: true, most: maxExplained });
      const issues = validate(parameters).map(({ path, message }) => ({ path, message }));
      return issues.length > 0 || check.check === undefined ? issues : check.check(parameters);
    },
  };
}

/** The checks of a generation. */
export interface GenerationChecks extends Checks {
  /** Those of plugins run as parts of these instances from now on: measured, and with their breakers. */
  runBy(instances: readonly PluginInstance[], runtime: HookRuntime): void;
}

/** The checks of a generation: those that come with the gateway, and those of the plugins that it lists. */
export function guardsOfGeneration(
  builtIns: Iterable<AnyPlugin>,
  plugins: readonly ListedPlugin[],
  { isComplete }: { readonly isComplete: boolean },
): GenerationChecks {
  const callers = new Map<AnyPlugin, Caller>();
  const offering = foreign(plugins).map(({ definition }) => {
    const { name, offers = [] } = definition;
    const caller: Caller = { of: undefined };
    callers.set(definition, caller);
    return { name, offers: offers.map((check) => calledBy(caller, soundCheck(check))), create };
  });
  return {
    ...guardsOf([...builtIns, ...offering], { isComplete }),
    runBy(instances, runtime) {
      for (const instance of instances) {
        const caller = callers.get(instance.definition);
        if (caller !== undefined) caller.of ??= { instance, runtime };
      }
    },
  };
}

/** The first instance of the plugin that offers a check; undefined before it is created. */
interface Caller {
  of: { readonly instance: PluginInstance; readonly runtime: HookRuntime } | undefined;
}

function calledBy(caller: Caller, check: AnyCheck): AnyCheck {
  return {
    ...check,
    create(parameters, scope) {
      const judge = check.create(parameters, scope);
      return (subject) => {
        const { of } = caller;
        if (of === undefined) return judge(subject);
        return callCheck(of.instance, check.id, of.runtime, {
          signal: () => subject.signal,
          call: () => judge(subject),
        });
      };
    },
  };
}

const create = () => ({});

/** A plugin of a pipeline, as far as its checks are concerned. */
interface ListedPlugin {
  readonly entry: PluginEntry;
  readonly plugin: { readonly builtIn: boolean; readonly codeHash: string | undefined };
  readonly definition: AnyPlugin;
}

/** Refuses checks that two plugins offer, or that come with the gateway: their ids would be ambiguous. */
export function offerProblems(
  builtIns: Iterable<AnyPlugin>,
  plugins: readonly ListedPlugin[],
  source: ConfigSource,
): Problem[] {
  const taken = new Map<string, string>();
  for (const { name, offers = [] } of builtIns)
    for (const check of offers) for (const id of idsOf(check)) taken.set(id, `the built-in plugin "${name}"`);
  return foreign(plugins).flatMap(({ entry, definition: { name, offers = [] } }) => {
    const place = source.locate(entry.pointer, 'value');
    const twice = offers.flatMap(idsOf).filter((id) => taken.has(id));
    for (const id of offers.flatMap(idsOf))
      if (!taken.has(id)) taken.set(id, `the plugin "${name}" (${place.file}:${place.line})`);
    return twice.map((id) => {
      const message = `plugin "${name}" offers the check "${id}", which ${taken.get(id) ?? ''} offers already; give it another id, or list one of the two plugins`;
      return problemAt(place, entry.pointer, message);
    });
  });
}

/**
 * Plugins that do not come with the gateway, each once, however often and by whatever path it is listed. One that has a
 * thread of its own in any place offers its checks there.
 */
function foreign(plugins: readonly ListedPlugin[]): readonly ListedPlugin[] {
  const byCode = new Map<string | undefined, ListedPlugin>();
  for (const one of plugins) {
    if (one.plugin.builtIn) continue;
    const { codeHash } = one.plugin;
    const known = byCode.get(codeHash);
    if (known === undefined || (known.entry.isolate === undefined && one.entry.isolate !== undefined))
      byCode.set(codeHash, one);
  }
  return [...byCode.values()];
}

function idsOf({ id, aliases = [] }: AnyCheck): readonly string[] {
  return [id, ...aliases];
}

/** Wraps a check of a plugin: a result that is not a verdict never counts as passed. */
export function soundCheck(check: AnyCheck): AnyCheck {
  return {
    ...check,
    create(parameters, scope) {
      const judge: unknown = check.create(parameters, scope);
      if (typeof judge !== 'function') throw new Error('its create function must return a function');
      return (subject) => {
        const result: unknown = (judge as Judge)(subject);
        return isThenable(result) ? Promise.resolve(result).then(soundResult) : soundResult(result);
      };
    },
  };
}

const verdicts: readonly unknown[] = ['passed', 'failed', 'skipped'];
/** Longest `data` of a check's result, as JSON. */
const longestData = 65_536;

function soundResult(result: unknown): CheckResult {
  const { verdict, data } = Object(result) as { readonly verdict?: unknown; readonly data?: unknown };
  if (!verdicts.includes(verdict))
    throw new Error('it must return passed(), failed() or skipped(), and has returned something else');
  const text = data === undefined ? '' : (JSON.stringify(data) as string | undefined);
  if (text === undefined || text.length > longestData)
    throw new Error(`its data must be JSON of ${longestData} characters at most`);
  return result as CheckResult;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (Object(value) as { readonly then?: unknown }).then === 'function';
}
