import type { CompiledPipeline } from '../pipeline/compile.ts';
import type { PluginInstance } from '../pipeline/plugin-instance.ts';
import { buildRouteTable, type RouteTable } from './route-table.ts';

/** The pipelines of one generation, ready to be found by method and path. */
export interface CompiledPipelines {
  readonly pipelines: readonly CompiledPipeline[];
  readonly routes: RouteTable;
}

/**
 * The pipelines with the routes of every plugin where they are served. Those of a plugin that stands in none of the
 * pipelines for routes go to the first of these, whose hooks let callers in; of several listings of one, those of the
 * first.
 */
function withAllRoutes(pipelines: readonly CompiledPipeline[]): readonly CompiledPipeline[] {
  const serving = pipelines.filter(({ match }) => match.routes !== undefined);
  const [first] = serving;
  if (first === undefined) return pipelines;
  const served = new Set(serving.flatMap(({ instances }) => instances.map(({ name }) => name)));
  const added: CompiledPipeline['routes'][number][] = [];
  for (const { routes, instances } of pipelines.filter(({ match }) => match.routes === undefined)) {
    const here = routes.filter(({ index }) => !served.has((instances[index] as PluginInstance).name));
    added.push(...here);
    for (const { index } of here) served.add((instances[index] as PluginInstance).name);
  }
  if (added.length === 0) return pipelines;
  return pipelines.map((one) => (one === first ? { ...one, routes: [...one.routes, ...added] } : one));
}

/** Compiles the route table with the pipelines, so that a pattern that cannot be served fails the reload, not a request. */
export function compilePipelines(given: readonly CompiledPipeline[]): CompiledPipelines {
  const pipelines = withAllRoutes(given);
  const routes = buildRouteTable(pipelines);
  // The table is laid out at its first match; that belongs to the build, too.
  routes.match('GET', '/', false);
  routes.match('GET', '/', true);
  return { pipelines, routes };
}

/** The names of the plugins that do not run because guardrails are switched off, each once. */
export function leftOutPlugins({ pipelines }: CompiledPipelines): readonly string[] {
  return [...new Set(pipelines.flatMap(({ leftOut }) => leftOut.map(({ name }) => name)))];
}
