import { answerOf, invalid, type MockAnswer, type MockDialect, MockProblem, unknownId } from '../answer.ts';
import { fields, type MockRequest, secretHeaders } from '../request.ts';
import { headerValue } from '../../../core/ports/header-list.ts';

/** The lists of models, in each dialect. */
export const models = { dialect: modelsDialect, list: listModels, get: getModel };

const ids = [
  'mock-gpt',
  'mock-gpt-mini',
  'mock-embedding',
  'mock-rerank',
  'mock-image',
  'mock-speech',
  'text-moderation-latest',
  'text-moderation-stable',
  'gpt-4o-mini-2024-07-18',
];

/** The wire of a request for models: by a header that only one client sends, or by the version in the path. */
function modelsDialect({ path, headers }: Pick<MockRequest, 'path' | 'headers'>): MockDialect {
  if (/^\/v1(?:alpha|beta)\//.test(path) || headerValue(headers, 'x-goog-api-key') !== undefined)
    return 'gemini';
  return headerValue(headers, 'anthropic-version') === undefined ? 'openai' : 'anthropic';
}

/** GET /models, in the shape of the requesting wire. */
function listModels(request: MockRequest): MockAnswer {
  switch (modelsDialect(request)) {
    case 'gemini':
      return geminiList(request.query);
    case 'anthropic':
      return anthropicList(request.query);
    case 'openai':
      return answerOf.json({ object: 'list', data: ids.map(openAiRecord) });
  }
}

/** GET /models/{id}; any name that starts with `mock` exists. */
function getModel(request: MockRequest): MockAnswer {
  const id = request.params[0] ?? '';
  if (!ids.includes(id) && !/^mock($|[-:])/.test(id)) {
    throw new MockProblem(404, `The model '${id.slice(0, 200)}' does not exist.`, {
      param: 'model',
      code: 'model_not_found',
    });
  }
  return answerOf.json(records[modelsDialect(request)](id));
}

const records = { openai: openAiRecord, anthropic: anthropicRecord, gemini: geminiRecord };

function geminiList(query: URLSearchParams): MockAnswer {
  const size = fields.pageLimit(query, 'pageSize', { fallback: 50, most: 1000 });
  const token = query.get('pageToken') || '0';
  const start = /^\d{1,4}$/.test(token) ? Number(token) : NaN;
  if (!(start <= ids.length))
    throw invalid('pageToken', "Invalid 'pageToken': send the one of the page before.");
  const end = start + size;
  return answerOf.json({
    models: ids.slice(start, end).map(geminiRecord),
    ...(end < ids.length && { nextPageToken: String(end) }),
  });
}

function anthropicList(query: URLSearchParams): MockAnswer {
  const limit = fields.pageLimit(query, 'limit', { fallback: 20, most: 1000 });
  const after = positionOf(query.get('after_id'));
  const before = positionOf(query.get('before_id'));
  const start = after !== undefined ? after + 1 : before !== undefined ? Math.max(0, before - limit) : 0;
  const end = before === undefined ? start + limit : before;
  const page = ids.slice(start, end);
  return answerOf.json({
    data: page.map(anthropicRecord),
    has_more: before === undefined ? end < ids.length : start > 0,
    first_id: page[0] ?? null,
    last_id: page.at(-1) ?? null,
  });
}

function positionOf(id: string | null): number | undefined {
  if (id === null) return undefined;
  const found = ids.indexOf(id);
  if (found < 0) throw unknownId('model', id);
  return found;
}

function openAiRecord(id: string): object {
  return { id, object: 'model', created: 1_759_276_800, owned_by: 'mock' };
}

function anthropicRecord(id: string): object {
  return { type: 'model', id, display_name: nameOf(id), created_at: '2025-10-01T00:00:00Z' };
}

function geminiRecord(id: string): object {
  return {
    name: `models/${id}`,
    baseModelId: id,
    version: '1',
    displayName: nameOf(id),
    description: 'A model of the built-in mock provider.',
    inputTokenLimit: 1_000_000,
    outputTokenLimit: 100_000,
    supportedGenerationMethods: ['generateContent', 'countTokens', 'embedContent'],
  };
}

/** `mock-gpt` → `Mock gpt`. */
function nameOf(id: string): string {
  const words = id.replaceAll('-', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Any path without an endpoint: returns the request with masked credentials. */
export function echo(request: MockRequest): MockAnswer {
  return answerOf.json({
    object: 'mock.echo',
    method: request.method,
    path: request.path,
    query: grouped(
      [...request.query].map(([name, value]) => [name, secretHeaders.areCarried(name) ? '***' : value]),
    ),
    headers: grouped(secretHeaders.masked(request.headers)),
    body_bytes: request.body.size,
    body_sha256: request.body.digest(),
  });
}

/** By name; a repeated name holds the list of its values. */
function grouped(pairs: readonly (readonly [string, string])[]): Record<string, string | string[]> {
  const byName = new Map<string, string | string[]>();
  for (const [name, value] of pairs) {
    const before = byName.get(name);
    byName.set(name, before === undefined ? value : [before, value].flat());
  }
  return Object.fromEntries(byName);
}
