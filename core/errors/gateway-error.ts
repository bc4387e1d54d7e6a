import { type ErrorCode, errorTable } from './codes.ts';

const longestQuote = 128;

/** Error for a JSON Web Token; `reason` completes "The token …", and never holds the token itself. */
export function tokenInvalid(reason: string): GatewayError {
  return new GatewayError('token_invalid', `The token ${reason}`, {
    headers: ['www-authenticate', 'Bearer error="invalid_token"'],
  });
}

/** Quotes a token's claim for such a reason: short, visible characters only. */
export function quoteClaim(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  const short = text.length > longestQuote ? `${text.slice(0, longestQuote)}...` : text;
  return `"${short.replace(/[^\x20-\x7e]/g, '?')}"`;
}

/** Whether the error concerns the request's token. */
export function isTokenError(error: GatewayError | undefined): boolean {
  return error?.code === 'token_invalid' || error?.code === 'token_keys_unavailable';
}

/** Approximate interval of the directory's reads of the store. */
const retryAfterSeconds = '2';

/** Error for an unknown `what` while the directory is not `current`: it may exist, so a retry makes sense. */
export function directoryBehind(what: string): GatewayError {
  return new GatewayError(
    'store_unavailable',
    `The ${what} is not known here, and the store that may know it cannot be read now. Try again in a moment.`,
    { headers: ['retry-after', retryAfterSeconds] },
  );
}

const marker = Symbol.for('weir.error');

/** Error as the provider reported it, for another shape or after the head of a stream. */
interface ReportedError {
  /** HTTP status of the provider's error, or its equivalent. */
  readonly status: number;
  readonly type?: string | undefined;
  readonly code?: string | undefined;
}

/** Optional details of an error, in addition to code and sentence. */
interface GatewayErrorDetails {
  /** The request field at fault, as in the OpenAI error shape (`messages`, `top_logprobs`, …). */
  param?: string | null;
  /** Headers of the error answer (`retry-after`, …), a flat list of names and values. */
  headers?: readonly string[];
  /** Members added to the top level of the body beside `error` (`hook_results`, …). */
  extra?: Readonly<Record<string, unknown>>;
  /** Author of the answer. Default `gateway`. */
  source?: 'gateway' | 'provider';
  /** The provider's own status, type and code, which replace those of the table. Implies its source. */
  reported?: ReportedError;
  /** Display name of the limit that refused; for the log. */
  limit?: string | undefined;
  /** The plugin that raised it; set by the pipeline. */
  plugin?: string;
  cause?: unknown;
}

/** Longest quoted part of a message, and longest message, in UTF-16 units. */
const maxRepeated = 200;
const maxMessage = 4000;
const longQuoted = new RegExp(`"((?:[^"\\\\]|\\\\.){${maxRepeated - 1}})(?:[^"\\\\]|\\\\.)+"`, 'gs');
const longWord = new RegExp(`(\\S{${maxRepeated}})\\S+`, 'g');

/** Whether the message is the gateway's own; a provider's message passes unchanged. */
function isGatewayMessage({ source, reported }: GatewayErrorDetails): boolean {
  return source !== 'provider' && reported === undefined;
}

/** Shortens quoted parts: clients and logs keep the message. */
export function boundedMessage(message: string): string {
  if (message.length <= maxRepeated) return message;
  const short = message.replace(longQuoted, '"$1…"').replace(longWord, '$1…');
  return short.length > maxMessage ? `${short.slice(0, maxMessage)}…` : short;
}

/** A place, shortened for messages. */
export function boundedPlace(path: string): string {
  return path.length > maxRepeated ? `${path.slice(0, maxRepeated - 1)}…` : path;
}

/** Applies the bounds of messages to the list of mistakes beside it. */
function boundedExtra(extra: GatewayErrorDetails['extra']): GatewayErrorDetails['extra'] {
  const errors: unknown = extra?.['errors'];
  if (!Array.isArray(errors)) return extra;
  return { ...extra, errors: errors.map(boundedMistake) };
}

function boundedMistake(mistake: unknown): unknown {
  if (typeof mistake === 'string') return boundedMessage(mistake);
  if (typeof mistake !== 'object' || mistake === null) return mistake;
  const bounded: Record<string, unknown> = { ...mistake };
  const { path, message } = bounded;
  if (typeof path === 'string') bounded['path'] = boundedPlace(path);
  if (typeof message === 'string') bounded['message'] = boundedMessage(message);
  return bounded;
}

/**
 * The one error that plugins, adapters and stores throw on purpose. Its code determines the status and the shape of the
 * answer; any other thrown value is reported as `internal` or `plugin_failed`.
 */
export class GatewayError extends Error {
  readonly [marker] = true;
  readonly code: ErrorCode;
  readonly param: string | null;
  readonly headers: readonly string[];
  readonly extra: Readonly<Record<string, unknown>> | undefined;
  readonly source: 'gateway' | 'provider';
  readonly reported: ReportedError | undefined;
  readonly limit: string | undefined;
  plugin: string | undefined;

  constructor(code: ErrorCode, message: string, details: GatewayErrorDetails = {}) {
    super(
      isGatewayMessage(details) ? boundedMessage(message) : message,
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    this.name = 'GatewayError';
    this.code = code;
    this.param = details.param?.slice(0, maxRepeated) ?? null;
    this.headers = details.headers ?? [];
    this.extra = isGatewayMessage(details) ? boundedExtra(details.extra) : details.extra;
    this.reported = details.reported;
    this.source = details.source ?? (details.reported === undefined ? 'gateway' : 'provider');
    this.limit = details.limit;
    this.plugin = details.plugin;
  }

  get status(): number {
    return this.reported?.status ?? errorTable[this.code].status;
  }

  get type(): string {
    return this.reported?.type ?? errorTable[this.code].type;
  }

  /** Code shown to the client: for a reported error the provider's own, or null. */
  get shownCode(): string | null {
    return this.reported === undefined ? this.code : (this.reported.code ?? null);
  }

  get adminCode(): string {
    return errorTable[this.code].admin;
  }

  /** True for an error of this class, also from another copy of the module (a bundled plugin). */
  static is(value: unknown): value is GatewayError {
    return typeof value === 'object' && value !== null && marker in value;
  }
}

/** The text with a final full stop, unless it already ends a sentence. */
export function withFullStop(text: string): string {
  return text === '' || /[.?!]$/.test(text) ? text : `${text}.`;
}

/** The text without its final full stop, for continuation. */
export function withoutFullStop(text: string): string {
  return text.endsWith('.') ? text.slice(0, -1) : text;
}

/** The message of a caught value, which may be anything. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The value, or undefined when a `GatewayError` keeps it from being made. */
export function unlessRefused<Value>(make: () => Value): Value | undefined {
  try {
    return make();
  } catch (error) {
    if (GatewayError.is(error)) return undefined;
    throw error;
  }
}
