import { type ErrorCode, errorTable } from './codes.ts';

const longestQuote = 128;

/** Refuses a JSON Web Token; `reason` completes "The token …", and never holds the token itself. */
export function tokenInvalid(reason: string): GatewayError {
  return new GatewayError('token_invalid', `The token ${reason}`, {
    headers: ['www-authenticate', 'Bearer error="invalid_token"'],
  });
}

/** What a token says of itself, for such a reason: short, and visible characters alone. */
export function quoteClaim(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  const short = text.length > longestQuote ? `${text.slice(0, longestQuote)}...` : text;
  return `"${short.replace(/[^\x20-\x7e]/g, '?')}"`;
}

/** Whether a request was refused for its token. */
export function isTokenError(error: GatewayError | undefined): boolean {
  return error?.code === 'token_invalid' || error?.code === 'token_keys_unavailable';
}

/** The store is looked at again about so often. */
const retryAfterSeconds = '2';

/**
 * The refusal of `what` is not known here while the directory is not `current`: it may exist, so it is worth another
 * attempt.
 */
export function directoryBehind(what: string): GatewayError {
  return new GatewayError(
    'store_unavailable',
    `The ${what} is not known here, and the store that may know it cannot be read now. Try again in a moment.`,
    { headers: ['retry-after', retryAfterSeconds] },
  );
}

const marker = Symbol.for('weir.error');

/** What a provider said of its error, where it is passed on in another shape or after the head of a stream. */
interface ReportedError {
  /** HTTP status that the provider's error has or stands for. */
  readonly status: number;
  readonly type?: string | undefined;
  readonly code?: string | undefined;
}

/** What an error may carry beside its code and sentence; every field is optional. */
interface GatewayErrorDetails {
  /** The request field at fault, as the OpenAI error shape names it (`messages`, `top_logprobs`, …). */
  param?: string | null;
  /** Headers that the refusal needs (`retry-after`, …), a flat list of names and values. */
  headers?: readonly string[];
  /** Members added to the top level of the body beside `error` (`hook_results`, …). */
  extra?: Readonly<Record<string, unknown>>;
  /** Who raised it. Default `gateway`. */
  source?: 'gateway' | 'provider';
  /** The provider's own status, type and code, which then stand instead of those of the table. Implies its source. */
  reported?: ReportedError;
  /** The limit that refused, as people call it; for the log. */
  limit?: string | undefined;
  /** The plugin that raised it; filled in by the pipeline. */
  plugin?: string;
  cause?: unknown;
}

/** Characters of a value that a message repeats, and of a whole message. */
const maxRepeated = 200;
const maxMessage = 4000;
const longQuoted = new RegExp(`"((?:[^"\\\\]|\\\\.){${maxRepeated - 1}})(?:[^"\\\\]|\\\\.)+"`, 'gs');
const longWord = new RegExp(`(\\S{${maxRepeated}})\\S+`, 'g');

/** The gateway's own words; what a provider says is passed on as it is. */
function isOurs({ source, reported }: GatewayErrorDetails): boolean {
  return source !== 'provider' && reported === undefined;
}

/** A message repeats no more of what it refuses than a reader needs: clients and logs keep it. */
export function boundedMessage(message: string): string {
  if (message.length <= maxRepeated) return message;
  const short = message.replace(longQuoted, '"$1…"').replace(longWord, '$1…');
  return short.length > maxMessage ? `${short.slice(0, maxMessage)}…` : short;
}

/** The place of something that is refused, as far as a message repeats it. */
export function boundedPlace(path: string): string {
  return path.length > maxRepeated ? `${path.slice(0, maxRepeated - 1)}…` : path;
}

/** The list of mistakes beside a message repeats no more than the message does. */
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
 * The one error that plugins, adapters and stores throw on purpose. Its code decides the status and the shape
 * that the client sees; anything else thrown is reported as `internal` or `plugin_failed`.
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
      isOurs(details) ? boundedMessage(message) : message,
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    this.name = 'GatewayError';
    this.code = code;
    this.param = details.param?.slice(0, maxRepeated) ?? null;
    this.headers = details.headers ?? [];
    this.extra = isOurs(details) ? boundedExtra(details.extra) : details.extra;
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

  /** The code that a client is shown: the provider's own, or null, for what a provider reported. */
  get shownCode(): string | null {
    return this.reported === undefined ? this.code : (this.reported.code ?? null);
  }

  get adminCode(): string {
    return errorTable[this.code].admin;
  }

  /** True for an error of this class, also one made by another copy of the module (a bundled plugin). */
  static is(value: unknown): value is GatewayError {
    return typeof value === 'object' && value !== null && marker in value;
  }
}

/** The text with a full stop, unless it ends like a sentence already. */
export function withFullStop(text: string): string {
  return text === '' || /[.?!]$/.test(text) ? text : `${text}.`;
}

/** The text without the full stop at its end, to go on behind it. */
export function withoutFullStop(text: string): string {
  return text.endsWith('.') ? text.slice(0, -1) : text;
}
