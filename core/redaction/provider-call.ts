import { quoteWithin } from '../base/json.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type { UpstreamRequest } from '../ports/transport.ts';
import { looksSecret, mask, type ShownHeaders, type ShownHeadersOptions } from './shown-headers.ts';

const maxLength = 2048;
/** Answer headers whose purpose excludes secrets, in addition to those of requests. */
const answerNames =
  /^(?:request-id|retry-after|retry-after-ms|server|openai-processing-ms|openai-version|(?:x|anthropic)-ratelimit-[a-z-]+)$/;
/** Values that the gateway itself sets in headers and queries; no credential has this form. */
const plainValue =
  /^(?:identity|sse|json|v1|application\/json|text\/event-stream|\*\/\*|\d{4}-\d\d-\d\d(?:-preview)?)$/;
const plainQueryNames = new Set(['alt', 'api-version']);

/** A body up to its retention bound. */
export interface CallBody {
  readonly bytes: Buffer;
  readonly truncated: boolean;
}

/** Facts of the client's request for masking a call. */
type ToldCallOptions = Omit<ShownHeadersOptions, 'alsoShown' | 'isKnown'> & {
  /** Headers of the client's request. */
  readonly clientHeaders: HeaderList;
};

/** A call without its bodies, masked: JSON objects escaped for a JSON string. */
export interface ToldCall {
  /** Method, URL and headers. */
  readonly request: string;
  /** Status and headers. Set where the answer was translated as a whole. */
  readonly answer: string | undefined;
}

/**
 * The last request sent to a provider, in its sent form, and its answer before translation. Its headers hold the
 * credential of the target: they are private, and only `told` reads and masks them.
 */
export class ProviderCall {
  readonly #request: Pick<UpstreamRequest, 'origin' | 'method' | 'path' | 'headers'>;
  #answer: { readonly status: number; readonly headers: HeaderList } | undefined;
  #answerBody: CallBody | undefined;
  /** `own`: the body of the client's request, unchanged. Undefined: none, or one that was forwarded unread. */
  readonly body: CallBody | 'own' | undefined;

  constructor(
    { origin, method, path, headers }: Pick<UpstreamRequest, 'origin' | 'method' | 'path' | 'headers'>,
    body: CallBody | 'own' | undefined,
  ) {
    this.#request = { origin, method, path, headers };
    this.body = body;
  }

  /** Records the whole answer, before it is translated. */
  answered(status: number, headers: HeaderList, body: CallBody): void {
    this.#answer = { status, headers };
    this.#answerBody = body;
  }

  /** Body of an answer that was translated as a whole. */
  get answerBody(): CallBody | undefined {
    return this.#answerBody;
  }

  /** Bytes of bodies that are kept for this call only. */
  get heldBytes(): number {
    const sent = typeof this.body === 'object' ? this.body.bytes.length : 0;
    return sent + (this.#answerBody?.bytes.length ?? 0);
  }

  /**
   * The loggable part of the call. A header's value is shown only under the rules of `shownHeaders`, and only where the
   * client sent it too or the gateway sets it itself; others may come from the target's credentials. Of the query,
   * only versions and formats are shown.
   */
  told(shown: ShownHeaders, { clientHeaders, ...options }: ToldCallOptions): ToldCall {
    const { origin, method, path, headers } = this.#request;
    const isKnown = (name: string, value: string): boolean =>
      isSent(clientHeaders, name, value) || plainValue.test(value);
    const url = quoteWithin(maskUrl(origin, path, shown));
    const answer = this.#answer;
    return {
      request: `{\\"method\\":${quoteWithin(method)},\\"url\\":${url},\\"headers\\":${shown.within(headers, { ...options, isKnown })}}`,
      answer:
        answer &&
        `{\\"status\\":${answer.status},\\"headers\\":${shown.within(answer.headers, { ...options, alsoShown: answerNames })}}`,
    };
  }
}

/** The part of a body that a call keeps. A longer one is copied, so that its rest is not held in memory. */
export function callBody(bytes: Uint8Array, mostBytes: number): CallBody {
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (whole.length <= mostBytes) return { bytes: whole, truncated: false };
  return { bytes: Buffer.from(whole.subarray(0, mostBytes)), truncated: true };
}

function isSent(headers: HeaderList, name: string, value: string): boolean {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i + 1] === value && (headers[i] as string).toLowerCase() === name) return true;
  }
  return false;
}

function maskUrl(origin: string, path: string, { keyPrefix, redact, urls }: ShownHeaders): string {
  const asked = origin + path;
  const known = urls.get(asked);
  if (known !== undefined) return known;
  const [route = '', ...queries] = path.split('?');
  const segments = route
    .split('/')
    .map((segment) => (looksSecret(unescaped(segment), keyPrefix) ? mask : segment))
    .join('/');
  const query = queries.length === 0 ? '' : `?${maskQuery(queries.join('?'), keyPrefix)}`;
  // Without user name and password before the host.
  const url = origin.replace(/\/\/.*@/, '//') + segments + query;
  const told = redact === undefined ? url : redact(url);
  const cut = told.length > maxLength ? `${told.slice(0, maxLength)}…` : told;
  // An unchanged URL contains no secret that would stay in memory.
  if (cut === asked) urls.set(asked, cut);
  return cut;
}

function maskQuery(query: string, keyPrefix: string): string {
  return query
    .split('&')
    .map((pair) => {
      const [name = '', value] = pair.split('=', 2);
      if (value === undefined || looksSecret(unescaped(name), keyPrefix)) return mask;
      return `${name}=${plainQueryNames.has(name) && plainValue.test(value) ? value : mask}`;
    })
    .join('&');
}

function unescaped(segment: string): string {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
