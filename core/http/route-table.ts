import { RegExpRouter } from 'hono/router/reg-exp-router';
import { SmartRouter } from 'hono/router/smart-router';
import { TrieRouter } from 'hono/router/trie-router';
import { didYouMean } from '../base/did-you-mean.ts';
import { beginsProviderPaths, canonicalPath, matchEndpoint } from '../dialects/match-endpoint.ts';
import type { CompiledPipeline } from '../pipeline/compile.ts';
import type { Matched } from '../pipeline/exchange.ts';
import type { RouteDefinition } from '../pipeline/define-route.ts';
import type { PluginInstance } from '../pipeline/call-hook.ts';

/** Finds the pipeline of a request by its method and raw path. Compiled once per generation. */
export interface RouteTable {
  /** `path` is below the base path, raw. `proxyOnly` leaves the administration routes out (`/proxy/…`). */
  match(method: string, path: string, proxyOnly: boolean): Matched | undefined;
  /** For a path that begins like a contributed route: the nearest one (`POST /api-keys/workspace/user`). Else undefined. */
  administrative(method: string, path: string): { readonly meant: string | undefined } | undefined;
}

/** Matches a request against one pipeline. */
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
  const only = catchAllPipeline(pipelines);
  const keeps = pipelines.map((_, index) => keepsAdministration(pipelines, index));
  return {
    match(method, path, proxyOnly) {
      const endpoint = matchEndpoint(method, path);
      const contributed = !proxyOnly && (routed.has(firstSegment(path)) || routed.has(anything));
      // Endpoints with a name of their own are not administration, however their paths are spelled.
      const isReserved = !proxyOnly && endpoint.id === 'proxy' && isAdministrative(reserved, method, path);
      if (!contributed && !isReserved && only) return { pipeline: only, path, endpoint };
      const request = { method, path, proxyOnly };
      for (let i = 0; i < places.length; i++) {
        if (isReserved && keeps[i] === false) continue;
        const found = (places[i] as Place)(request);
        // The spread stands last: members after it would give every object a hidden class of its own.
        if (found) return { path, endpoint, ...found };
      }
      return undefined;
    },
    administrative(method, path) {
      if (!isAdministrative(reserved, method, path)) return undefined;
      return { meant: nearestRoute(pipelines, method, withoutVersion(canonicalPath(path))) };
    },
  };
}

/**
 * Whether the pipeline may serve paths that begin like contributed routes and match none. A catch-all pipeline after
 * those routes may not: a request for administration must never go to a provider.
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
  // The plugin `prompts` serves these, in their plain spelling only.
  return !(method === 'POST' && /^\/prompts\/[^/]+\/completions$/.test(path));
}

/** Some clients send the base path twice: `/v1/v1/api-keys`. */
function withoutVersion(path: string): string {
  let rest = path;
  while (rest.startsWith('/v1/')) rest = rest.slice(3);
  return rest;
}

/** The nearest route: of this path with another method, or of a path that differs little. */
function nearestRoute(
  pipelines: readonly CompiledPipeline[],
  method: string,
  path: string,
): string | undefined {
  const given = path.split('/');
  const names = new Map<string, string>();
  for (const { route } of pipelines.flatMap((pipeline) => pipeline.routes)) {
    const wanted = route.path.split('/');
    if (wanted.length !== given.length) continue;
    // Parameters take the segment that was sent, so that only the fixed segments are compared.
    const filled = wanted.map((word, i) => (word.startsWith('{') ? (given[i] as string) : word)).join('/');
    const isNearer = !names.has(filled) || route.method === method;
    if (isNearer) names.set(filled, `${route.method} ${route.path}`);
  }
  return names.get(path) ?? names.get(didYouMean(path, names.keys()) ?? '');
}

/** First segment of a route that begins with a parameter. */
const anything = '/{}';

/** First segments of contributed routes; other paths skip the match against them. */
function firstSegments(pipelines: readonly CompiledPipeline[]): ReadonlySet<string> {
  const contributing = pipelines.filter((pipeline) => pipeline.match.routes === 'contributed');
  const first = (path: string): string => (path.startsWith('/{') ? anything : firstSegment(path));
  return new Set(contributing.flatMap((pipeline) => pipeline.routes.map(({ route }) => first(route.path))));
}

function firstSegment(path: string): string {
  const end = path.indexOf('/', 1);
  return end === -1 ? path : path.slice(0, end);
}

/** The pipeline for all paths outside contributed routes, if one takes them all: then no pattern needs to be matched. */
function catchAllPipeline(pipelines: readonly CompiledPipeline[]): CompiledPipeline | undefined {
  const [first] = pipelines.filter((pipeline) => pipeline.match.routes === undefined);
  const takesAll = first?.match.methods === undefined && (first?.match.path ?? '/**') === '/**';
  return takesAll ? first : undefined;
}

/** Also matches the canonical form of a path, as the most lenient server reads it, so that no spelling bypasses a pipeline. */
function proxyPlace(pipeline: CompiledPipeline): Place {
  const { path: pattern = '/**', methods } = pipeline.match;
  const matchesRaw = compilePathPattern(pattern);
  const matchesCanonical = compilePathPattern(pattern.toLowerCase());
  return ({ method, path }) => {
    if (methods !== undefined && !methods.includes(method)) return undefined;
    return matchesRaw(path) || matchesCanonical(canonicalPath(path)) ? { pipeline } : undefined;
  };
}

/** Matches the routes that a pipeline's plugins contribute, by their exact patterns. */
function routesPlace(pipeline: CompiledPipeline): Place {
  const router = new SmartRouter<RouteDefinition>({ routers: [new RegExpRouter(), new TrieRouter()] });
  const routes = pipeline.routes.map(({ route }) => route);
  // The first match wins, so fixed segments come before parameters: `/users/invites` before `/users/{userId}`.
  routes.sort((one, other) => (routeSortKey(one.path) < routeSortKey(other.path) ? -1 : 1));
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

/** Sort key of a path: its parameters sort after every fixed segment. */
function routeSortKey(path: string): string {
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

type PathMatch = (path: string) => boolean;

/**
 * Compiles a path pattern of the configuration: `*` matches one segment (or, within one, any characters), a `**` segment
 * any number of them, including none. Costs at most segments of the pattern × segments of the path.
 */
export function compilePathPattern(pattern: string): PathMatch {
  const wanted = pattern.slice(1).split('/').map(compileSegment);
  return (path) => matches(wanted, path.slice(1).split('/'));
}

type Segment = '**' | ((segment: string) => boolean);

function compileSegment(segment: string): Segment {
  if (segment === '**') return '**';
  if (segment === '*') return (given) => given !== '';
  if (!segment.includes('*')) return (given) => given === segment;
  const parts = segment.split(/\*+/);
  return (given) => containsInOrder(given, parts);
}

/** Whether `given` begins with the first part, ends with the last and has the others in order between. No backtracking. */
function containsInOrder(given: string, parts: readonly string[]): boolean {
  const first = parts[0] ?? '';
  const last = parts.at(-1) ?? '';
  if (given.length < first.length + last.length || !given.startsWith(first) || !given.endsWith(last))
    return false;
  let at = first.length;
  const end = given.length - last.length;
  for (const part of parts.slice(1, -1)) {
    const found = given.indexOf(part, at);
    if (found === -1 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

/** Only the latest `**` is retried with more segments: the match of an earlier one stays valid. */
function matches(wanted: readonly Segment[], given: readonly string[]): boolean {
  let at = 0;
  let position = 0;
  let star = -1;
  let taken = 0;
  while (position < given.length) {
    const segment = wanted[at];
    if (segment === '**') {
      star = at++;
      taken = position;
    } else if (segment?.(given[position] as string)) {
      at++;
      position++;
    } else if (star !== -1) {
      at = star + 1;
      position = ++taken;
    } else return false;
  }
  while (wanted[at] === '**') at++;
  return at === wanted.length;
}

/** The pipelines of one generation with their route table. */
export interface CompiledPipelines {
  readonly pipelines: readonly CompiledPipeline[];
  readonly routes: RouteTable;
}

/**
 * Assigns the routes of every plugin to the pipeline that serves them. Routes of a plugin in none of the pipelines for
 * routes go to the first of these, whose hooks admit callers. Of a plugin that is listed several times, the routes of
 * the first listing are served.
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

/** Compiles the route table with the pipelines, so that an invalid pattern fails the reload, not a request. */
export function compilePipelines(given: readonly CompiledPipeline[]): CompiledPipelines {
  const pipelines = withAllRoutes(given);
  const routes = buildRouteTable(pipelines);
  // The router builds its table at the first match; doing it here moves the cost to the load.
  routes.match('GET', '/', false);
  routes.match('GET', '/', true);
  return { pipelines, routes };
}

/** Names of the plugins that do not run because guardrails are switched off, each once. */
export function leftOutPlugins({ pipelines }: CompiledPipelines): readonly string[] {
  return [...new Set(pipelines.flatMap(({ leftOut }) => leftOut.map(({ name }) => name)))];
}
