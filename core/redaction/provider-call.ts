import { isJsonObject, parseJson, quoteWithin, writeJson } from '../base/json.ts';
import { isSecretName } from '../config/ajv.ts';
import { holdsCredential } from '../config/masked-text.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type { UpstreamRequest } from '../ports/transport.ts';
import { headerNameList } from '../base/header-names.ts';
import { RecentMap } from '../base/recent-map.ts';
import { decodePercent } from '../base/bytes.ts';

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
type ToldCallOptions = Omit<ShownHeadersOptions, 'alsoShown' | 'isKnown' | 'config'> & {
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
  told(shown: ShownHeaders, { clientHeaders, serviceNames, sensitive }: ToldCallOptions): ToldCall {
    const { origin, method, path, headers } = this.#request;
    const isKnown = (name: string, value: string): boolean =>
      isSent(clientHeaders, name, value) || plainValue.test(value);
    const url = quoteWithin(maskUrl(origin, path, shown));
    const answer = this.#answer;
    return {
      request: `{\\"method\\":${quoteWithin(method)},\\"url\\":${url},\\"headers\\":${shown.within(headers, { serviceNames, sensitive, isKnown })}}`,
      answer:
        answer &&
        `{\\"status\\":${answer.status},\\"headers\\":${shown.within(answer.headers, { serviceNames, sensitive, alsoShown: answerNames })}}`,
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
    .map((segment) => (looksSecret(decodePercent(segment), keyPrefix) ? mask : segment))
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
      if (value === undefined || looksSecret(decodePercent(name), keyPrefix)) return mask;
      return `${name}=${plainQueryNames.has(name) && plainValue.test(value) ? value : mask}`;
    })
    .join('&');
}

/** Shown in place of a masked value. */
const mask = '***';
const maxHeaders = 64;
const maxUnits = 512;
const maxBytes = 8192;
/** Bounds of cached names and values, and of the length of one. */
const maxNames = 256;
const maxValues = 16;
const maxRemembered = 128;
const maskText = quoteWithin(mask);

/** Headers whose purpose excludes secrets. Every other value is masked, because its meaning is unknown. */
const shownNames =
  /^(?:accept|accept-encoding|accept-language|anthropic-beta|anthropic-version|cache-control|connection|content-encoding|content-length|content-type|date|host|openai-beta|priority|transfer-encoding|user-agent|x-request-id|x-stainless-[a-z-]+)$/;
/** The same for the gateway's own headers, without their prefix. */
const shownServiceNames: ReadonlySet<string> = new Set([
  ...['cache-force-refresh', 'cache-namespace', 'debug', 'explain', 'package-version', 'provider'],
  ...['request-timeout', 'span-id', 'span-name', 'strict-open-ai-compliance', 'trace-id'],
]);
/** Form of keys and tokens: an authorization scheme, the prefixes of issuers, or a long run of letters and digits. */
const secretLike =
  /\b(?:bearer|basic|digest|token)\s+\S|\b(?:sk|pk|rk|gh[opsu]|xox[abp]|akia|aiza|eyj)[-_a-z0-9]{12,}|\b(?=[a-z_-]*[0-9])(?=[0-9_-]*[a-z])[a-z0-9_-]{40,}/i;

/** Facts of one request for showing its headers. */
interface ShownHeadersOptions {
  /** Names of the gateway's own headers in this request, without their prefix (`trace-id`). */
  readonly serviceNames: readonly string[];
  /** The value of the request's `sensitive-headers` header. */
  readonly sensitive: string | undefined;
  /** The value of its `config` header: one that is a config itself is shown with its secrets masked. Default: not shown. */
  readonly config?: string | undefined;
  /** Further names, in lower case, whose purpose excludes secrets. Default: none. */
  readonly alsoShown?: RegExp;
  /** Whether the origin of a header's value is known; one of unknown origin is masked. Default: all are known. */
  readonly isKnown?: (name: string, value: string) => boolean;
}

/** A classified header name, cached: the same names come with every request. */
interface JudgedName {
  readonly name: string;
  /** Followed by a colon. */
  readonly member: string;
  readonly isShown: boolean;
  /** Cache of its shown values. */
  readonly values: RecentMap<string>;
}

/**
 * Shows headers as JSON escaped for a JSON string, without values that may be secrets. Caches names and harmless
 * values.
 */
export class ShownHeaders {
  /** Prefix of service keys. */
  readonly keyPrefix: string;
  /** Redacts a value; undefined for no rules. */
  readonly redact: ((value: string) => string) | undefined;
  /** Cache of shown URLs, without query. */
  readonly urls = new RecentMap<string>(maxNames);
  readonly #names = new RecentMap<JudgedName>(maxNames);

  constructor(keyPrefix: string, redact?: (value: string) => string) {
    this.keyPrefix = keyPrefix;
    this.redact = redact;
  }

  /**
   * The headers for the log: names in lower case, repeated ones joined. A value is shown only where the name excludes a
   * secret and the value does not look like one; all others are `***`. An inline config is shown up to 4 KiB. At most 64
   * headers and about 8 KiB.
   */
  within(
    headers: HeaderList,
    { serviceNames, sensitive, config, alsoShown, isKnown }: ShownHeadersOptions,
  ): string {
    const inline = config?.startsWith('{') === true ? config : undefined;
    const named = sensitive === undefined ? [] : headerNameList(sensitive);
    const own = serviceNames.filter((name) => shownServiceNames.has(name));
    const names: string[] = [];
    const members: string[] = [];
    const values: string[] = [];
    let bytes = 0;
    for (let i = 0; i < headers.length && names.length < maxHeaders; i += 2) {
      const judged = this.#judged(headers[i] as string);
      const { name } = judged;
      const given = headers[i + 1] as string;
      const isShown =
        (judged.isShown || own.some((one) => name.endsWith(`-${one}`)) || alsoShown?.test(name) === true) &&
        !named.includes(name) &&
        isKnown?.(name, given) !== false;
      const isConfig = given === inline && name.endsWith('-config') && !named.includes(name);
      const value = isShown
        ? this.#value(judged, given)
        : isConfig
          ? quoteWithin(shownConfig(given, this) ?? mask)
          : maskText;
      bytes += name.length + value.length - 4;
      if (bytes > maxBytes) break;
      const at = names.indexOf(name);
      if (at === -1) {
        names.push(name);
        members.push(judged.member);
        values.push(value);
      } else {
        const before = values[at] as string;
        values[at] =
          before === maskText || value === maskText ? maskText : `${before.slice(0, -2)}, ${value.slice(2)}`;
      }
    }
    let text = '{';
    for (let at = 0; at < names.length; at++) text += `${at === 0 ? '' : ','}${members[at]}${values[at]}`;
    return `${text}}`;
  }

  #judged(given: string): JudgedName {
    const known = this.#names.get(given);
    if (known !== undefined) return known;
    const name = given.toLowerCase();
    const judged = {
      name,
      member: `${quoteWithin(name)}:`,
      isShown: shownNames.test(name),
      values: new RecentMap<string>(maxValues),
    };
    if (given.length <= maxRemembered) this.#names.set(given, judged);
    return judged;
  }

  #value({ values }: JudgedName, given: string): string {
    const known = values.get(given);
    if (known !== undefined) return known;
    const text = quoteWithin(this.#shownValue(given));
    if (given.length <= maxRemembered && text !== maskText) values.set(given, text);
    return text;
  }

  #shownValue(value: string): string {
    if (looksSecret(value, this.keyPrefix)) return mask;
    const told = this.redact === undefined ? value : this.redact(value);
    return told.length > maxUnits ? `${told.slice(0, maxUnits)}…` : told;
  }
}

/** Longest inline config that is shown, in UTF-16 units of its JSON. */
const maxConfig = 4096;
/** Members of a config whose values are all masked: every name of a header may lead to a secret. */
const hiddenMembers = /^(?:headers|env|credentials)$/i;
const countOfTokens = /tokens?$/i;

/** An inline config with its structure and `***` for what may be a secret; undefined for none that can be shown. */
function shownConfig(text: string, { keyPrefix, redact }: ShownHeaders): string | undefined {
  const config = text.length > 2 * maxConfig ? undefined : parseJson(text);
  if (config === undefined || !isJsonObject(config)) return undefined;
  const told = (value: unknown, name: string, isHidden: boolean): unknown => {
    if (Array.isArray(value)) return value.map((item) => told(item, name, isHidden));
    if (isJsonObject(value))
      return Object.fromEntries(
        Object.entries(value).map(([member, one]) => {
          const hides = isHidden || isSecretName(member) || hiddenMembers.test(member);
          return [looksSecret(member, keyPrefix) ? mask : member, told(one, member, hides)];
        }),
      );
    if (typeof value === 'number' || typeof value === 'bigint')
      return isHidden && !countOfTokens.test(name) ? mask : value;
    if (typeof value !== 'string') return value;
    if (isHidden || looksSecret(value, keyPrefix) || holdsCredential(value)) return mask;
    return redact === undefined ? value : redact(value);
  };
  const shown = writeJson(told(config, '', false));
  return shown.length > maxConfig ? undefined : shown;
}

/** Whether a text looks like a key or a token, or contains a service key. */
function looksSecret(text: string, keyPrefix: string): boolean {
  return secretLike.test(text) || text.includes(keyPrefix);
}
