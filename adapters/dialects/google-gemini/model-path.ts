import { decodePercent, encodeSegment } from '../../../core/base/bytes.ts';

/** Paths that name a model and a method. */
export const geminiPath = { read: readModelPath, resource: modelResource, encodeResource, withoutKey };

/** Components of a path of this wire: `/v1beta/models/gemini-2.5-pro:generateContent`. */
interface ModelPath {
  /** `v1beta`, `v1`, … or empty when the path starts with the collection. */
  readonly version: string;
  /** `models/gemini-2.5-pro`, `tunedModels/x`; decoded. */
  readonly resource: string;
  /** The resource without `models/`: the model name that a client would use. */
  readonly model: string;
  /** `generateContent`; empty when the path names none. */
  readonly method: string;
}

const version = /^v\d+(?:(?:alpha|beta)\d*)?$/;
const collections = ['models', 'tunedModels', 'projects', 'publishers', 'endpoints', 'dynamic'];

/**
 * Reads a raw path below the gateway's base path. A leading `/proxy` is ignored. Undefined when the path names no
 * model. Full resource names (`projects/…/publishers/google/models/x`, the form of Vertex) are models, too.
 */
function readModelPath(path: string): ModelPath | undefined {
  const segments = path.split('/').filter((segment) => segment !== '');
  if (segments[0] === 'proxy') segments.shift();
  const first = segments[0];
  const versionSegment = first !== undefined && version.test(first) ? first : '';
  if (versionSegment !== '') segments.shift();
  if (segments.length < 2 || !collections.includes(segments[0] as string)) return undefined;
  const name = decodePercent(segments.join('/'));
  const slash = name.lastIndexOf('/');
  const colon = name.lastIndexOf(':');
  const resource = colon > slash ? name.slice(0, colon) : name;
  return {
    version: versionSegment,
    resource,
    model: resource.startsWith('models/') ? resource.slice('models/'.length) : resource,
    method: colon > slash ? name.slice(colon + 1) : '',
  };
}

/** The resource of a model name: a bare name gets the prefix `models/`. */
function modelResource(model: string): string {
  return model.includes('/') ? model : `models/${model}`;
}

/** A resource name as path segments, each percent-encoded. */
function encodeResource(resource: string): string {
  return resource.split('/').map(encodeSegment).join('/');
}

/** The raw query without the client's `key`: the host gets its configured credential, never the caller's. */
function withoutKey(query: string): string {
  if (!query.includes('key=')) return query;
  const kept = query
    .slice(1)
    .split('&')
    .filter((pair) => !pair.startsWith('key='))
    .join('&');
  return kept === '' ? '' : `?${kept}`;
}
