import { type MockAnswer, type MockDialect, MockProblem, notPlayed } from './answer.ts';
import type { HeaderList } from '../../core/ports/header-list.ts';
import type { MockContext, MockRequest } from './request.ts';
import { answerChat } from './endpoints/chat/chat.ts';
import { answerCompletions } from './endpoints/completions.ts';
import { echo, getModel, listModels, modelsDialect } from './endpoints/echo.ts';
import {
  answerEmbeddings,
  countGeminiTokens,
  embedGeminiContent,
  embedGeminiContents,
} from './endpoints/embeddings.ts';
import {
  cancelJob,
  createJob,
  deleteFile,
  fileContent,
  getFile,
  getJob,
  listFiles,
  listJobs,
  uploadFile,
} from './endpoints/files.ts';
import { answerImages } from './endpoints/images.ts';
import { answerMessages, countMessageTokens } from './endpoints/messages.ts';
import { answerModerations } from './endpoints/moderations.ts';
import { answerRerank } from './endpoints/rerank.ts';
import { answerResponses, countInputTokens } from './endpoints/responses.ts';
import { answerSpeech } from './endpoints/speech.ts';

type Endpoint = (request: MockRequest, context: MockContext) => MockAnswer;

interface Route {
  readonly method: string;
  /**
   * Segments; `*` stands for one variable segment, `*:word` for one that ends with `:word`, `**` at the end for all
   * remaining ones.
   */
  readonly pattern: readonly string[];
  readonly body: 'json' | 'any';
  readonly answer: Endpoint;
  readonly dialect: MockDialect;
}

/** The route of a request, with the path's variable segments. */
export interface FoundRoute extends Route {
  readonly params: readonly string[];
}

const routes: readonly Route[] = [
  json('/chat/completions', answerChat),
  json('/completions', answerCompletions),
  json('/embeddings', answerEmbeddings),
  json('/moderations', answerModerations),
  json('/responses', answerResponses),
  json('/messages', answerMessages, 'anthropic'),
  json('/messages/count_tokens', countMessageTokens, 'anthropic'),
  json('/models/*:countTokens', countGeminiTokens, 'gemini'),
  json('/models/*:embedContent', embedGeminiContent, 'gemini'),
  json('/models/*:batchEmbedContents', embedGeminiContents, 'gemini'),
  json('/rerank', answerRerank),
  json('/v2/rerank', answerRerank),
  json('/responses/input_tokens', countInputTokens),
  json('/audio/speech', answerSpeech),
  json('/images/generations', answerImages),
  plain('GET', '/files', listFiles),
  plain('POST', '/files', uploadFile),
  plain('GET', '/files/*', getFile),
  plain('DELETE', '/files/*', deleteFile),
  plain('GET', '/files/*/content', fileContent),
  plain('GET', '/fine_tuning/jobs', listJobs),
  json('/fine_tuning/jobs', createJob),
  plain('GET', '/fine_tuning/jobs/*', getJob),
  plain('POST', '/fine_tuning/jobs/*/cancel', cancelJob),
  plain('GET', '/models', listModels),
  plain('GET', '/models/**', getModel),
];

/** Routes of providers that the mock provider does not simulate: each path with everything below it. */
const unplayed: readonly (readonly [MockDialect, readonly string[]])[] = [
  ['anthropic', ['messages', 'complete', 'skills']],
  ['gemini', ['cachedContents', 'corpora', 'fileSearchStores', 'interactions', 'operations', 'tunedModels']],
  [
    'openai',
    [
      ...['assistants', 'audio', 'batches', 'chat', 'chatkit', 'containers', 'conversations', 'evals'],
      ...['fine_tuning', 'images', 'organization', 'realtime', 'responses', 'threads', 'uploads'],
      ...['vector_stores', 'videos'],
      // Azure OpenAI, Bedrock, Cohere
      ...['openai', 'model', 'v2'],
    ],
  ],
];

const unplayedDialects: ReadonlyMap<string, MockDialect> = new Map(
  unplayed.flatMap(([dialect, words]) => words.map((word) => [word, dialect] as const)),
);

/** Routes of which only one method is simulated: not the lists of stored chats and responses. */
const unplayedMethods: ReadonlySet<string> = new Set(['GET /chat/completions']);

const echoRoute: FoundRoute = {
  method: '*',
  pattern: [],
  body: 'any',
  answer: echo,
  dialect: 'openai',
  params: [],
};

/**
 * The endpoint of a method and path (with or without `/v1`, `/v1beta`, `/v1alpha`). A provider route that is not
 * simulated answers 501; a path unknown to all providers is echoed.
 */
export function findRoute(method: string, path: string, headers: HeaderList): FoundRoute {
  const segments = path.split('/').filter((segment) => segment !== '');
  const version = /^v1(?:alpha|beta)?$/.exec(segments[0] ?? '')?.[0];
  if (version !== undefined) segments.shift();
  const wanted = method === 'HEAD' ? 'GET' : method;
  const ofGemini = version !== undefined && version !== 'v1';
  if (unplayedMethods.has(`${wanted} /${segments.join('/')}`)) return unplayedRoute(method, path, 'openai');
  const allowed: string[] = [];
  let dialect: MockDialect = 'openai';
  for (const route of routes) {
    const params = match(route.pattern, segments);
    if (params === undefined) continue;
    if (route.method === wanted) {
      const isOfModels = route.answer === listModels || route.answer === getModel;
      return { ...route, params, dialect: isOfModels ? modelsDialect({ path, headers }) : route.dialect };
    }
    allowed.push(route.method);
    dialect = route.dialect;
  }
  const last = segments.at(-1) ?? '';
  if (ofGemini || (segments[0] === 'models' && /:\w+$/.test(last) && wanted === 'POST'))
    return unplayedRoute(method, path, 'gemini');
  if (allowed.length > 0) return wrongMethod(method, allowed, dialect);
  const unplayedDialect = unplayedDialects.get(segments[0] ?? '');
  return unplayedDialect === undefined ? echoRoute : unplayedRoute(method, path, unplayedDialect);
}

function unplayedRoute(method: string, path: string, dialect: MockDialect): FoundRoute {
  const answer = (): never => {
    throw notPlayed(method, path);
  };
  return { ...echoRoute, answer, dialect };
}

function match(pattern: readonly string[], segments: readonly string[]): string[] | undefined {
  const rest = pattern.at(-1) === '**';
  if (rest ? segments.length < pattern.length : segments.length !== pattern.length) return undefined;
  const params: string[] = [];
  for (const [index, part] of pattern.entries()) {
    const segment = segments[index] as string;
    if (part === '**') params.push(decoded(segments.slice(index).join('/')));
    else if (part === '*') params.push(decoded(segment));
    else if (part.startsWith('*:') && segment.endsWith(part.slice(1)))
      params.push(decoded(segment.slice(0, 1 - part.length)));
    else if (part !== segment) return undefined;
  }
  return params;
}

/** A segment with invalid percent-encoding stays unchanged: it matches nothing and gets a 404. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function wrongMethod(method: string, allowed: readonly string[], dialect: MockDialect): FoundRoute {
  const answer = (): never => {
    throw new MockProblem(405, `Not allowed to ${method} here; allowed: ${allowed.join(', ')}.`, {
      code: 'method_not_allowed',
      headers: ['allow', allowed.join(', ')],
    });
  };
  return { ...echoRoute, answer, dialect };
}

function json(path: string, answer: Endpoint, dialect: MockDialect = 'openai'): Route {
  return { method: 'POST', pattern: path.slice(1).split('/'), body: 'json', answer, dialect };
}

function plain(method: string, path: string, answer: Endpoint): Route {
  return { method, pattern: path.slice(1).split('/'), body: 'any', answer, dialect: 'openai' };
}
