import type { DialectName, Endpoint, EndpointId } from './endpoint.ts';

const proxy = endpoint('proxy', 'openai-chat', false);

/** Endpoints with a name of their own, by their plain spelling; the gateway parses the JSON bodies of most. */
const modelled: ReadonlyMap<string, Endpoint> = new Map([
  ['/chat/completions', endpoint('chat.completions', 'openai-chat', true)],
  ['/completions', endpoint('completions', 'openai-completions', true)],
  ['/embeddings', endpoint('embeddings', 'openai-chat', true)],
  ['/moderations', endpoint('moderations', 'openai-chat', true)],
  ['/rerank', endpoint('rerank', 'openai-chat', true)],
  // Cohere's own path, which LiteLLM uses too.
  ['/v2/rerank', endpoint('rerank', 'openai-chat', true)],
  ['/responses', endpoint('responses', 'openai-responses', true)],
  ['/messages', endpoint('messages', 'anthropic-messages', true)],
  ['/messages/count_tokens', endpoint('messages.count_tokens', 'anthropic-messages', true)],
  ['/images/generations', endpoint('images.generations', 'openai-chat', false)],
  ['/audio/speech', endpoint('audio.speech', 'openai-chat', false)],
]);

const mcp = endpoint('mcp', 'openai-chat', false);
/**
 * MCP servers: `/tickets/mcp`, or `/mcp` for all of them; `sse` instead of `mcp` is the older transport. The documents
 * with which their clients find an authorization server are below `/.well-known`, and the authorization server that the
 * gateway can be itself is below `/mcp/oauth`. Users connect their accounts at servers below `/mcp/connect`, and come back to
 * `/mcp/callback`.
 */
const ofMcp =
  /^(?:\/[a-z0-9_-]{1,64})?\/(?:mcp|sse)$|^\/mcp\/(?:oauth|connect|callback)(?:\/|$)|^\/\.well-known\/(?:oauth-protected-resource|oauth-authorization-server|openid-configuration)(?:\/|$)/;

const generateContent = endpoint('generate-content', 'google-gemini', true);
const otherOfGemini = endpoint('proxy', 'google-gemini', false);

/** Gemini and Vertex name the model and the operation in the path: `/v1beta/models/gemini-2.5-pro:generateContent`. */
const ofGemini =
  /^\/(?:v1(?:alpha|beta)?\d*\/)?(?:projects\/.+\/)?(?:models|tunedmodels|endpoints)\/.+:(stream)?(\w+)$/;

/**
 * Gemini's models under its own versions, which have no operation: `/v1beta/models`, `/v1beta/models/gemini-2.5-pro`.
 */
const modelsOfGemini = /^\/v1(?:alpha|beta)\d*\/models(?:\/|$)/;
const geminiModels = endpoint('models', 'google-gemini', false);

/** The other endpoints, by path prefix: named for analytics, and with the right dialect for errors. */
const families: readonly (readonly [string, Endpoint])[] = [
  ['/images', endpoint('images', 'openai-chat', false)],
  ['/audio', endpoint('audio', 'openai-chat', false)],
  ['/files', endpoint('files', 'openai-chat', false)],
  ['/fine_tuning/jobs', endpoint('fine_tuning.jobs', 'openai-chat', false)],
  ['/batches', endpoint('batches', 'openai-chat', false)],
  ['/models', endpoint('models', 'openai-chat', false)],
  ['/realtime', endpoint('realtime', 'openai-chat', false)],
  ['/responses', endpoint('proxy', 'openai-responses', false)],
  ['/messages', endpoint('proxy', 'anthropic-messages', false)],
];

/**
 * Operation of a request. `path` is raw, relative to the base path and without a query. Never throws: an unknown path
 * is `proxy`.
 *
 * Servers disagree on which spellings of a path are the same (`/chat//completions`, `/chat/%63ompletions`,
 * `/x/../chat/completions`, `/Chat/Completions`, a leading `/proxy`). A path that any of them may take for a modelled
 * endpoint is classified as one, so that no spelling bypasses a guard; the forwarded path stays raw.
 */
export function matchEndpoint(method: string, path: string): Endpoint {
  if (method === 'POST') {
    const plain = modelled.get(path);
    if (plain !== undefined) return plain;
  }
  const canonical = canonicalPath(path);
  if (method === 'POST') {
    const found = modelled.get(canonical);
    if (found !== undefined) return found;
    const operation = ofGemini.exec(canonical)?.[2];
    if (operation !== undefined) return operation === 'generatecontent' ? generateContent : otherOfGemini;
  }
  if (ofMcp.test(canonical)) return mcp;
  if (method !== 'POST' && modelsOfGemini.test(canonical)) return geminiModels;
  for (const [prefix, candidate] of families) {
    if (
      canonical.startsWith(prefix) &&
      (canonical.length === prefix.length || canonical[prefix.length] === '/')
    ) {
      return candidate;
    }
  }
  return proxy;
}

/** Whether a named path of providers begins with this word (`/chat`). */
export function beginsProviderPaths(word: string): boolean {
  const below = (path: string): boolean => path === word || path.startsWith(`${word}/`);
  return [...modelled.keys()].some(below) || families.some(([prefix]) => below(prefix));
}

function endpoint(id: EndpointId, dialect: DialectName, readsBodies: boolean): Endpoint {
  return Object.freeze({ id, dialect, modelled: readsBodies });
}

/** Segments that every server reads alike; most paths consist of such. */
const plainSegments = /^(?:\/[a-z0-9_-][a-z0-9_.-]*)+$/;

/**
 * The path as the most lenient server would read it: decoded once, lower case, no empty or dot segments, no leading
 * `/proxy`.
 */
export function canonicalPath(path: string): string {
  if (plainSegments.test(path) && !path.startsWith('/proxy')) return path;
  const decoded = path
    .replace(/%([0-9a-f]{2})/gi, (_whole, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replaceAll('\\', '/')
    .toLowerCase();
  const segments: string[] = [];
  for (const segment of decoded.split('/')) {
    if (segment === '..') segments.pop();
    else if (segment !== '' && segment !== '.') segments.push(segment);
  }
  if (segments[0] === 'proxy') segments.shift();
  return `/${segments.join('/')}`;
}

/**
 * True for `.` and `..` segments in every spelling that some server understands (percent-encoded once or more, between
 * backslashes, before a `;` or the `:` of an operation): upstream they could leave the provider's base path.
 */
export function hasDotSegment(path: string): boolean {
  if (!path.includes('/.') && !path.includes('%') && !path.includes('\\')) return false;
  return /(?:[/\\]|%(?:25)*(?:2f|5c))(?:\.|%(?:25)*2e){1,2}(?:[/\\;:]|%(?:25)*(?:2f|5c|3b|3a)|$)/i.test(path);
}
