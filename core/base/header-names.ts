const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** Whether the text is a valid header name (a token of RFC 9110). */
export function isHeaderName(text: string): boolean {
  return token.test(text);
}

/**
 * Names in a comma-separated list, in lower case, without duplicates, in order. They need not be valid header names.
 */
export function headerNameList(text: string): readonly string[] {
  const names = new Set<string>();
  for (const item of text.toLowerCase().split(',')) {
    const name = item.trim();
    if (name !== '') names.add(name);
  }
  return [...names];
}

/** Properties of a header's name, computed once per spelling. */
export interface HeaderName {
  readonly lower: string;
  /** Rest after the gateway's own prefix (`api-key` of `x-service-api-key`); undefined for every other header. */
  readonly service: string | undefined;
  /** Index of that prefix among the spellings; the lowest wins when a request uses several. */
  readonly rank: number;
  /** One of the gateway's own headers that request guardrails, hooks or mutators. */
  readonly asksForGuardrails: boolean;
  /** Belongs to one connection (RFC 9110, 7.6.1) and is never forwarded. */
  readonly hopByHop: boolean;
  /** Set anew for the upstream, or handled by the gateway itself. */
  readonly ours: boolean;
  /** May hold a credential; replaced whenever the gateway supplies its own. */
  readonly credential: boolean;
  /** Concerns the origin in a browser, which is the gateway's and not the provider's: removed from answers. */
  readonly ofOrigin: boolean;
  /** Identifies the trace of the request (W3C Trace Context and Baggage). */
  readonly trace: boolean;
  /** Describes the client, its path to the gateway or one attempt, not the content of the request. */
  readonly ofClient: boolean;
}

/** Headers that belong to one connection, in lower case. */
export const hopByHopHeaders: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
/** Headers that are set anew for every provider, or handled by the gateway itself, in lower case. */
export const headersSetAnew: ReadonlySet<string> = new Set([
  'host',
  'expect',
  'content-length',
  'accept-encoding',
]);
/**
 * Headers that affect a browser's origin: its storage, its pages, or access of other pages; and those that a web server
 * in front of the gateway obeys. In lower case. `link` passes: hosts page by it, and browsers apply it to pages only.
 */
const ofOrigin = new RegExp(
  `^(?:${[
    'set-cookie2?|clear-site-data|refresh|sourcemap|speculation-rules|use-as-dictionary|x-frame-options',
    'strict-transport-security|public-key-pins(?:-report-only)?|expect-ct|alt-svc|proxy-authentication-info',
    'report-to|reporting-endpoints|nel|origin-trial|origin-agent-cluster|accept-ch|critical-ch',
    'service-worker-allowed|access-control-.*|timing-allow-origin|cross-origin-.*',
    '(?:content-security|permissions|feature|document|referrer)-policy(?:-report-only)?',
    'x-accel-(?!buffering$).*|x-sendfile|x-lighttpd-send-file',
  ].join('|')})$`,
);
/** `default-input-guardrails`, `before-request-hooks`, `output-mutators` and the like, in lower case. */
const guardrails = /(?:guardrails?|request-hooks?|mutators?)$/;
/** Headers in which callers send provider credentials. */
export const credentialHeaders = ['authorization', 'x-api-key', 'api-key', 'x-goog-api-key'] as const;
const credentials: ReadonlySet<string> = new Set(credentialHeaders);
/** Self-description of SDKs, browsers and proxies, and description of a body that the gateway has read. */
const ofClient =
  /^(?:accept|accept-charset|user-agent|content-(?:type|encoding|md5)|date|x-stainless-.*|x-goog-api-client|(?:x-)?(?:request|correlation|client-request|amzn-trace|amz-cf|idempotency)-(?:id|key)|x-forwarded-.*|forwarded|via|x-real-ip|x-client-ip|true-client-ip|cf-.*|x-envoy-.*|x-b3-.*|b3|x-cloud-trace-context|x-datadog-.*|sentry-trace|uber-trace-id|newrelic|x-request-start|x-queue-start|sec-.*|origin|referer|dnt|priority|cache-control|pragma|upgrade-insecure-requests)$/;
const traceHeaders: ReadonlySet<string> = new Set(['traceparent', 'tracestate', 'baggage']);

/** Bound of cached spellings; further names are computed each time. */
const maxRemembered = 4096;
/** Slots of the cache of lists, and most headers of a cached list. */
const listPlaces = 64;
const maxListed = 64;

/** Names of an earlier list, in its order. */
interface KnownList {
  readonly spellings: readonly string[];
  readonly names: readonly HeaderName[];
}

/** Cache of header names: they repeat on every request. */
export class HeaderNames {
  /** The gateway's own prefixes, each with its dash, the preferred one first. */
  readonly prefixes: readonly string[];
  private readonly known = new Map<string, HeaderName>();
  private readonly lists: (KnownList | undefined)[] = new Array<undefined>(listPlaces).fill(undefined);

  /** `servicePrefixes` are the gateway's own, each with its dash (`x-service-`), the preferred one first. */
  constructor(servicePrefixes: readonly string[]) {
    this.prefixes = servicePrefixes;
  }

  of(spelling: string): HeaderName {
    return this.known.get(spelling) ?? this.learn(spelling);
  }

  /**
   * Names of a flat header list, in its order. A client repeats the same names with each request, and a provider with
   * each answer: comparing them with the previous list costs a fifth of looking each one up.
   */
  ofList(headers: readonly string[]): readonly HeaderName[] {
    const place = placeOf(headers);
    const latest = this.lists[place];
    if (latest !== undefined && hasNames(headers, latest.spellings)) return latest.names;
    const spellings: string[] = [];
    const names: HeaderName[] = [];
    for (let i = 0; i < headers.length; i += 2) {
      const spelling = headers[i] as string;
      spellings.push(spelling);
      names.push(this.of(spelling));
    }
    if (names.length <= maxListed) this.lists[place] = { spellings, names };
    return names;
  }

  private learn(spelling: string): HeaderName {
    const lower = spelling.toLowerCase();
    const rank = this.prefixes.findIndex((prefix) => lower.startsWith(prefix));
    const service = rank === -1 ? undefined : lower.slice((this.prefixes[rank] as string).length);
    const name = {
      lower,
      service,
      rank,
      asksForGuardrails: service !== undefined && guardrails.test(service),
      hopByHop: hopByHopHeaders.has(lower),
      ours: headersSetAnew.has(lower),
      credential: credentials.has(lower),
      ofOrigin: ofOrigin.test(lower),
      trace: traceHeaders.has(lower),
      ofClient: ofClient.test(lower),
    };
    if (this.known.size < maxRemembered) this.known.set(spelling, name);
    return name;
  }
}

/** Lists that differ in length, or in the length of the first or last name, mostly get different slots. */
function placeOf(headers: readonly string[]): number {
  const { length } = headers;
  if (length < 2) return 0;
  const first = (headers[0] as string).length;
  const last = (headers[length - 2] as string).length;
  return (length + 5 * first + 11 * last) % listPlaces;
}

function hasNames(headers: readonly string[], spellings: readonly string[]): boolean {
  if (headers.length !== 2 * spellings.length) return false;
  for (let i = 0; i < spellings.length; i++) if (headers[2 * i] !== spellings[i]) return false;
  return true;
}
