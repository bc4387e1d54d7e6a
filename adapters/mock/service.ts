import { type HeaderList, headerValue } from '../../core/ports/header-list.ts';
import {
  answerOf,
  errorOf,
  type MockAnswer,
  type MockDialect,
  MockProblem,
  type PlainAnswer,
} from './answer.ts';
import {
  FailCounter,
  faultRules,
  type Faults,
  type JsonObject,
  type MockContext,
  type MockRequest,
  type ReceivedBody,
  secretHeaders,
} from './request.ts';
import { RealtimeSession } from './endpoints/realtime.ts';
import { answerChat } from './endpoints/chat/chat.ts';
import { answerCompletions } from './endpoints/completions.ts';
import { echo, models } from './endpoints/echo.ts';
import { answerEmbeddings, gemini } from './endpoints/embeddings.ts';
import { files, jobs } from './endpoints/files.ts';
import { answerImages, answerSpeech } from './endpoints/media.ts';
import { answerMessages, countMessageTokens } from './endpoints/messages.ts';
import { answerModerations } from './endpoints/moderations.ts';
import { answerRerank } from './endpoints/rerank.ts';
import { answerResponses, countInputTokens } from './endpoints/responses.ts';
import { isJsonObject } from '../../core/base/json.ts';
import { decodePercent } from '../../core/base/bytes.ts';
import { wordOfStatus } from '../dialects/google-gemini/errors.ts';

/** The body of an error answer in Gemini's shape. */
function geminiError({ status, message }: MockProblem): object {
  return { error: { code: status, message, status: wordOfStatus(status) } };
}

const errors = { openai: errorOf.openai, anthropic: errorOf.anthropic, gemini: geminiError };

/** An error answer in the shape of the dialect. */
function problemAnswer(problem: MockProblem, dialect: MockDialect): PlainAnswer {
  return answerOf.json(errors[dialect](problem), problem.status, problem.headers);
}

const maxEchoedHeaderBytes = 8192;

/** A request with its whole body. */
interface ReceivedRequest {
  /** `mock:` and the faults in the provider's base URL. */
  readonly origin: string;
  readonly method: string;
  /** Raw path and query. */
  readonly target: string;
  readonly headers: HeaderList;
  readonly body: ReceivedBody;
}

/** An answer with its faults. */
export interface ServedAnswer {
  readonly answer: MockAnswer;
  readonly faults: Faults;
}

/** A WebSocket conversation with its faults. */
export interface Conversation {
  readonly session: RealtimeSession;
  readonly faults: Faults;
}

/** Computes the mock provider's answers, independently of time and connections. */
export class MockService {
  readonly #context: MockContext;
  readonly #failures = new FailCounter();

  constructor(context: MockContext) {
    this.#context = context;
  }

  /** Never throws for client input: an invalid request gets an error answer. */
  serve(received: ReceivedRequest): ServedAnswer {
    const at = received.target.indexOf('?');
    const path = at < 0 ? received.target : received.target.slice(0, at);
    const query = new URLSearchParams(at < 0 ? '' : received.target.slice(at + 1));
    const route = findRoute(received.method, path, received.headers);
    const dialect = route.dialect;
    let faults: Faults = {};
    let answer: MockAnswer;
    try {
      const json = parseJson(received.body);
      faults = this.#faultsOf(received, modelOf(json, query, route));
      if (faults.status !== undefined) throw requestedStatusProblem(faults.status, faults.retry_after);
      answer = this.#answer(route, received, { path, query, json, faults });
    } catch (error) {
      if (!(error instanceof MockProblem)) throw error;
      answer = problemAnswer(error, dialect);
    }
    const added = this.#addedHeaders(received, faults, dialect);
    return { answer: { ...answer, headers: [...answer.headers, ...added] }, faults };
  }

  /**
   * The conversation that a WebSocket upgrade starts, or the answer that declines it: the Realtime API switches
   * protocols, every other path is served as plain HTTP.
   */
  converse(received: ReceivedRequest): Conversation | ServedAnswer {
    const { method, headers, body, target } = received;
    const { pathname: path, searchParams: query } = new URL(target, 'mock://mock');
    if (!/^(?:\/v1)?\/realtime\/?$/.test(path) || headerValue(headers, 'sec-websocket-key') === undefined)
      return this.serve(received);
    let faults: Faults = {};
    try {
      faults = this.#faultsOf(received, query.get('model') ?? '');
      if (faults.status !== undefined) throw requestedStatusProblem(faults.status, faults.retry_after);
    } catch (error) {
      if (!(error instanceof MockProblem)) throw error;
      return { answer: problemAnswer(error, 'openai'), faults };
    }
    const request: MockRequest = { method, path, query, headers, body, json: {}, params: [], faults };
    return { session: new RealtimeSession(request, this.#context), faults };
  }

  #answer(
    route: FoundRoute,
    received: ReceivedRequest,
    parts: { path: string; query: URLSearchParams; json: JsonObject | string; faults: Faults },
  ): MockAnswer {
    const { path, query, faults } = parts;
    let json: JsonObject = {};
    if (route.body === 'json') {
      if (typeof parts.json === 'string') throw unreadable(received, parts.json);
      json = parts.json;
    }
    const { method, headers, body } = received;
    const request: MockRequest = {
      method,
      path,
      query,
      headers,
      body,
      json,
      params: route.params,
      faults,
    };
    return route.answer(request, this.#context);
  }

  #faultsOf(received: ReceivedRequest, model: string): Faults {
    const inUrl = received.origin.replace(/^mock:\??/, '');
    const inHeader = headerValue(received.headers, 'x-mock-faults') ?? '';
    const inModel = faultRules.ofModel(model);
    if (inUrl === '' && inHeader === '' && inModel === '') return {};
    const faults: Faults = {
      ...faultRules.parse(inUrl, 'base_url'),
      ...faultRules.parse(inHeader, 'x-mock-faults'),
      ...faultRules.parse(inModel, 'model'),
    };
    if (faults.fail_rate === undefined) return faults;
    if (!this.#failures.next(`${inUrl}\n${inHeader}\n${inModel}`, faults.fail_rate)) {
      return faultRules.withoutFailures(faults);
    }
    return faultRules.hasFailure(faults) ? faults : { ...faults, status: 500 };
  }

  #addedHeaders(received: ReceivedRequest, faults: Faults, dialect: MockDialect): string[] {
    const headers =
      dialect === 'anthropic'
        ? [
            'request-id',
            this.#context.newId('req_'),
            'anthropic-ratelimit-requests-limit',
            '10000',
            'anthropic-ratelimit-requests-remaining',
            '9999',
          ]
        : [
            'x-request-id',
            this.#context.newId('req_'),
            'x-ratelimit-limit-requests',
            '10000',
            'x-ratelimit-remaining-requests',
            '9999',
          ];
    if (faults.echo_headers !== true) return headers;
    let size = 0;
    for (const [name, value] of secretHeaders.masked(received.headers)) {
      size += name.length + value.length;
      if (size > maxEchoedHeaderBytes) break;
      headers.push(`x-mock-echo-${name}`, value);
    }
    return headers;
  }
}

/** The model of a request: from its body, Gemini's path, or (without a body) its query. */
function modelOf(json: JsonObject | string, query: URLSearchParams, route: FoundRoute): string {
  const said = typeof json === 'string' ? undefined : json['model'];
  if (typeof said === 'string') return said;
  return (route.dialect === 'gemini' ? route.params[0] : query.get('model')) ?? '';
}

function requestedStatusProblem(status: number, retryAfter: number | undefined): MockProblem {
  return new MockProblem(status, `The mock provider was asked to answer with status ${status}.`, {
    headers: retryAfter === undefined ? [] : ['retry-after', String(retryAfter)],
  });
}

/** The JSON object of a body, or an error text. */
function parseJson(body: ReceivedBody): JsonObject | string {
  if (body.held === undefined) return 'too large';
  if (body.size === 0) return 'empty';
  const first = body.held[0];
  // Multipart and binary bodies skip the parser's exception: JSON starts with a brace or white space.
  if (first !== 0x7b && first !== 0x20 && first !== 0x0a && first !== 0x0d && first !== 0x09)
    return 'no object';
  try {
    const value: unknown = JSON.parse(body.held.toString('utf8'));
    return isJsonObject(value) ? value : 'no object';
  } catch {
    return 'no valid JSON';
  }
}

function unreadable(received: ReceivedRequest, reason: string): MockProblem {
  const encoding = headerValue(received.headers, 'content-encoding');
  if (encoding !== undefined && encoding !== 'identity') {
    return new MockProblem(
      415,
      `The mock provider reads no body with content-encoding ${encoding.slice(0, 40)}.`,
    );
  }
  if (reason === 'too large') {
    return new MockProblem(413, 'The mock provider reads JSON bodies of at most 32 MiB.');
  }
  return new MockProblem(400, `We could not parse the JSON body of your request: it is ${reason}.`);
}

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
interface FoundRoute extends Route {
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
  json('/models/*:countTokens', gemini.countTokens, 'gemini'),
  json('/models/*:embedContent', gemini.embedContent, 'gemini'),
  json('/models/*:batchEmbedContents', gemini.embedContents, 'gemini'),
  json('/rerank', answerRerank),
  json('/v2/rerank', answerRerank),
  json('/responses/input_tokens', countInputTokens),
  json('/audio/speech', answerSpeech),
  json('/images/generations', answerImages),
  plain('GET', '/files', files.list),
  plain('POST', '/files', files.upload),
  plain('GET', '/files/*', files.get),
  plain('DELETE', '/files/*', files.delete),
  plain('GET', '/files/*/content', files.content),
  plain('GET', '/fine_tuning/jobs', jobs.list),
  json('/fine_tuning/jobs', jobs.create),
  plain('GET', '/fine_tuning/jobs/*', jobs.get),
  plain('POST', '/fine_tuning/jobs/*/cancel', jobs.cancel),
  plain('GET', '/models', models.list),
  plain('GET', '/models/**', models.get),
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
function findRoute(method: string, path: string, headers: HeaderList): FoundRoute {
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
      const isOfModels = route.answer === models.list || route.answer === models.get;
      return { ...route, params, dialect: isOfModels ? models.dialect({ path, headers }) : route.dialect };
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
    if (part === '**') params.push(decodePercent(segments.slice(index).join('/')));
    else if (part === '*') params.push(decodePercent(segment));
    else if (part.startsWith('*:') && segment.endsWith(part.slice(1)))
      params.push(decodePercent(segment.slice(0, 1 - part.length)));
    else if (part !== segment) return undefined;
  }
  return params;
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

/** A 501 for a route that providers have and the mock provider does not simulate. It tells SDKs not to retry. */
function notPlayed(method: string, path: string): MockProblem {
  return new MockProblem(
    501,
    `The mock provider does not play ${method} ${path.slice(0, 200)}. docs/mock-provider.md lists what it plays; name another provider for this request.`,
    { code: 'not_played', headers: ['x-should-retry', 'false'] },
  );
}
