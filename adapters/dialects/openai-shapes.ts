import { type ProviderError, unreadableProviderError } from '../../core/dialects/canonical/chat-answer.ts';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import type { ErrorCode } from '../../core/errors/codes.ts';
import { writeSseFrame } from '../../core/base/sse.ts';
import { asArray, asBuffer, asCount, asObject, asText, type JsonObject } from './json-reading.ts';
import type { Usage } from '../../core/dialects/usage.ts';

/** Usage in the shape of OpenAI, to and from the wire. */
export const openAiUsage = { decode: decodeOpenAiUsage, encode: encodeOpenAiUsage, of: usageOf };

/** Errors in the shape of OpenAI, to and from the wire. */
export const openAiErrors = {
  members: openAiErrorMembers,
  encode: encodeOpenAiError,
  encodeStream: encodeOpenAiStreamError,
  json: encodeErrorJson,
  message: openAiErrorMessage,
  encodeProvider: encodeOpenAiProviderError,
  decode: decodeOpenAiError,
  ofStream: openAiStreamError,
};

/** OpenAI encrypts its reasoning as Fernet tokens, which always start with these bytes. */
const tokenStart = 'gAAAA';

/**
 * True for a thought signature of OpenAI's own, which no other provider can read. Thoughts of others that passed
 * through a Responses client also come back as items of that wire, so that only the signature itself identifies them.
 */
export function isOpenAiSignature(signature: string): boolean {
  return signature.startsWith(tokenStart);
}

/** Existing clients recognise a guardrail's refusal by its type and expect no code in it. */
const withoutCode: ReadonlySet<ErrorCode> = new Set(['hooks_failed']);

/** The members of the OpenAI error shape: exactly these. */
function openAiErrorMembers(error: GatewayError): JsonObject {
  return {
    message: error.message,
    type: error.type,
    param: error.param,
    code: withoutCode.has(error.code) ? null : error.code,
  };
}

/** The body of an error as OpenAI clients read it, with the error's `extra` members beside `error`. */
function encodeOpenAiError(error: GatewayError): Buffer {
  return Buffer.from(encodeErrorJson({ ...error.extra, error: openAiErrorMembers(error) }));
}

/** Same error as an event of a chat stream. */
function encodeOpenAiStreamError(error: GatewayError): Buffer {
  return writeSseFrame(encodeErrorJson({ ...error.extra, error: openAiErrorMembers(error) }));
}

/** JSON of an error body. Encoding must never fail: integers beyond 2^53 become text. */
function encodeErrorJson(body: JsonObject): string {
  return JSON.stringify(body, (_name, value: unknown) =>
    typeof value === 'bigint' ? value.toString() : value,
  );
}

/** Error message inside an answer or an event with a success status; undefined without an error. */
function openAiErrorMessage(json: JsonObject, event = ''): string | undefined {
  const error = asObject(json.error);
  if (error !== undefined && Object.keys(error).length > 0) {
    return asText(error.message) ?? asText(error.code) ?? asText(error.type) ?? 'unknown error';
  }
  if (asText(json.error) !== undefined) return asText(json.error);
  const groq = asText(asObject(json.x_groq)?.error);
  if (groq !== undefined) return groq;
  if (json.success === false && Array.isArray(json.errors)) {
    return asText(asObject(json.errors[0])?.message) ?? 'unknown error';
  }
  if (json.object === 'error' || json.type === 'error' || event === 'error') {
    return asText(json.message) ?? asText(json.detail) ?? 'unknown error';
  }
  return undefined;
}

/** The body of a provider's error in OpenAI's shape; `provider` is the reporting provider. */
function encodeOpenAiProviderError(error: ProviderError, provider: string): string {
  const { message, type, param, code } = error;
  return encodeErrorJson({
    error: { message, type: type ?? typeOfStatus(error.status), param: param ?? null, code: code ?? null },
    provider,
  });
}

/** HTTP status by error type of the family, for errors without a status. */
const statusOfWord: ReadonlyMap<string, number> = new Map(
  Object.entries({
    invalid_request_error: 400,
    invalid_request: 400,
    bad_request: 400,
    context_length_exceeded: 400,
    content_filter: 400,
    authentication_error: 401,
    invalid_api_key: 401,
    unauthorized: 401,
    insufficient_credits: 402,
    permission_error: 403,
    permission_denied: 403,
    forbidden: 403,
    not_found_error: 404,
    model_not_found: 404,
    request_too_large: 413,
    rate_limit_error: 429,
    rate_limit_exceeded: 429,
    insufficient_quota: 429,
    tokens: 429,
    requests: 429,
    api_error: 500,
    server_error: 500,
    internal_error: 500,
    internal_server_error: 500,
    service_unavailable: 503,
    overloaded_error: 529,
  }),
);

/** OpenAI's error type for a status, when the provider gives none. */
function typeOfStatus(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 403) return 'permission_error';
  if (status === 404) return 'not_found_error';
  if (status === 429) return 'rate_limit_error';
  return status >= 500 ? 'api_error' : 'invalid_request_error';
}

/**
 * The error of an answer with an error status, in any shape of the family's hosts: OpenAI's object, a string, an array,
 * FastAPI's `detail`, a bare `message`, Cloudflare's `errors`. HTML, an empty body and torn JSON are reported as such.
 */
function decodeOpenAiError(status: number, body: Uint8Array): ProviderError {
  const bytes = asBuffer(body);
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString('utf8'));
  } catch {
    return unreadableProviderError(status, bytes);
  }
  const members = asObject(json) ?? asObject(asArray(json)[0]);
  const found = members === undefined ? asText(json) : errorIn(members);
  if (found === undefined) return unreadableProviderError(status, bytes);
  return typeof found === 'string' ? { status, message: found } : { ...found, status };
}

/** The error in an event of a stream or in an answer with a success status; undefined when there is none. */
function openAiStreamError(json: JsonObject, event = ''): ProviderError | undefined {
  const message = openAiErrorMessage(json, event);
  if (message === undefined) return undefined;
  const found = errorIn(json) ?? { message };
  return { ...found, status: statusOf(json, found) };
}

function statusOf(json: JsonObject, found: ErrorMembers): number {
  const error = asObject(json.error) ?? json;
  const numbers = [error.status, error.status_code, error.code, error.http_status, json.status, json.code];
  for (const value of numbers) {
    const status = typeof value === 'string' && /^[45]\d\d$/.test(value) ? Number(value) : value;
    if (typeof status === 'number' && status >= 400 && status <= 599) return status;
  }
  for (const word of [found.code, found.type]) {
    const status = word === undefined ? undefined : statusOfWord.get(word.toLowerCase());
    if (status !== undefined) return status;
  }
  return 502;
}

type ErrorMembers = Omit<ProviderError, 'status'>;

/** The members of the family's error shapes, nearest first. */
function errorIn(json: JsonObject): ErrorMembers | undefined {
  const nested = asObject(json.error) ?? asObject(asArray(json.errors)[0]) ?? asObject(json.detail);
  const error = nested ?? json;
  const message =
    textOf(error.message) ??
    asText(error.error) ??
    textOf(error.detail) ??
    asText(asArray(json.errors)[0]) ??
    asText(error.error_message) ??
    asText(error.msg) ??
    asText(json.message) ??
    wordOf(error.code) ??
    wordOf(error.type);
  if (message === undefined) return undefined;
  const found: { -readonly [K in keyof ErrorMembers]: ErrorMembers[K] } = { message };
  const type = wordOf(error.type) ?? wordOf(error.status);
  const code = wordOf(error.code) ?? wordOf(json.code);
  const param = asText(error.param);
  if (type !== undefined) found.type = type;
  if (code !== undefined) found.code = code;
  if (param !== undefined) found.param = param;
  return found;
}

/** A message: text, or FastAPI's list of invalid fields. */
function textOf(value: unknown): string | undefined {
  if (Array.isArray(value)) {
    const lines = value.map((item: unknown) => {
      const issue = asObject(item);
      const text = asText(item) ?? asText(issue?.msg) ?? asText(issue?.message);
      const place = asArray(issue?.loc).join('.');
      return text === undefined || place === '' ? text : `${place}: ${text}`;
    });
    return asText(lines.filter((line) => line !== undefined).join('; '));
  }
  const members = asObject(value);
  if (members === undefined) return asText(value);
  return textOf(members.detail) ?? textOf(members.message) ?? encodeErrorJson(members);
}

function wordOf(value: unknown): string | undefined {
  return typeof value === 'number' ? String(value) : asText(value);
}

/**
 * Reads a `usage` object of the OpenAI family: chat (`prompt_tokens`), responses (`input_tokens`), embeddings (no
 * completion), rerankers (only a total), and the names that compatible hosts gave to cached and reasoning tokens.
 * Undefined when it counts no tokens (audio billed by duration, an empty object).
 */
function decodeOpenAiUsage(value: unknown): Usage | undefined {
  const usage = asObject(value);
  if (usage === undefined) return undefined;
  const prompt = asCount(usage.prompt_tokens) ?? asCount(usage.input_tokens);
  let completion = asCount(usage.completion_tokens) ?? asCount(usage.output_tokens);
  const total = asCount(usage.total_tokens);
  if (prompt === undefined && completion === undefined && total === undefined) return undefined;
  const promptDetails = asObject(usage.prompt_tokens_details) ?? asObject(usage.input_tokens_details) ?? {};
  const completionDetails =
    asObject(usage.completion_tokens_details) ?? asObject(usage.output_tokens_details) ?? {};
  const reasoning = asCount(completionDetails.reasoning_tokens) ?? asCount(usage.reasoning_tokens) ?? 0;
  // Some hosts count reasoning outside the completion; their own total reveals it.
  if (reasoning > 0 && (prompt ?? 0) + (completion ?? 0) + reasoning === total) {
    completion = (completion ?? 0) + reasoning;
  }
  const known = (prompt ?? 0) + (completion ?? 0);
  return {
    promptTokens: prompt ?? (completion === undefined ? (total ?? 0) : 0),
    completionTokens: completion ?? 0,
    totalTokens: total ?? known,
    cachedTokens: cachedTokens(usage, promptDetails),
    cacheWriteTokens:
      asCount(promptDetails.cache_write_tokens) ?? asCount(usage.cache_creation_input_tokens) ?? 0,
    reasoningTokens: reasoning,
    inputAudioTokens: asCount(promptDetails.audio_tokens) ?? 0,
    outputAudioTokens: asCount(completionDetails.audio_tokens) ?? 0,
  };
}

function cachedTokens(usage: JsonObject, details: JsonObject): number {
  return (
    asCount(details.cached_tokens) ??
    asCount(usage.prompt_cache_hit_tokens) ??
    asCount(usage.cached_tokens) ??
    asCount(usage.cache_read_input_tokens) ??
    0
  );
}

/** Writes a usage into an OpenAI chat `usage` object; unknown members of `existing` stay. */
function encodeOpenAiUsage(usage: Usage, existing: JsonObject = {}): JsonObject {
  return {
    ...existing,
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
    prompt_tokens_details: {
      ...asObject(existing.prompt_tokens_details),
      cached_tokens: usage.cachedTokens,
      audio_tokens: usage.inputAudioTokens,
      // OpenAI has no such member; hosts that count cache writes use this name.
      ...(usage.cacheWriteTokens > 0 && { cache_write_tokens: usage.cacheWriteTokens }),
    },
    completion_tokens_details: {
      ...asObject(existing.completion_tokens_details),
      reasoning_tokens: usage.reasoningTokens,
      audio_tokens: usage.outputAudioTokens,
    },
  };
}

/** OpenAI accepts only PDFs without a media type. */
export function typeOfName(filename: string | undefined): string {
  return filename === undefined || /\.pdf$/i.test(filename) ? 'application/pdf' : 'application/octet-stream';
}

/** The index of a choice; its position when the host leaves it out. */
export function choiceIndex(choice: JsonObject, position: number): number {
  return typeof choice.index === 'number' ? choice.index : position;
}

/** The usage of an answer or a stream event, in any place that compatible hosts use. */
function usageOf(json: JsonObject): Usage | undefined {
  const direct = decodeOpenAiUsage(json.usage) ?? decodeOpenAiUsage(asObject(json.x_groq)?.usage);
  if (direct !== undefined) return direct;
  for (const choice of asArray(json.choices)) {
    const usage = decodeOpenAiUsage(asObject(choice)?.usage);
    if (usage !== undefined) return usage;
  }
  return undefined;
}
