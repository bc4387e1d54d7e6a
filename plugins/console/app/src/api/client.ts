import createClient, { type Middleware } from 'openapi-fetch';
import { facts } from '@/api/facts';
import type { paths } from '@/api/schema.gen';
import { checks } from '@/texts/checks';

/** A mistake in a body, at its place. */
export interface Mistake {
  /** JSON pointer: `/usage_limits/credit_limit`. */
  readonly path: string;
  readonly message: string;
}

/** A refusal of the gateway, in its own words. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  /** The field of the body that it is about, as a JSON pointer or name; empty for none. */
  readonly param: string;
  /** Every mistake of a refused body. */
  readonly mistakes: readonly Mistake[];

  constructor(
    status: number,
    code: string,
    message: string,
    param: string,
    mistakes: readonly Mistake[] = [],
  ) {
    super(message);
    this.mistakes = mistakes;
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

/** Whether the gateway, or a store of it, may be back in a moment; a refusal stays a refusal. */
export function isPassing(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || error.status >= 500);
}

/** Whether there is no record of the id that was asked for: none that the caller may see, or it is no id at all. */
export function isMissing(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  if (error.status === 404) return error.code !== 'route_not_found';
  return error.status === 400 && error.mistakes.some(({ path }) => path === '/id');
}

const base = facts.basePath === '/' ? '' : facts.basePath;

/** Address of the API for programs: `http://…/v1`. */
export const apiAddress = location.origin + base;

let csrf = facts.session?.csrf;
let onEnd: () => void = () => undefined;

/** The session of the page begins, or ends (undefined). */
export function setCsrf(token: string | undefined): void {
  csrf = token;
}

/** Is called when the gateway says that the session has ended. */
export function whenSessionEnds(run: () => void): void {
  onEnd = run;
}

/** Headers of each request in the name of the user. */
export function callerHeaders(): Record<string, string> {
  return csrf === undefined ? {} : { [`${facts.prefix}-csrf`]: csrf };
}

/** A request to the API by its path below the base path, whatever its status; rejects when the gateway does not answer. */
export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  for (const [name, value] of Object.entries(callerHeaders())) headers.set(name, value);
  let answer: Response;
  try {
    answer = await fetch((isOutside(path) ? '' : base) + path, { ...init, headers });
  } catch (error) {
    throw unanswered(error);
  }
  return answer;
}

/** The error of a request that got no answer; that of one which the page gave up stays as it is. */
function unanswered(error: unknown): Error {
  if (error instanceof DOMException && error.name === 'AbortError') return error;
  return new ApiError(0, 'unreachable', navigator.onLine ? checks.unreachable : checks.offline, '');
}

/** As `ask`; rejects with an `ApiError` unless the answer is a success. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const answer = await ask(path, init);
  if (!answer.ok) throw await errorOf(answer, !isOutside(path));
  return answer;
}

const operational = new Set(['/status', '/readyz', '/healthz', '/openapi.json', '/metrics']);

/** Whether a path stands beside the base path of the API, not below it. */
function isOutside(path: string): boolean {
  return path.startsWith('/console') || operational.has(path.split('?')[0] ?? '');
}

/** As `send`, with its JSON. */
export async function json<T>(path: string, init?: RequestInit): Promise<T> {
  return (await send(path, init)).json() as Promise<T>;
}

/** The refusal that an answer is. `ends`: a refused credential ends the session; pages for owners refuse every other caller. */
export async function errorOf(answer: Response, ends = true): Promise<ApiError> {
  const text = await answer.text().catch(() => '');
  let said: { message?: unknown; code?: unknown; param?: unknown; errors?: unknown } = {};
  try {
    const body = JSON.parse(text) as { error?: typeof said; data?: typeof said; errors?: unknown };
    said = { errors: body.errors, ...(body.error ?? body.data ?? {}) };
  } catch {
    // Not a word of the gateway: a proxy before it, say.
  }
  const code = typeof said.code === 'string' ? said.code : '';
  if (answer.status === 401 && ends && csrf !== undefined) onEnd();
  const message = typeof said.message === 'string' ? said.message : checks.status(answer.status);
  const param = typeof said.param === 'string' ? said.param : '';
  return new ApiError(answer.status, code, message, param, mistakesOf(said.errors));
}

function mistakesOf(errors: unknown): readonly Mistake[] {
  if (!Array.isArray(errors)) return [];
  return errors.flatMap((one: unknown) => {
    const { path, message } = (typeof one === 'object' && one !== null ? one : {}) as Partial<Mistake>;
    return typeof path === 'string' && typeof message === 'string' ? [{ path, message }] : [];
  });
}

const throwing: Middleware = {
  onRequest({ request }) {
    for (const [name, value] of Object.entries(callerHeaders())) request.headers.set(name, value);
    return request;
  },
  async onResponse({ response }) {
    if (!response.ok) throw await errorOf(response);
    return response;
  },
  onError: ({ error }) => (error instanceof ApiError ? error : unanswered(error)),
};

/** The administration API, typed by its own document. Every call rejects with an `ApiError` unless it succeeds. */
export const api = createClient<paths>({ baseUrl: apiAddress });
api.use(throwing);

/** The data of a call whose failure is thrown. */
export async function dataOf<T>(call: Promise<{ data?: T }>): Promise<T> {
  return (await call).data as T;
}
