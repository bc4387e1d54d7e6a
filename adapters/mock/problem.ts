import { wordOfStatus } from '../dialects/google-gemini/error-status.ts';

/** What an error answer says beside its status and message. */
export interface ProblemDetails {
  readonly param?: string;
  readonly code?: string;
  /** Headers of the answer, flat. */
  readonly headers?: readonly string[];
}

/** Thrown by the mock provider's endpoints; becomes an error answer in the shape of the endpoint's dialect. */
export class MockProblem extends Error {
  readonly status: number;
  readonly param: string | null;
  readonly code: string | null;
  readonly headers: readonly string[];

  constructor(status: number, message: string, details: ProblemDetails = {}) {
    super(message);
    this.name = 'MockProblem';
    this.status = status;
    this.param = details.param ?? null;
    this.code = details.code ?? null;
    this.headers = details.headers ?? [];
  }
}

/** A 400 that names the parameter at fault, as OpenAI words it. */
export function invalid(param: string, message: string, code = 'invalid_value'): MockProblem {
  return new MockProblem(400, message, { param, code });
}

/** A 404 for an identifier that the mock provider does not hold. */
export function unknownId(what: string, id: string): MockProblem {
  return new MockProblem(404, `No such ${what}: '${id.slice(0, 200)}'.`, { param: 'id', code: 'not_found' });
}

/** A 501 for a route that providers have and the mock provider does not play. SDKs are told not to try again. */
export function notPlayed(method: string, path: string): MockProblem {
  return new MockProblem(
    501,
    `The mock provider does not play ${method} ${path.slice(0, 200)}. docs/mock-provider.md lists what it plays; name another provider for this request.`,
    { code: 'not_played', headers: ['x-should-retry', 'false'] },
  );
}

const openaiTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  429: 'rate_limit_error',
};

const openaiCodes: Readonly<Record<number, string>> = {
  401: 'invalid_api_key',
  404: 'not_found',
  429: 'rate_limit_exceeded',
};

const anthropicTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  501: 'not_implemented_error',
  529: 'overloaded_error',
};

/** The body of an error answer in OpenAI's shape. */
export function openaiError(problem: MockProblem): object {
  const fallback = problem.status >= 500 ? 'server_error' : 'invalid_request_error';
  return {
    error: {
      message: problem.message,
      type: openaiTypes[problem.status] ?? fallback,
      param: problem.param,
      code: problem.code ?? openaiCodes[problem.status] ?? null,
    },
  };
}

/** The body of an error answer in Anthropic's shape. */
export function anthropicError(problem: MockProblem): object {
  const fallback = problem.status >= 500 ? 'api_error' : 'invalid_request_error';
  return {
    type: 'error',
    error: { type: anthropicTypes[problem.status] ?? fallback, message: problem.message },
  };
}

/** The body of an error answer in Gemini's shape. */
export function geminiError({ status, message }: MockProblem): object {
  return { error: { code: status, message, status: wordOfStatus(status) } };
}
