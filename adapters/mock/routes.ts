import type { MockAnswer, MockDialect } from './answer.ts';
import type { MockContext, MockRequest } from './context.ts';
import { answerChat } from './endpoints/chat/chat.ts';
import { answerCompletions } from './endpoints/completions.ts';
import { echo } from './endpoints/echo.ts';
import { answerEmbeddings } from './endpoints/embeddings.ts';
import { deleteFile, fileContent, getFile, listFiles, uploadFile } from './endpoints/files.ts';
import { cancelJob, createJob, getJob, listJobs } from './endpoints/fine-tuning-jobs.ts';
import { answerImages } from './endpoints/images.ts';
import { answerMessages } from './endpoints/messages.ts';
import { getModel, listModels } from './endpoints/models.ts';
import { answerModerations } from './endpoints/moderations.ts';
import { answerRerank } from './endpoints/rerank.ts';
import { answerResponses } from './endpoints/responses.ts';
import { answerSpeech } from './endpoints/speech.ts';
import { MockProblem } from './problem.ts';

type Endpoint = (request: MockRequest, context: MockContext) => MockAnswer;

interface Route {
  readonly method: string;
  /** Segments; `*` stands for one variable segment, `**` at the end for all that is left. */
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
  json('/rerank', answerRerank),
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

const echoRoute: FoundRoute = {
  method: '*',
  pattern: [],
  body: 'any',
  answer: echo,
  dialect: 'openai',
  params: [],
};

/** The endpoint of a method and path (with or without `/v1`). A path that no endpoint knows is echoed. */
export function findRoute(method: string, path: string): FoundRoute {
  const segments = path.split('/').filter((segment) => segment !== '');
  if (segments[0] === 'v1') segments.shift();
  const wanted = method === 'HEAD' ? 'GET' : method;
  const allowed: string[] = [];
  let dialect: MockDialect = 'openai';
  for (const route of routes) {
    const params = match(route.pattern, segments);
    if (params === undefined) continue;
    if (route.method === wanted) return { ...route, params };
    allowed.push(route.method);
    dialect = route.dialect;
  }
  return allowed.length === 0 ? echoRoute : wrongMethod(method, allowed, dialect);
}

function match(pattern: readonly string[], segments: readonly string[]): string[] | undefined {
  const rest = pattern.at(-1) === '**';
  if (rest ? segments.length < pattern.length : segments.length !== pattern.length) return undefined;
  const params: string[] = [];
  for (const [index, part] of pattern.entries()) {
    const segment = segments[index] as string;
    if (part === '**') params.push(decoded(segments.slice(index).join('/')));
    else if (part === '*') params.push(decoded(segment));
    else if (part !== segment) return undefined;
  }
  return params;
}

/** A segment that is no valid percent-encoding is taken as it is: it names nothing and gets a 404. */
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
