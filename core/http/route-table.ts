import type { Router as PathRouter } from 'hono/router';
import { RegExpRouter } from 'hono/router/reg-exp-router';
import { SmartRouter } from 'hono/router/smart-router';
import { TrieRouter } from 'hono/router/trie-router';
import { matchEndpoint } from '../dialects/match-endpoint.ts';
import type { CompiledPipeline } from '../pipeline/compile.ts';
import type { Matched } from '../pipeline/exchange.ts';
import type { RouteDefinition } from './define-route.ts';

interface Place {
  readonly pipeline: CompiledPipeline;
  readonly route?: RouteDefinition;
}

/** Finds the pipeline of a request from its method and raw path. Compiled once per generation. */
export interface RouteTable {
  /** `path` is below the base path, raw. `proxyOnly` leaves the administration routes out (`/proxy/…`). */
  match(method: string, path: string, proxyOnly: boolean): Matched | undefined;
}

/** The first pipeline that matches serves: contributed routes by their exact patterns, others by path and method. */
export function buildRouteTable(pipelines: readonly CompiledPipeline[]): RouteTable {
  const every = routerOf(pipelines, true);
  const proxies = routerOf(pipelines, false);
  const routed = firstSegments(pipelines);
  const only = soleProxy(pipelines);
  return {
    match(method, path, proxyOnly) {
      const endpoint = matchEndpoint(method, path);
      const contributed = !proxyOnly && (routed.has(firstSegment(path)) || routed.has(anything));
      if (!contributed && only) return { pipeline: only, path, endpoint };
      const [handlers, captured] = (contributed ? every : proxies).match(method, path);
      const found = handlers[0];
      if (found === undefined) return undefined;
      const [place, positions] = found as [Place, Record<string, string | number>];
      if (!place.route) return { pipeline: place.pipeline, path, endpoint };
      return {
        pipeline: place.pipeline,
        path,
        endpoint,
        route: place.route,
        params: readParams(positions, captured),
      };
    },
  };
}

/** Stands for a route that begins with a parameter. */
const anything = '/{}';

/** Where contributed routes begin: any other path needs no look at them. */
function firstSegments(pipelines: readonly CompiledPipeline[]): ReadonlySet<string> {
  const contributing = pipelines.filter((pipeline) => pipeline.match.routes === 'contributed');
  const first = (path: string): string => (path.startsWith('/{') ? anything : firstSegment(path));
  return new Set(contributing.flatMap((pipeline) => pipeline.routes.map(({ route }) => first(route.path))));
}

function firstSegment(path: string): string {
  const end = path.indexOf('/', 1);
  return end === -1 ? path : path.slice(0, end);
}

/** The one pipeline that takes everything that is no contributed route, if there is such a one: then no pattern needs matching. */
function soleProxy(pipelines: readonly CompiledPipeline[]): CompiledPipeline | undefined {
  const [first] = pipelines.filter((pipeline) => pipeline.match.routes === undefined);
  const takesAll = first?.match.methods === undefined && (first?.match.path ?? '/**') === '/**';
  return takesAll ? first : undefined;
}

function routerOf(pipelines: readonly CompiledPipeline[], withRoutes: boolean): PathRouter<Place> {
  const router = new SmartRouter<Place>({ routers: [new RegExpRouter(), new TrieRouter()] });
  for (const pipeline of pipelines) {
    if (pipeline.match.routes === 'contributed') {
      if (!withRoutes) continue;
      for (const { route } of pipeline.routes) {
        router.add(route.method, route.path.replace(/\{(\w+)\}/g, ':$1'), { pipeline, route });
      }
    } else {
      const pattern = (pipeline.match.path ?? '/**').replace(/\*\*/g, '*');
      for (const method of pipeline.match.methods ?? ['ALL']) router.add(method, pattern, { pipeline });
    }
  }
  return router;
}

function readParams(
  positions: Record<string, string | number>,
  captured: string[] | undefined,
): Record<string, string> {
  const params: Record<string, string> = {};
  for (const [name, value] of Object.entries(positions)) {
    params[name] = typeof value === 'number' ? (captured?.[value] ?? '') : value;
  }
  return params;
}
