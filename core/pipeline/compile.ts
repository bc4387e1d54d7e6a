import type { Features } from '../access/features.ts';
import type { PipelineConfig, PluginEntry } from '../config/schema.ts';
import type { RouteDefinition } from './define-route.ts';
import type { PluginInstance, Step, RequestStep } from './call-hook.ts';
import type { AnyPlugin, Hooks } from './plugin.ts';
import type { Problem } from '../config/problem.ts';

/** One plugin of a pipeline under check. */
interface CheckedPlugin {
  readonly definition: AnyPlugin;
  readonly entry: PluginEntry;
}

/** The same, once it has been created. */
export interface CreatedPlugin extends CheckedPlugin {
  readonly hooks: Hooks;
}

/** The place of a value in the configuration, by its JSON pointer. */
export type Locate = (
  pointer: string,
  part: 'key' | 'value',
) => { file: string; line: number; column: number };

/** A pipeline under check. */
export interface CheckedPipeline<P extends CheckedPlugin> {
  readonly config: Pick<PipelineConfig, 'name' | 'match'>;
  /** JSON pointer of the pipeline. */
  readonly pointer: string;
  /** In file order, all of them. */
  readonly plugins: readonly P[];
}

/**
 * The checks that need only the declarations of plugins: order, and that exactly one answers. Run it before anything is
 * created. Returns everything that would silently not happen, each with the remedy.
 */
export function checkPipeline(pipeline: CheckedPipeline<CheckedPlugin>, locate: Locate): Problem[] {
  return [
    ...needsProblems(pipeline, locate),
    ...answerProblems(pipeline, locate),
    ...pipeline.plugins.flatMap((plugin) => declarationProblems(plugin, locate)),
  ];
}

/** The checks that need the hooks. Run it after creation and before the swap. */
export function checkHooks(pipeline: CheckedPipeline<CreatedPlugin>, locate: Locate): Problem[] {
  return [
    ...pipeline.plugins.flatMap((plugin) => hookProblems(plugin, locate)),
    ...unreachableProblems(pipeline, locate),
  ];
}

/** The checks across pipelines that need no plugins: each has a unique name, and requests that reach it. */
export function checkPipelines(
  pipelines: readonly Pick<PipelineConfig, 'name' | 'match'>[],
  locate: Locate,
): Problem[] {
  const names = new Set<string>();
  const paths = pipelines.map(({ match: { path = '/**' } }) => path.toLowerCase().slice(1).split('/'));
  return pipelines.flatMap((pipeline, index) => {
    const { name, match } = pipeline;
    const at = (member: string, message: string): Problem => {
      const path = `/pipelines/${index}/${member}`;
      return { ...locate(path, 'value'), path, message };
    };
    if (names.has(name))
      return [
        at(
          'name',
          `"${name}" is the name of an earlier pipeline, and logs could not tell them apart; give it another`,
        ),
      ];
    names.add(name);
    const narrow = paths[index] as string[];
    const before = pipelines
      .slice(0, index)
      .find((one, place) => coversMethods(one.match, match) && coversPath(paths[place] as string[], narrow));
    if (before === undefined) return [];
    return [
      at(
        'match',
        `pipeline "${name}" would never serve a request: "${before.name}" before it takes all of them; move "${name}" before "${before.name}", or narrow the path of "${before.name}"`,
      ),
    ];
  });
}

type Match = PipelineConfig['match'];

function coversMethods(wide: Match, narrow: Match): boolean {
  // Contributed routes are exact: they are matched wherever their pipeline is listed.
  if (wide.routes !== undefined || narrow.routes !== undefined) return false;
  const { methods } = wide;
  return methods === undefined || narrow.methods?.every((method) => methods.includes(method)) === true;
}

/** Whether a pattern takes every path that another takes. False where that is not obvious. */
function coversPath(wide: readonly string[], narrow: readonly string[], from = 0, of = 0): boolean {
  const first = wide[from];
  const other = narrow[of];
  if (first === undefined) return other === undefined;
  if (first === '**')
    return (
      coversPath(wide, narrow, from + 1, of) ||
      (other !== undefined && coversPath(wide, narrow, from, of + 1))
    );
  if (other === undefined || other === '**') return false;
  return (first === other || (first === '*' && other !== '')) && coversPath(wide, narrow, from + 1, of + 1);
}

/**
 * The check across pipelines: the routes of all plugins are served by pipelines with `match: { routes: contributed }`,
 * so there must be one where plugins have routes, and routes where there is one.
 */
export function checkRoutes(pipelines: readonly CheckedPipeline<CheckedPlugin>[], locate: Locate): Problem[] {
  const serving = pipelines.filter(({ config }) => config.match.routes !== undefined);
  const contributing = pipelines.flatMap(({ plugins }) => plugins).filter(hasRoutes);
  if (serving.length === 0)
    return contributing.map((plugin) =>
      problem(
        plugin,
        locate,
        `the routes of ${named(plugin)} would not be served; add a pipeline with "match: { routes: contributed }" and the plugins that let callers in, such as "auth"`,
      ),
    );
  const [first] = serving;
  return serving
    .filter((pipeline) => {
      // Routes of plugins that are listed elsewhere are served by the first one.
      const served = pipeline === first ? contributing : pipeline.plugins.filter(hasRoutes);
      return served.length === 0;
    })
    .map(({ config, pointer }) => {
      const message = `no plugin of pipeline "${config.name}" contributes routes, so it would serve nothing; list one that does, such as "management", or match a path`;
      return { ...locate(`${pointer}/plugins`, 'key'), path: `${pointer}/plugins`, message };
    });
}

function needsProblems({ config, plugins }: CheckedPipeline<CheckedPlugin>, locate: Locate): Problem[] {
  return plugins.flatMap((plugin, index) => {
    const provided = plugins.slice(0, index).flatMap((one) => one.definition.capabilities?.provides ?? []);
    const missing = (plugin.definition.capabilities?.needs ?? []).filter((need) => !provided.includes(need));
    return missing.map((need) => {
      const later = plugins
        .slice(index + 1)
        .find((one) => one.definition.capabilities?.provides?.includes(need));
      const remedy =
        later === undefined
          ? `list a plugin that provides it${need === 'key' ? ', such as "auth",' : ''} before it`
          : `move "${later.definition.name}" before it`;
      return problem(
        plugin,
        locate,
        `${named(plugin)} needs the ${need} of an earlier plugin, and none in pipeline "${config.name}" provides it; ${remedy}`,
      );
    });
  });
}

function answerProblems(
  { config, pointer, plugins }: CheckedPipeline<CheckedPlugin>,
  locate: Locate,
): Problem[] {
  const [first, ...others] = plugins.filter((plugin) => plugin.definition.capabilities?.answers === true);
  if (config.match.routes !== undefined) {
    return [first, ...others]
      .flatMap((plugin) => plugin ?? [])
      .map((plugin) =>
        problem(
          plugin,
          locate,
          `${named(plugin)} answers every request, so no route of pipeline "${config.name}" would be reached; move it to a pipeline that matches a path`,
        ),
      );
  }
  if (first === undefined) {
    const message = `nothing in pipeline "${config.name}" answers; list "provider" in its plugins`;
    return [{ ...locate(`${pointer}/plugins`, 'key'), path: `${pointer}/plugins`, message }];
  }
  return others.map((plugin) =>
    problem(
      plugin,
      locate,
      `${named(plugin)} would never answer, because ${named(first)} always does before it; remove one of the two`,
    ),
  );
}

function declarationProblems(plugin: CheckedPlugin, locate: Locate): Problem[] {
  const { changes = [], stream } = plugin.definition.capabilities ?? {};
  const changed = changes.find((part) => part.startsWith('response.'));
  if (changed === undefined || stream !== undefined) return [];
  return [
    problem(
      plugin,
      locate,
      `${named(plugin)} changes ${changed} and does not say what happens to streamed answers; ${declareStream}`,
    ),
  ];
}

const declareStream =
  'its author must declare capabilities.stream: "hold" to judge the whole, "window" or "observe" with a stream hook, or "ignore" to let streams pass on purpose';

function hookProblems(plugin: CreatedPlugin, locate: Locate): Problem[] {
  const { hooks, definition } = plugin;
  const { stream, answers, reads = [], changes = [] } = definition.capabilities ?? {};
  const messages: string[] = [];
  if (hooks.response !== undefined && stream === undefined) {
    messages.push(`has a response hook and does not say what happens to streamed answers; ${declareStream}`);
  }
  if ((stream === 'window' || stream === 'observe') && hooks.stream === undefined) {
    messages.push(
      `declares stream: "${stream}" and has no stream hook, so streamed answers would pass unseen; its author must return one, or declare "ignore" or "hold"`,
    );
  }
  if (stream === 'hold' && hooks.response === undefined) {
    messages.push(
      'declares stream: "hold" and has no response hook to judge the held answer; its author must return one',
    );
  }
  if (stream !== 'window' && stream !== 'observe' && hooks.stream !== undefined) {
    const declared =
      stream === undefined ? 'declares no treatment of streams' : `declares stream: "${stream}"`;
    messages.push(
      `has a stream hook and ${declared}; its author must declare "observe" or "window", or remove the hook`,
    );
  }
  const judgesAnswers = [...reads, ...changes].some((part) => part.startsWith('response.'));
  if (stream === 'window' && judgesAnswers && hooks.stream !== undefined && hooks.response === undefined) {
    messages.push(
      'judges streamed answers only, so complete ones would pass unseen; its author must return a response hook too',
    );
  }
  if ((hooks.routes?.length ?? 0) > 0 && definition.capabilities?.routes !== true) {
    messages.push(
      'has routes and does not declare them, so a check could not see whether they are served; its author must add capabilities.routes: true',
    );
  }
  if (answers === true && hooks.request === undefined) {
    messages.push(
      'declares that it answers and has no request hook to do it with; its author must return one',
    );
  }
  return messages.map((message) => problem(plugin, locate, `${named(plugin)} ${message}`));
}

function unreachableProblems({ plugins }: CheckedPipeline<CreatedPlugin>, locate: Locate): Problem[] {
  const answering = plugins.findIndex((plugin) => plugin.definition.capabilities?.answers === true);
  const first = plugins[answering];
  if (first === undefined) return [];
  return plugins.slice(answering + 1).flatMap((plugin) => {
    if (plugin.definition.capabilities?.answers === true) return [];
    const unreachable = (['request', 'response', 'stream'] as const).filter(
      (hook) => plugin.hooks[hook] !== undefined,
    );
    if (unreachable.length === 0) return [];
    const hooks = `${unreachable.join(' and ')} hook${unreachable.length > 1 ? 's' : ''}`;
    return [
      problem(
        plugin,
        locate,
        `the ${hooks} of ${named(plugin)} would never run behind ${named(first)}, which answers; move "${plugin.entry.use}" before "${first.entry.use}"`,
      ),
    ];
  });
}

function hasRoutes({ definition }: CheckedPlugin): boolean {
  return definition.capabilities?.routes === true;
}

function problem(plugin: CheckedPlugin, locate: Locate, message: string): Problem {
  return { ...locate(plugin.entry.pointer, 'value'), path: plugin.entry.pointer, message };
}

function named(plugin: CheckedPlugin): string {
  return `plugin "${plugin.definition.name}"`;
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
  /** It has the plugin that runs the guardrails of configs, headers and defaults. */
  readonly runsGuardrails: boolean;
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

/** Name of the plugin that runs guardrails. */
const guardrailsPlugin = 'guardrails';

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
    runsGuardrails: placed.some(({ name }) => name === guardrailsPlugin),
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
