import type { Problem } from '../config/problem.ts';
import type { PipelineConfig } from '../config/schema.ts';
import {
  checkHooks,
  type CheckedPipeline,
  type CreatedPlugin,
  type Locate,
} from '../pipeline/check-pipeline.ts';
import type { PluginInstance } from '../pipeline/plugin-instance.ts';
import type { Hooks, Scope } from '../pipeline/plugin.ts';
import { frameWithin } from './attribute-error.ts';
import { bounded } from './bounded.ts';
import { checkReturnedHooks } from './check-definition.ts';
import { problemAt } from './problem-at.ts';
import { describeThrown } from './plugin-errors.ts';
import type { Prepared, PreparedPipeline, PreparedPlugin } from './prepare.ts';
import { createPluginScope, type Services } from './scope.ts';
import type { UndoStack } from './undo-stack.ts';

/** What creating plugins needs. */
export interface CreateInput {
  readonly prepared: Prepared;
  readonly services: Services;
  /** Takes back every instance; each is pushed before its `create` runs. */
  readonly stack: UndoStack;
  /** Longest time for one `create` in milliseconds. */
  readonly createTimeoutMs: number;
}

/** A pipeline and its plugins in file order. */
export interface CreatedPipeline {
  readonly config: PipelineConfig;
  readonly instances: readonly PluginInstance[];
}

/** The pipelines in file order, or what went wrong. */
export type CreateResult =
  | { readonly ok: true; readonly pipelines: readonly CreatedPipeline[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * Creates the plugins one after the other in file order and checks the hooks that they return. Stops at the first
 * `create` that fails; what was created is on the stack, for the caller to take back.
 */
export async function createInstances(input: CreateInput): Promise<CreateResult> {
  const { source } = input.prepared;
  const pipelines: (PreparedPipeline & CheckedPipeline<CreatedInstance>)[] = [];
  for (const pipeline of input.prepared.pipelines) {
    const created = await createAll(pipeline.plugins, input);
    if ('problem' in created) return { ok: false, problems: [created.problem] };
    pipelines.push({ ...pipeline, plugins: created.plugins });
  }
  const locate: Locate = (pointer, part) => source.locate(pointer, part);
  const problems = pipelines.flatMap((pipeline) => checkHooks(pipeline, locate));
  if (problems.length > 0) return { ok: false, problems };
  const toPipeline = ({ config, plugins }: (typeof pipelines)[number]): CreatedPipeline => ({
    config,
    instances: plugins.map(toInstance),
  });
  return { ok: true, pipelines: pipelines.map(toPipeline) };
}

type CreatedInstance = PreparedPlugin & CreatedPlugin;

async function createAll(
  preparedPlugins: readonly PreparedPlugin[],
  input: CreateInput,
): Promise<{ plugins: CreatedInstance[] } | { problem: Problem }> {
  const plugins: CreatedInstance[] = [];
  for (const prepared of preparedPlugins) {
    const { scope, dispose } = createPluginScope(prepared.definition.name, input.services);
    input.stack.push(dispose);
    try {
      const hooks = await createHooks(prepared, scope, input.createTimeoutMs);
      plugins.push({ ...prepared, hooks });
    } catch (error) {
      scope.log.debug('create failed', { error: describeThrown(error) });
      return { problem: createProblem(prepared, error, input.prepared) };
    }
  }
  return { plugins };
}

async function createHooks(
  { definition, options }: PreparedPlugin,
  scope: Scope,
  ms: number,
): Promise<Hooks> {
  const late = (): Error => new Error(`it has not finished within ${ms} ms; check what it waits for`);
  const hooks: unknown = await bounded(() => definition.create(options, scope), {
    clock: scope.clock,
    ms,
    late,
  });
  const faults = checkReturnedHooks(hooks);
  if (faults.length > 0) throw new Error(faults.join('; '));
  return hooks as Hooks;
}

function createProblem({ entry, definition }: PreparedPlugin, error: unknown, prepared: Prepared): Problem {
  const frame = frameWithin(error, prepared.pluginInputs);
  const thrownAt = frame === undefined ? '' : ` (at ${frame.file}:${frame.line}:${frame.column})`;
  const reason = error instanceof Error ? error.message : String(error);
  const place = prepared.source.locate(entry.pointer, 'value');
  return problemAt(
    place,
    entry.pointer,
    `plugin "${definition.name}" could not be created: ${reason}${thrownAt}`,
  );
}

function toInstance({ definition, hooks, entry, plugin }: CreatedInstance): PluginInstance {
  return {
    definition,
    name: definition.name,
    hooks,
    onError: entry.onError ?? (onlyObserves({ definition, hooks, entry }) ? 'skip' : 'fail'),
    timeoutMs: entry.timeoutMs ?? definition.capabilities?.timeoutMs ?? 30_000,
    builtIn: plugin.builtIn,
  };
}

/** A plugin that can change nothing must not take requests down with it. */
function onlyObserves({ definition, hooks }: CreatedPlugin): boolean {
  const { admit, request, attempt, attempted, response, routes } = hooks;
  if (admit ?? request ?? attempt ?? attempted ?? response ?? routes) return false;
  if (hooks.stream !== undefined && definition.capabilities?.stream !== 'observe') return false;
  return (hooks.stream ?? hooks.settled) !== undefined;
}
