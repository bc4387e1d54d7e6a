/** Names that begin with one of these are full resource names, and no models of the default collection. */
const collections: ReadonlySet<string> = new Set([
  'models',
  'tunedModels',
  'projects',
  'publishers',
  'endpoints',
  'dynamic',
]);

const separator = /\/|%2f/gi;
const methodSeparator = /:|%3a/gi;
/** What a model of a collection is named after: `models/x`, `publishers/google/models/x`. */
const inModels = /(?:^|\/)models\//g;

/**
 * The path with another model, for wires that name it there: `/v1beta/models/FROM:generateContent`. `from` is the model
 * as the wire's `readCall` reads it; `path` is raw, and whatever of it is encoded is found all the same.
 *
 * A bare name takes the place of the name alone, so that `publishers/google/models/a` becomes `publishers/google/models/b`;
 * a full resource name (`tunedModels/x`) takes the place of the whole one. A path that does not name `from` is returned
 * as it is.
 */
export function withModelInPath(path: string, from: string, to: string): string {
  if (from === '' || to === '') return path;
  const end = methodAt(path);
  const start = resourceAt(path.slice(0, end), from);
  if (start === undefined) return path;
  const resource = path.slice(start, end);
  return path.slice(0, start) + replaced(resource, to) + path.slice(end);
}

/** Where `:generateContent` begins, or the path's end: the last colon of the last segment. */
function methodAt(path: string): number {
  const segment = lastMatch(separator, path) ?? 0;
  const colon = lastMatch(methodSeparator, path);
  return colon !== undefined && colon > segment ? colon : path.length;
}

/** Where the resource begins whose name is `model`, its collection `models/` included. */
function resourceAt(path: string, model: string): number | undefined {
  for (const start of segmentStarts(path)) {
    const resource = decoded(path.slice(start));
    if (resource === model || resource === `models/${model}`) return start;
  }
  return undefined;
}

function segmentStarts(path: string): number[] {
  const starts = [0];
  for (const { index, 0: found } of path.matchAll(separator)) starts.push(index + found.length);
  return starts;
}

/** The raw resource with another model in it. */
function replaced(resource: string, to: string): string {
  const first = to.slice(0, Math.max(0, to.indexOf('/')));
  if (collections.has(first)) return encoded(to);
  const name = decoded(resource);
  const models = lastMatch(inModels, name);
  if (models !== undefined) {
    const kept = name.slice(0, name.indexOf('models/', models) + 'models/'.length);
    return encoded(kept + to);
  }
  const isBare = !collections.has(name.slice(0, Math.max(0, name.indexOf('/'))));
  return encoded(isBare ? to : `models/${to}`);
}

function lastMatch(pattern: RegExp, text: string): number | undefined {
  let last: number | undefined;
  for (const { index } of text.matchAll(pattern)) last = index;
  return last;
}

/** Each segment percent-encoded; one of dots would walk to another resource. */
function encoded(name: string): string {
  return name.split('/').map(encodedSegment).join('/');
}

function encodedSegment(segment: string): string {
  if (segment === '.' || segment === '..') return segment.replaceAll('.', '%252E');
  return encodeURIComponent(segment).replaceAll('%3A', ':').replaceAll('%40', '@');
}

function decoded(raw: string): string {
  try {
    return decodeURIComponent(raw);
  } catch {
    return raw;
  }
}
