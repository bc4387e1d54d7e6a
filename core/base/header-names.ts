const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** Whether a header can have this name (a token of RFC 9110). */
export function isHeaderName(text: string): boolean {
  return token.test(text);
}

/** The names of a comma-separated list, in lower case, each once, in their order. They need not be names of headers. */
export function headerNameList(text: string): readonly string[] {
  const names = new Set<string>();
  for (const item of text.toLowerCase().split(',')) {
    const name = item.trim();
    if (name !== '') names.add(name);
  }
  return [...names];
}

/** What has to be known of a header's name, worked out once per spelling and not once per request. */
export interface HeaderName {
  readonly lower: string;
  /** What follows the gateway's own prefix (`api-key` of `x-service-api-key`); undefined for every other header. */
  readonly service: string | undefined;
  /** Place of that prefix among the spellings; the lowest counts when a request uses several. */
  readonly rank: number;
  /** One of the gateway's own that asks for guardrails, hooks or mutators. */
  readonly asksForGuardrails: boolean;
  /** Belongs to one connection (RFC 9110, 7.6.1) and never travels on. */
  readonly hopByHop: boolean;
  /** Set anew for the upstream, or answered by the gateway itself. */
  readonly ours: boolean;
  /** May hold a credential; replaced whenever the gateway brings its own. */
  readonly credential: boolean;
  /** Speaks for the origin that a browser sees, which is the gateway's and not the provider's: never in an answer. */
  readonly ofOrigin: boolean;
  /** Says which trace the request belongs to (W3C Trace Context and Baggage). */
  readonly trace: boolean;
  /** Tells of the client, of its way to here or of one attempt at sending, and nothing of what is asked. */
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
/** Headers that are set anew for every provider, or answered by the gateway itself, in lower case. */
export const headersSetAnew: ReadonlySet<string> = new Set([
  'host',
  'expect',
  'content-length',
  'accept-encoding',
]);
/**
 * What a browser keeps for an origin, does for a page of it, or lets pages of others do with it, and what a web
 * server in front of the gateway takes for an order, in lower case. `link` passes: hosts page by it, and browsers act on it for pages only.
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
/** Where callers put provider credentials. */
export const credentialHeaders = ['authorization', 'x-api-key', 'api-key', 'x-goog-api-key'] as const;
const credentials: ReadonlySet<string> = new Set(credentialHeaders);
/** What SDKs, browsers and proxies say of themselves, and what describes a body that the gateway has read. */
const ofClient =
  /^(?:accept|accept-charset|user-agent|content-(?:type|encoding|md5)|date|x-stainless-.*|x-goog-api-client|(?:x-)?(?:request|correlation|client-request|amzn-trace|amz-cf|idempotency)-(?:id|key)|x-forwarded-.*|forwarded|via|x-real-ip|x-client-ip|true-client-ip|cf-.*|x-envoy-.*|x-b3-.*|b3|x-cloud-trace-context|x-datadog-.*|sentry-trace|uber-trace-id|newrelic|x-request-start|x-queue-start|sec-.*|origin|referer|dnt|priority|cache-control|pragma|upgrade-insecure-requests)$/;
const traceHeaders: ReadonlySet<string> = new Set(['traceparent', 'tracestate', 'baggage']);

/** Spellings that are remembered; beyond it a name is worked out each time. */
const maxRemembered = 4096;
/** Places for lists that are remembered, and how many headers these may have. */
const listPlaces = 64;
const maxListed = 64;

/** The names of a list that came before, in its order. */
interface KnownList {
  readonly spellings: readonly string[];
  readonly names: readonly HeaderName[];
}

/** The header names that have been seen, each looked at once: they repeat on every request. */
export class HeaderNames {
  /** The gateway's own, each with its dash, the preferred one first. */
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
   * The names of a flat header list, in its order. A client sends the same ones with each request, and a provider with
   * each answer: to compare them with those of the list before costs a fifth of looking each of them up.
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

/** Lists that differ in how many they are, or in how long the first or the last name is, mostly have places of their own. */
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
