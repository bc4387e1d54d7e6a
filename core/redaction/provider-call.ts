import { quoteWithin } from '../base/json.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type { UpstreamRequest } from '../ports/transport.ts';
import { looksSecret, mask, type ShownHeaders, type ShownHeadersOptions } from './shown-headers.ts';

const mostUnits = 2048;
/** Headers of answers whose values are no secret by what they are for, beside those of requests. */
const answerNames =
  /^(?:request-id|retry-after|retry-after-ms|server|openai-processing-ms|openai-version|(?:x|anthropic)-ratelimit-[a-z-]+)$/;
/** What the gateway itself says in headers and queries; no credential looks like that. */
const plainValue =
  /^(?:identity|sse|json|v1|application\/json|text\/event-stream|\*\/\*|\d{4}-\d\d-\d\d(?:-preview)?)$/;
const plainQueryNames = new Set(['alt', 'api-version']);

/** As much of a body as is kept. */
export interface CallBody {
  readonly bytes: Buffer;
  readonly truncated: boolean;
}

/** What telling a call needs to know of the client's request. */
type ToldCallOptions = Omit<ShownHeadersOptions, 'alsoShown' | 'isKnown'> & {
  /** The headers that the client sent. */
  readonly clientHeaders: HeaderList;
};

/** A call without its bodies, masked: JSON objects as they stand within a JSON string. */
export interface ToldCall {
  /** Of method, URL and headers. */
  readonly request: string;
  /** Of status and headers. Set where the answer was translated as a whole. */
  readonly answer: string | undefined;
}

/**
 * The request that was last sent to a provider, as it was sent, and its answer before it was translated. Its headers hold the
 * credential of the target: they are private, and `told` alone reads them, which masks.
 */
export class ProviderCall {
  readonly #request: Pick<UpstreamRequest, 'origin' | 'method' | 'path' | 'headers'>;
  #answer: { readonly status: number; readonly headers: HeaderList } | undefined;
  #answerBody: CallBody | undefined;
  /** `own`: the body of the client's request, as it is. Undefined: none, or one that was passed on unread. */
  readonly body: CallBody | 'own' | undefined;

  constructor(
    { origin, method, path, headers }: Pick<UpstreamRequest, 'origin' | 'method' | 'path' | 'headers'>,
    body: CallBody | 'own' | undefined,
  ) {
    this.#request = { origin, method, path, headers };
    this.body = body;
  }

  /** Notes the whole answer, before it is translated. */
  answered(status: number, headers: HeaderList, body: CallBody): void {
    this.#answer = { status, headers };
    this.#answerBody = body;
  }

  /** Of an answer that was translated as a whole. */
  get answerBody(): CallBody | undefined {
    return this.#answerBody;
  }

  /** Bytes of bodies that are kept for this call alone. */
  get heldBytes(): number {
    const sent = typeof this.body === 'object' ? this.body.bytes.length : 0;
    return sent + (this.#answerBody?.bytes.length ?? 0);
  }

  /**
   * What may be told of it. A header's value is shown only under the rules of `shownHeaders`, and only where the client sent
   * it, too, or the gateway says it of itself: every other one may come from the target's credentials. Of the query, only
   * versions and formats are shown.
   */
  told(shown: ShownHeaders, { clientHeaders, ...options }: ToldCallOptions): ToldCall {
    const { origin, method, path, headers } = this.#request;
    const isKnown = (name: string, value: string): boolean =>
      isSent(clientHeaders, name, value) || plainValue.test(value);
    const url = quoteWithin(toldUrl(origin, path, shown));
    const answer = this.#answer;
    return {
      request: `{\\"method\\":${quoteWithin(method)},\\"url\\":${url},\\"headers\\":${shown.within(headers, { ...options, isKnown })}}`,
      answer:
        answer &&
        `{\\"status\\":${answer.status},\\"headers\\":${shown.within(answer.headers, { ...options, alsoShown: answerNames })}}`,
    };
  }
}

/** As much of a body as a call keeps. A copy of what is longer: the rest is not held with it. */
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

function toldUrl(origin: string, path: string, { keyPrefix, redact, urls }: ShownHeaders): string {
  const asked = origin + path;
  const known = urls.get(asked);
  if (known !== undefined) return known;
  const [route = '', ...queries] = path.split('?');
  const segments = route
    .split('/')
    .map((segment) => (looksSecret(unescaped(segment), keyPrefix) ? mask : segment))
    .join('/');
  const query = queries.length === 0 ? '' : `?${toldQuery(queries.join('?'), keyPrefix)}`;
  // Without a name and password in front of the host.
  const url = origin.replace(/\/\/.*@/, '//') + segments + query;
  const told = redact === undefined ? url : redact(url);
  const cut = told.length > mostUnits ? `${told.slice(0, mostUnits)}…` : told;
  // A rule that hides nothing holds no secret that would stay in memory.
  if (cut === asked) urls.set(asked, cut);
  return cut;
}

function toldQuery(query: string, keyPrefix: string): string {
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
