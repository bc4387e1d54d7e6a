import type { CompiledPipeline } from '../pipeline/compile.ts';
import { buildRouteTable, type RouteTable } from './route-table.ts';

/** The pipelines of one generation, ready to be found by method and path. */
export interface CompiledPipelines {
  readonly pipelines: readonly CompiledPipeline[];
  readonly routes: RouteTable;
}

/** Compiles the route table with the pipelines, so that a pattern that cannot be served fails the reload, not a request. */
export function compilePipelines(pipelines: readonly CompiledPipeline[]): CompiledPipelines {
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
