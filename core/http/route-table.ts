import { RegExpRouter } from 'hono/router/reg-exp-router';
import { SmartRouter } from 'hono/router/smart-router';
import { TrieRouter } from 'hono/router/trie-router';
import { didYouMean } from '../base/did-you-mean.ts';
import { beginsProviderPaths, canonicalPath, matchEndpoint } from '../dialects/match-endpoint.ts';
import type { CompiledPipeline } from '../pipeline/compile.ts';
import type { Matched } from '../pipeline/exchange.ts';
import type { RouteDefinition } from '../pipeline/define-route.ts';
import { compilePathPattern } from './path-pattern.ts';

/** Finds the pipeline of a request from its method and raw path. Compiled once per generation. */
export interface RouteTable {
  /** `path` is below the base path, raw. `proxyOnly` leaves the administration routes out (`/proxy/…`). */
  match(method: string, path: string, proxyOnly: boolean): Matched | undefined;
  /** The contributed route that was probably meant (`POST /api-keys/workspace/user`), of a path that begins like one; undefined for others. */
  administrative(method: string, path: string): { readonly meant: string | undefined } | undefined;
}

/** What one pipeline says to a request. */
type Place = (request: {
  readonly method: string;
  readonly path: string;
  readonly proxyOnly: boolean;
}) => Omit<Matched, 'path' | 'endpoint'> | undefined;

/** The first pipeline that matches serves: contributed routes by their exact patterns, others by path and method. */
export function buildRouteTable(pipelines: readonly CompiledPipeline[]): RouteTable {
  const places = pipelines.map((one) =>
    one.match.routes === undefined ? proxyPlace(one) : routesPlace(one),
  );
  const routed = firstSegments(pipelines);
  const reserved = new Set([...routed].filter((word) => word !== anything && !beginsProviderPaths(word)));
  const only = soleProxy(pipelines);
  const keeps = pipelines.map((_, index) => keepsAdministration(pipelines, index));
  return {
    match(method, path, proxyOnly) {
      const endpoint = matchEndpoint(method, path);
      const contributed = !proxyOnly && (routed.has(firstSegment(path)) || routed.has(anything));
      // Endpoints with a name of their own are no administration, whatever the spelling of their paths.
      const isReserved = !proxyOnly && endpoint.id === 'proxy' && isAdministrative(reserved, method, path);
      if (!contributed && !isReserved && only) return { pipeline: only, path, endpoint };
      const request = { method, path, proxyOnly };
      for (let i = 0; i < places.length; i++) {
        if (isReserved && keeps[i] === false) continue;
        const found = (places[i] as Place)(request);
        // What is spread stands last: members behind it would give every object a hidden class of its own.
        if (found) return { path, endpoint, ...found };
      }
      return undefined;
    },
    administrative(method, path) {
      if (!isAdministrative(reserved, method, path)) return undefined;
      return { meant: meantRoute(pipelines, method, withoutVersion(canonicalPath(path))) };
    },
  };
}

/**
 * Whether the pipeline takes paths that begin like contributed routes and are none: not one for everything that stands
 * behind those routes. What is meant for administration must never leave for a provider.
 */
function keepsAdministration(pipelines: readonly CompiledPipeline[], index: number): boolean {
  const { routes, path = '/**' } = (pipelines[index] as CompiledPipeline).match;
  if (routes !== undefined) return true;
  const isForEverything = firstSegment(path).includes('*');
  return !isForEverything || !pipelines.slice(0, index).some(({ match }) => match.routes !== undefined);
}

function isAdministrative(reserved: ReadonlySet<string>, method: string, path: string): boolean {
  const canonical = withoutVersion(canonicalPath(path));
  if (!reserved.has(firstSegment(canonical))) return false;
  // The plugin `prompts` serves these, and knows the plain spelling alone.
  return !(method === 'POST' && /^\/prompts\/[^/]+\/completions$/.test(path));
}

/** Clients put the base path twice: `/v1/v1/api-keys`. */
function withoutVersion(path: string): string {
  let rest = path;
  while (rest.startsWith('/v1/')) rest = rest.slice(3);
  return rest;
}

/** The nearest route: of this path with another method, or of a path that differs little. */
function meantRoute(
  pipelines: readonly CompiledPipeline[],
  method: string,
  path: string,
): string | undefined {
  const given = path.split('/');
  const names = new Map<string, string>();
  for (const { route } of pipelines.flatMap((pipeline) => pipeline.routes)) {
    const wanted = route.path.split('/');
    if (wanted.length !== given.length) continue;
    // Parameters stand for what was sent in their place: only the words are compared.
    const filled = wanted.map((word, i) => (word.startsWith('{') ? (given[i] as string) : word)).join('/');
    const isNearer = !names.has(filled) || route.method === method;
    if (isNearer) names.set(filled, `${route.method} ${route.path}`);
  }
  return names.get(path) ?? names.get(didYouMean(path, names.keys()) ?? '');
}

/** Stands for a route that begins with a parameter. */
const anything = '/{}';

/** Where contributed routes begin; a path that begins otherwise needs no look at them. */
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

/** A path is also matched as the most forgiving server would read it, so that no spelling walks around a pipeline. */
function proxyPlace(pipeline: CompiledPipeline): Place {
  const { path: pattern = '/**', methods } = pipeline.match;
  const matchesRaw = compilePathPattern(pattern);
  const matchesCanonical = compilePathPattern(pattern.toLowerCase());
  return ({ method, path }) => {
    if (methods !== undefined && !methods.includes(method)) return undefined;
    return matchesRaw(path) || matchesCanonical(canonicalPath(path)) ? { pipeline } : undefined;
  };
}

/** The routes that a pipeline's plugins contribute, by their exact patterns. */
function routesPlace(pipeline: CompiledPipeline): Place {
  const router = new SmartRouter<RouteDefinition>({ routers: [new RegExpRouter(), new TrieRouter()] });
  const routes = pipeline.routes.map(({ route }) => route);
  // The first that matches is found: words stand before parameters, `/users/invites` before `/users/{userId}`.
  routes.sort((one, other) => (wordsFirst(one.path) < wordsFirst(other.path) ? -1 : 1));
  for (const route of routes) {
    router.add(route.method, route.path.replace(/\{(\w+)\}/g, ':$1'), route);
  }
  return ({ method, path, proxyOnly }) => {
    if (proxyOnly) return undefined;
    const [handlers, captured] = router.match(method, path);
    const found = handlers[0];
    if (found === undefined) return undefined;
    const [route, positions] = found as [RouteDefinition, Record<string, string | number>];
    return { pipeline, route, params: readParams(positions, captured) };
  };
}

/** The path with what sorts behind every word in the place of its parameters. */
function wordsFirst(path: string): string {
  return path.replace(/\{\w+\}/g, '\uffff');
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
