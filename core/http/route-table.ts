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

/** Matches a request against the contributed routes of one pipeline. */
type RoutesMatch = (method: string, path: string) => Omit<Matched, 'path' | 'endpoint'> | undefined;

/** The first pipeline that matches serves: contributed routes by their exact patterns, others by path and method. */
export function buildRouteTable(pipelines: readonly CompiledPipeline[]): RouteTable {
  const places = pipelines.map(({ match }, place) => ({ match, place }));
  const serving = places
    .filter(({ match }) => match.routes !== undefined)
    .map(({ place }) => ({ place, match: matchRoutes(pipelines[place] as CompiledPipeline) }));
  const paths = new PathTable(
    places
      .filter(({ match }) => match.routes === undefined)
      .map(({ match: { path = '/**', methods }, place }) => {
        return {
          place,
          path,
          methods,
          keeps: keepsAdministration(path, place > (serving[0]?.place ?? place)),
        };
      }),
  );
  const routed = firstSegments(pipelines);
  const reserved = new Set([...routed].filter((word) => word !== anything && !beginsProviderPaths(word)));
  const only = catchAllPipeline(pipelines);
  return {
    match(method, path, proxyOnly) {
      const endpoint = matchEndpoint(method, path);
      const contributed = !proxyOnly && (routed.has(firstSegment(path)) || routed.has(anything));
      // Endpoints with a name of their own are not administration, however their paths are spelled.
      const isReserved = !proxyOnly && endpoint.id === 'proxy' && isAdministrative(reserved, method, path);
      if (!contributed && !isReserved && only) return { pipeline: only, path, endpoint };
      let before = pipelines.length;
      let route: ReturnType<RoutesMatch>;
      for (let i = 0; contributed && route === undefined && i < serving.length; i++) {
        const one = serving[i] as (typeof serving)[number];
        route = one.match(method, path);
        if (route !== undefined) before = one.place;
      }
      const place = paths.first(method, path, isReserved, before);
      if (place < before) return { pipeline: pipelines[place] as CompiledPipeline, path, endpoint };
      // The spread stands last: members after it would give every object a hidden class of its own.
      return route && { path, endpoint, ...route };
    },
    administrative(method, path) {
      if (!isAdministrative(reserved, method, path)) return undefined;
      return { meant: nearestRoute(pipelines, method, withoutVersion(canonicalPath(path))) };
    },
  };
}

/**
 * Whether a pipeline may serve paths that begin like contributed routes and match none. A catch-all pipeline after
 * those routes may not: a request for administration must never go to a provider.
 */
function keepsAdministration(pattern: string, isAfterRoutes: boolean): boolean {
  return !isAfterRoutes || !firstSegment(pattern).includes('*');
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

/** Matches the routes that a pipeline's plugins contribute, by their exact patterns. */
function matchRoutes(pipeline: CompiledPipeline): RoutesMatch {
  const router = new SmartRouter<RouteDefinition>({ routers: [new RegExpRouter(), new TrieRouter()] });
  const routes = pipeline.routes.map(({ route }) => route);
  // The first match wins, so fixed segments come before parameters: `/users/invites` before `/users/{userId}`.
  routes.sort((one, other) => (routeSortKey(one.path) < routeSortKey(other.path) ? -1 : 1));
  for (const route of routes) {
    router.add(route.method, route.path.replace(/\{(\w+)\}/g, ':$1'), route);
  }
  return (method, path) => {
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

/** A pipeline that serves paths, as the table keeps it. */
interface PathEntry {
  /** Its place among the pipelines. */
  readonly place: number;
  /** `*` matches one segment (or, within one, any characters), a `**` segment any number of them, including none. */
  readonly path: string;
  /** Undefined: all. */
  readonly methods?: readonly string[] | undefined;
  /** It may serve paths that begin like contributed routes. */
  readonly keeps: boolean;
}

/**
 * The path patterns of all pipelines. A request costs what its segments and the wildcards on their way cost, and no
 * more for the pipelines beside them; at most segments of the path × segments of all patterns.
 */
class PathTable {
  readonly #asWritten: PathTree;
  readonly #inLowerCase: PathTree;
  /** Some pipeline may serve paths that begin like contributed routes. */
  readonly #keeps: boolean;

  /** In the order of their places. */
  constructor(entries: readonly PathEntry[]) {
    this.#asWritten = new PathTree(entries);
    const lower = entries.map((entry) => ({ ...entry, path: entry.path.toLowerCase() }));
    const isLower = lower.every(({ path }, index) => path === entries[index]?.path);
    this.#keeps = entries.some(({ keeps }) => keeps);
    this.#inLowerCase = isLower ? this.#asWritten : new PathTree(lower);
  }

  /**
   * Place of the first pipeline that takes the request and stands before the place `before`, else `before`. A pattern
   * also takes the canonical form of a path, as the most lenient server reads it, so that no spelling bypasses a
   * pipeline.
   */
  first(method: string, path: string, isReserved: boolean, before: number): number {
    if (isReserved && !this.#keeps) return before;
    const raw = this.#asWritten;
    const lower = this.#inLowerCase;
    const found = raw.first(method, path, isReserved, before);
    if (found <= lower.least) return found;
    const canonical = canonicalPath(path);
    return raw === lower && canonical === path ? found : lower.first(method, canonical, isReserved, found);
  }
}

/** What follows the same segments in some patterns. */
class PathNode {
  /** Least place of a pattern that ends here or further on: another one may be found before. */
  readonly least: number;
  /** Patterns that end here, in the order of their places. */
  readonly ends: PathEntry[] = [];
  /** By the next segment. */
  readonly words = new Map<string, PathNode>();
  /** Segments with `*` in them, by their text. */
  readonly partial: { readonly text: string; readonly parts: readonly string[]; readonly node: PathNode }[] =
    [];
  /** After `*`. */
  one: PathNode | undefined;
  /** After `**`. */
  any: PathNode | undefined;
  /** A segment may follow, other than `**`. */
  hasNext = false;
  /** Of a node after `**`: the search that was here last. */
  search = 0;

  constructor(least: number) {
    this.least = least;
  }

  /** The node after one more segment of a pattern at this place. */
  after(segment: string, place: number): PathNode {
    // `**` twice in a row is the same as once.
    if (segment === '**') return (this.any ??= new PathNode(place));
    this.hasNext = true;
    if (segment === '*') return (this.one ??= new PathNode(place));
    const known = segment.includes('*')
      ? this.partial.find(({ text }) => text === segment)?.node
      : this.words.get(segment);
    if (known !== undefined) return known;
    const node = new PathNode(place);
    if (segment.includes('*')) this.partial.push({ text: segment, parts: segment.split(/\*+/), node });
    else this.words.set(segment, node);
    return node;
  }
}

/** Patterns as a tree of their segments. Searches share its fields: they never wait. */
export class PathTree {
  readonly #root: PathNode;
  #path = '';
  #method = '';
  #isReserved = false;
  #found = 0;
  #search = 0;

  constructor(entries: readonly PathEntry[]) {
    this.#root = new PathNode(entries[0]?.place ?? Number.POSITIVE_INFINITY);
    for (const entry of entries) {
      let node = this.#root;
      let last = '';
      for (const segment of entry.path.slice(1).split('/')) {
        if (segment !== '**' || last !== '**') node = node.after(segment, entry.place);
        last = segment;
      }
      node.ends.push(entry);
    }
  }

  get least(): number {
    return this.#root.least;
  }

  first(method: string, path: string, isReserved: boolean, before: number): number {
    if (before <= this.least) return before;
    this.#path = path;
    this.#method = method;
    this.#isReserved = isReserved;
    this.#found = before;
    this.#search++;
    this.#visit(this.#root, 1);
    return this.#found;
  }

  /** Looks for what takes the segments from the character `at` on; beyond the end of the path there are none. */
  #visit(node: PathNode, at: number): void {
    if (node.least >= this.#found) return;
    if (at > this.#path.length) this.#end(node);
    else if (node.hasNext) this.#step(node, at, this.#endOf(at));
    if (node.any !== undefined) this.#skip(node.any, at);
  }

  /** End of the segment that begins at `at`. */
  #endOf(at: number): number {
    const slash = this.#path.indexOf('/', at);
    return slash === -1 ? this.#path.length : slash;
  }

  #step(node: PathNode, at: number, end: number): void {
    const segment = this.#path.slice(at, end);
    const next = node.words.get(segment);
    if (next !== undefined) this.#visit(next, end + 1);
    if (node.one !== undefined && segment !== '') this.#visit(node.one, end + 1);
    for (const { parts, node: after } of node.partial)
      if (after.least < this.#found && containsInOrder(segment, parts)) this.#visit(after, end + 1);
  }

  /**
   * Goes on after each number of segments. A search comes to a node from left to right, so all that a second visit could
   * try, the first one has.
   */
  #skip(node: PathNode, at: number): void {
    if (node.least >= this.#found || node.search === this.#search) return;
    node.search = this.#search;
    this.#end(node);
    if (!node.hasNext) return;
    let from = at;
    while (from <= this.#path.length) {
      const end = this.#endOf(from);
      this.#step(node, from, end);
      from = end + 1;
    }
  }

  #end(node: PathNode): void {
    for (const { place, methods, keeps } of node.ends) {
      if (place >= this.#found) return;
      if (this.#isReserved && !keeps) continue;
      if (methods !== undefined && !methods.includes(this.#method)) continue;
      this.#found = place;
      return;
    }
  }
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

/** Whether a pipeline has the plugin of this name. */
export function hasPlugin({ pipelines }: CompiledPipelines, name: string): boolean {
  return pipelines.some(({ instances }) => instances.some((one) => one.definition.name === name));
}
