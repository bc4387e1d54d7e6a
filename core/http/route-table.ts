import { RegExpRouter } from 'hono/router/reg-exp-router';
import { SmartRouter } from 'hono/router/smart-router';
import { TrieRouter } from 'hono/router/trie-router';
import { didYouMean } from '../base/did-you-mean.ts';
import { beginsProviderPaths, canonicalPath, matchEndpoint } from '../dialects/match-endpoint.ts';
import type { CompiledPipeline } from '../pipeline/compile.ts';
import type { Matched } from '../pipeline/exchange.ts';
import type { RouteDefinition } from '../pipeline/define-route.ts';
import type { PluginInstance } from '../pipeline/call-hook.ts';

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
 * behind those routes. A request that is meant for administration must never leave for a provider.
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

/** Tells whether a path matches. */
type PathMatch = (path: string) => boolean;

/**
 * Compiles a path pattern of the configuration: `*` is one segment (or, within one, any characters), a `**` segment
 * any number of them, none included. Costs at most segments of the pattern × segments of the path.
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
  return (given) => holdsInOrder(given, parts);
}

/** The first part begins it, the last ends it, the others follow each other between: no backtracking is needed. */
function holdsInOrder(given: string, parts: readonly string[]): boolean {
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

/** Only the latest `**` has to be tried with more segments: what an earlier one took stays right. */
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
