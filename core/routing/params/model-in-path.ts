/** First segments of full resource names; other names are models of the default collection. */
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
/** Segment before the name of a model: `models/x`, `publishers/google/models/x`. */
const inModels = /(?:^|\/)models\//g;

/**
 * The path with another model, for dialects with the model in the path: `/v1beta/models/FROM:generateContent`. `from` is
 * the model as the dialect's `readCall` reads it; `path` is raw and may be percent-encoded anywhere.
 *
 * A bare name replaces the name alone: `publishers/google/models/a` becomes `publishers/google/models/b`; a full resource
 * name (`tunedModels/x`) replaces the whole one. A path that does not contain `from` is returned unchanged.
 */
export function withModelInPath(path: string, from: string, to: string): string {
  if (from === '' || to === '') return path;
  const end = methodAt(path);
  const start = resourceAt(path.slice(0, end), from);
  if (start === undefined) return path;
  const resource = path.slice(start, end);
  return path.slice(0, start) + replaced(resource, to) + path.slice(end);
}

/** Offset of `:generateContent`, which is the last colon of the last segment, or of the path's end. */
function methodAt(path: string): number {
  const segment = lastMatch(separator, path) ?? 0;
  const colon = lastMatch(methodSeparator, path);
  return colon !== undefined && colon > segment ? colon : path.length;
}

/** Offset of the resource with the name `model`, including its collection `models/`. */
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

/** The raw resource with another model. */
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

/** Percent-encodes each segment, dot segments included, which would lead to another resource. */
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
