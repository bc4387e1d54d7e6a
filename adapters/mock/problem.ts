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
