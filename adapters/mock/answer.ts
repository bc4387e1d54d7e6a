/** An error in the shape of each API. */
export const errorOf = { openai: openaiError, anthropic: anthropicError };
/** A frame of an event stream. */
export const frameOf = { data: dataFrame, named: namedFrame };
/** An answer of each form. */
export const answerOf = { json: jsonAnswer, bytes: bytesAnswer, stream: streamAnswer };
/** Texts of answers, and their tokens. */
export const answerTexts = {
  countTokens,
  cutTokens,
  groupTokens,
  limit: limitText,
  sentence: mockSentence,
  quote,
};
/** Upper bound of tokens in one answer, all choices together. */
export const maxAnswerTokens = 100_000;

/** Members of an error answer in addition to its status and message. */
interface ProblemDetails {
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

/** A 400 that names the invalid parameter, in OpenAI's wording. */
export function invalid(param: string, message: string, code = 'invalid_value'): MockProblem {
  return new MockProblem(400, message, { param, code });
}

/** A 404 for an unknown identifier. */
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
  501: 'not_implemented_error',
  529: 'overloaded_error',
};

/** The body of an error answer in OpenAI's shape. */
function openaiError(problem: MockProblem): object {
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
function anthropicError(problem: MockProblem): object {
  const fallback = problem.status >= 500 ? 'api_error' : 'invalid_request_error';
  return {
    type: 'error',
    error: { type: anthropicTypes[problem.status] ?? fallback, message: problem.message },
  };
}

/** A whole answer. */
export interface PlainAnswer {
  readonly kind: 'plain';
  readonly status: number;
  /** Flat, without `content-length`. */
  readonly headers: readonly string[];
  readonly body: Buffer;
}

/** An answer of server-sent events, produced on demand. */
export interface StreamAnswer {
  readonly kind: 'stream';
  readonly status: number;
  readonly headers: readonly string[];
  readonly frames: Iterable<string>;
  /** The end marker of the wire (`data: [DONE]`), left out by the fault `no_done`. */
  readonly closing: string;
  /** Frame of a provider failure in mid-stream. */
  readonly errorFrame: string;
}

export type MockAnswer = PlainAnswer | StreamAnswer;

/** The wire format of an endpoint's errors. */
export type MockDialect = 'openai' | 'anthropic' | 'gemini';

const jsonHeaders = ['content-type', 'application/json'];
const streamHeaders = ['content-type', 'text/event-stream; charset=utf-8', 'cache-control', 'no-cache'];

/** An answer of JSON. */
function jsonAnswer(value: unknown, status = 200, headers: readonly string[] = []): PlainAnswer {
  return {
    kind: 'plain',
    status,
    headers: [...jsonHeaders, ...headers],
    body: Buffer.from(JSON.stringify(value)),
  };
}

/** An answer of raw bytes. */
function bytesAnswer(contentType: string, body: Buffer): PlainAnswer {
  return { kind: 'plain', status: 200, headers: ['content-type', contentType], body };
}

/** A streamed answer; `frames` are the events before `closing`. */
function streamAnswer(
  frames: Iterable<string>,
  ending: { readonly closing: string; readonly errorFrame: string },
): StreamAnswer {
  return { kind: 'stream', status: 200, headers: streamHeaders, frames, ...ending };
}

/** A frame with data only, the form of OpenAI's chat stream. */
function dataFrame(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

/** A frame with an event name, the form of Anthropic's and OpenAI's Responses streams. */
function namedFrame(event: string, value: unknown): string {
  return `event: ${event}\ndata: ${JSON.stringify(value)}\n\n`;
}

const maxQuoteLength = 500;

/** An output text in tokens, cut as requested. */
export interface AnswerText {
  /** The tokens of the text; joined they are the text. */
  readonly tokens: readonly string[];
  readonly finish: 'stop' | 'length';
  /** The stop sequence that ended it, null when none did. */
  readonly stopSequence: string | null;
}

/** Bounds of a text. */
interface TextLimits {
  readonly stop: readonly string[];
  /** The client's limit; undefined for none. */
  readonly maxTokens: number | undefined;
  /** The fault `tokens`: exactly this length, before the client's bounds. */
  readonly tokens: number | undefined;
  /** Number of answers that share the limit of one request. */
  readonly shares: number;
}

/** Approximate token count of a text: one per four characters. */
function countTokens(text: string): number {
  return Math.ceil(text.length / 4);
}

/** The text in tokens of four characters; surrogate pairs are never split. */
function cutTokens(text: string): string[] {
  const tokens: string[] = [];
  for (let start = 0; start < text.length;) {
    let end = Math.min(start + 4, text.length);
    const unit = text.charCodeAt(end - 1);
    if (unit >= 0xd800 && unit <= 0xdbff && end < text.length) end += 1;
    tokens.push(text.slice(start, end));
    start = end;
  }
  return tokens;
}

/** The tokens in groups of `size`, as they are streamed. */
function* groupTokens(tokens: readonly string[], size: number): Generator<readonly string[]> {
  for (let start = 0; start < tokens.length; start += size) yield tokens.slice(start, start + size);
}

/** Cuts a text at its stop sequences and its longest length, repeating it first when `tokens` asks for more. */
function limitText(text: string, limits: TextLimits): AnswerText {
  const most = Math.floor(maxAnswerTokens / limits.shares);
  let whole = text;
  if (limits.tokens !== undefined) whole = stretch(text, Math.min(limits.tokens, most));
  const { kept, stopSequence } = cutAtStop(whole, limits.stop);
  const tokens = cutTokens(kept);
  const allowed = Math.min(limits.maxTokens ?? most, most);
  if (tokens.length <= allowed) return { tokens, finish: 'stop', stopSequence };
  return { tokens: tokens.slice(0, allowed), finish: 'length', stopSequence: null };
}

/** The sentence of the mock provider: it quotes the message, at most 500 characters of it. */
function mockSentence(role: 'user' | 'tool' | 'none', said: string, choice: number): string {
  const rest = 'This answer comes from the built-in mock provider; no model was called.';
  const number = choice === 0 ? '' : ` (Choice ${choice + 1}.)`;
  if (role === 'none') return `${rest} The request holds no message of a user.${number}`;
  const lead = role === 'tool' ? 'The tool returned' : 'You said';
  return `${lead}: "${quote(said)}". ${rest}${number}`;
}

/** At most 500 characters of a text, with an ellipsis where it was cut. */
function quote(text: string): string {
  if (text.length <= maxQuoteLength) return text;
  const unit = text.charCodeAt(maxQuoteLength - 1);
  const tearsCharacter = unit >= 0xd800 && unit <= 0xdbff;
  return `${text.slice(0, tearsCharacter ? maxQuoteLength - 1 : maxQuoteLength)}…`;
}

function stretch(text: string, tokens: number): string {
  const unit = `${text} `;
  const copies = Math.ceil((tokens * 5) / unit.length) + 1;
  return cutTokens(unit.repeat(copies)).slice(0, tokens).join('');
}

function cutAtStop(text: string, stop: readonly string[]): { kept: string; stopSequence: string | null } {
  let at = text.length;
  let stopSequence: string | null = null;
  for (const sequence of stop) {
    const found = sequence === '' ? -1 : text.indexOf(sequence);
    if (found >= 0 && found < at) {
      at = found;
      stopSequence = sequence;
    }
  }
  return { kept: text.slice(0, at), stopSequence };
}
