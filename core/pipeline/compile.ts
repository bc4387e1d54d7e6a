import type { Features } from '../access/features.ts';
import type { PipelineConfig } from '../config/schema.ts';
import type { RouteDefinition } from './define-route.ts';
import type { PluginInstance } from './plugin-instance.ts';
import type { AnyPlugin, Hooks } from './plugin.ts';

/** One plugin's place in one phase. */
export interface Step<H extends keyof Hooks> {
  readonly instance: PluginInstance;
  /** Position in the file; answers and refusals run only the later phases of plugins before theirs. */
  readonly index: number;
  readonly hook: H;
  /** It belongs to a guardrail: what comes of it is noted. */
  readonly judges: boolean;
  readonly run: Extract<Hooks[H], (...args: never[]) => unknown>;
}

export interface RequestStep extends Step<'request'> {
  /** It finds out who is calling: what the key may do is judged right after it. */
  readonly identifies: boolean;
  /** Whether the body must be in memory before the hook runs: `json` only where it may hold JSON or text. */
  readonly loadsBody: 'never' | 'json' | 'always';
}

export interface AttemptStep extends Step<'attempt'> {
  /** As for request hooks. */
  readonly loadsBody: RequestStep['loadsBody'];
}

export interface TapStep {
  readonly instance: PluginInstance;
  readonly index: number;
  /** `hold`: the core collects the stream and runs the plugin's `response` hook on it. */
  readonly mode: 'tap' | 'hold';
  /** A tap that only observes may be left out where the wire cannot be read; a judging one may not. */
  readonly judges: boolean;
}

/** A pipeline with its phases laid out once, so that a plugin without a hook costs nothing. */
export interface CompiledPipeline {
  readonly name: string;
  readonly match: PipelineConfig['match'];
  readonly instances: readonly PluginInstance[];
  /** Guardrails that do not run, because the operator has switched them off. */
  readonly leftOut: readonly PluginInstance[];
  readonly admit: readonly Step<'admit'>[];
  readonly request: readonly RequestStep[];
  readonly attempt: readonly AttemptStep[];
  /** In reverse file order. */
  readonly attempted: readonly Step<'attempted'>[];
  /** In reverse file order, as are the taps. */
  readonly response: readonly Step<'response'>[];
  readonly taps: readonly TapStep[];
  readonly keepsCall: readonly Step<'keepsCall'>[];
  readonly settled: readonly Step<'settled'>[];
  readonly routes: readonly { readonly route: RouteDefinition; readonly index: number }[];
  /** How many bytes of an answer to keep for `settled`. */
  readonly keepsResponseBytes: number;
}

/** Lays out the phases of one pipeline. Called once per generation; without `features`, nothing is switched off. */
export function compilePipeline(
  config: PipelineConfig,
  placed: readonly PluginInstance[],
  features?: Pick<Features, 'isOn'>,
): CompiledPipeline {
  const leftOut = features?.isOn('guardrails') === false ? placed.filter(isGuardrail) : [];
  const instances = leftOut.length === 0 ? placed : placed.filter((instance) => !isGuardrail(instance));
  const backwards = instances.map((instance, index) => ({ instance, index })).reverse();
  return {
    name: config.name,
    match: config.match,
    instances,
    leftOut,
    admit: stepsOf(instances, 'admit'),
    request: stepsOf(instances, 'request').map((step) => ({
      ...withBodyNeed(step),
      identifies: step.instance.definition.capabilities?.provides?.includes('key') === true,
    })),
    attempt: stepsOf(instances, 'attempt').map((step) => withBodyNeed(step)),
    attempted: stepsOf(instances, 'attempted').reverse(),
    response: stepsOf(instances, 'response').reverse(),
    taps: backwards.flatMap(({ instance, index }) => tapOf(instance, index)),
    keepsCall: stepsOf(instances, 'keepsCall'),
    settled: stepsOf(instances, 'settled'),
    routes: instances.flatMap((instance, index) =>
      (instance.hooks.routes ?? []).map((route) => ({ route, index })),
    ),
    keepsResponseBytes: Math.max(
      0,
      ...instances.map((one) => one.definition.capabilities?.keepsResponseBytes ?? 0),
    ),
  };
}

function isGuardrail({ definition }: PluginInstance): boolean {
  return definition.capabilities?.guardrail === true;
}

function stepsOf<H extends Exclude<keyof Hooks, 'routes'>>(
  instances: readonly PluginInstance[],
  hook: H,
): Step<H>[] {
  return instances.flatMap((instance, index) => {
    const run = instance.hooks[hook];
    if (run === undefined) return [];
    return [
      {
        instance,
        index,
        hook,
        judges: isGuardrail(instance),
        run: run.bind(instance.hooks) as Step<H>['run'],
      },
    ];
  });
}

function tapOf(instance: PluginInstance, index: number): TapStep[] {
  const mode = instance.definition.capabilities?.stream;
  if (mode === 'hold') return [{ instance, index, mode: 'hold', judges: true }];
  if (instance.hooks.stream === undefined) return [];
  return [{ instance, index, mode: 'tap', judges: mode !== 'observe' }];
}

function withBodyNeed<S extends Step<'request'> | Step<'attempt'>>(step: S) {
  return { ...step, loadsBody: bodyNeed(step.instance.definition) };
}

/** How much of the body a plugin's `request` and `attempt` hooks need. */
export function bodyNeed({ capabilities }: AnyPlugin): RequestStep['loadsBody'] {
  const { reads = [], changes = [] } = capabilities ?? {};
  const parts = [...reads, ...changes];
  if (parts.includes('request.body')) return 'always';
  return parts.some((part) => part.startsWith('request.')) ? 'json' : 'never';
}
