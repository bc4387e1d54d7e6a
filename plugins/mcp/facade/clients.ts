import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { RecentMap } from '../../../core/base/recent-map.ts';
import { GatewayError, type MaybePromise, type Scope } from '../../../core/pipeline/plugin.ts';
import type { Seals } from '../../../core/pipeline/seals.ts';

/** An application that asks for tokens, as it describes itself. */
interface OauthApplication {
  /** Unchecked, for people; empty for none. */
  readonly name: string;
  readonly redirectUris: readonly string[];
  /** Host of its client-id metadata document, which proves that it is the application of that host. */
  readonly host: string | undefined;
}

/** Bounds of what a client says of itself: its redirect URIs become part of its id, and the id of every address. */
const maxRedirects = 10;
const maxRedirectLength = 1024;
const maxRedirectsLength = 2048;
const maxName = 100;

/** The members of client metadata (RFC 7591) that matter; others are ignored. */
const ClientMetadata = Type.Object({
  redirect_uris: Type.Array(Type.String({ minLength: 1, maxLength: maxRedirectLength }), {
    minItems: 1,
    maxItems: maxRedirects,
  }),
  client_name: Type.Optional(Type.String()),
});

const ClientDocument = Type.Object({ ...ClientMetadata.properties, client_id: Type.String() });

const SealedClient = Type.Object({ name: Type.String(), redirectUris: Type.Array(Type.String()) });

/** Addresses of documents: https, a path, nothing that a server may read in two ways. */
const documentUrl = /^https:\/\/[a-z0-9.-]+(?::\d{1,5})?\/[\w.~/-]+(?:\?[\w.~=&-]*)?$/;
const maxDocumentUrl = 512;
const maxDocumentBytes = 16_384;
const documentTimeoutMs = 5000;
const documentsKept = 256;
const keptMs = 300_000;
const failureKeptMs = 30_000;
const fetchedAtOnce = 16;

const dotSegment = /[/](?:\.|%2e){1,2}(?:[/?]|$)/i;
const loopback = new Set(['127.0.0.1', '[::1]', 'localhost']);
/** Schemes that no application of its own answers to. */
const unsafeSchemes: ReadonlySet<string> = new Set([
  ...['about', 'blob', 'data', 'file', 'filesystem', 'ftp', 'intent', 'jar', 'javascript', 'mailto', 'sms'],
  ...['tel', 'urn', 'vbscript', 'view-source', 'ws', 'wss'],
]);

/** Registers clients without remembering them: what they say is sealed into the id that they get. */
export class Clients {
  readonly #seals: Seals;
  readonly #scope: Pick<Scope, 'guardedFetch' | 'clock' | 'log'>;
  readonly #allowed: readonly string[];
  readonly #documentHosts: readonly string[];
  readonly #documents = new RecentMap<{
    readonly client: OauthApplication | undefined;
    readonly until: number;
  }>(documentsKept);
  readonly #fetching = new Map<string, Promise<OauthApplication | undefined>>();

  /** `allowed`: patterns of redirect URIs; none for every one. `documentHosts`: whose documents are read; `*` for all. */
  constructor(
    seals: Seals,
    scope: Pick<Scope, 'guardedFetch' | 'clock' | 'log'>,
    rules: { readonly allowed: readonly string[]; readonly documentHosts: readonly string[] },
  ) {
    this.#seals = seals;
    this.#scope = scope;
    this.#allowed = rules.allowed;
    this.#documentHosts = rules.documentHosts;
  }

  get readsDocuments(): boolean {
    return this.#documentHosts.length > 0;
  }

  /** Registers a client (RFC 7591): its information, or the reason for which it is refused. */
  register(
    metadata: unknown,
  ): { readonly client: object } | { readonly error: string; readonly why: string } {
    if (!Value.Check(ClientMetadata, metadata)) {
      const why = `Send a JSON object with redirect_uris: 1 to ${maxRedirects} URIs of at most ${maxRedirectLength} characters.`;
      return { error: 'invalid_client_metadata', why };
    }
    const { redirect_uris: redirectUris, client_name = '' } = metadata;
    const why = this.#refusalOf(redirectUris);
    if (why !== undefined) return { error: 'invalid_redirect_uri', why };
    const name = shownName(client_name);
    return {
      client: {
        client_id: this.#seals.seal('client', { name, redirectUris }),
        client_id_issued_at: Math.floor(this.#scope.clock.now() / 1000),
        ...(name !== '' && { client_name: name }),
        redirect_uris: redirectUris,
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
      },
    };
  }

  /** The client with this id; undefined when there is none. */
  find(id: string): MaybePromise<OauthApplication | undefined> {
    if (id.startsWith('https:')) return this.#described(id);
    const opened = this.#seals.open('client', id, SealedClient);
    if (opened === undefined || this.#refusalOf(opened.value.redirectUris) !== undefined) return undefined;
    return { ...opened.value, host: undefined };
  }

  /** Why these cannot be redirect URIs, as a sentence; undefined when they can. */
  #refusalOf(uris: readonly string[]): string | undefined {
    if (uris.reduce((sum, uri) => sum + uri.length, 0) > maxRedirectsLength)
      return `All redirect URIs together have at most ${maxRedirectsLength} characters.`;
    for (const uri of uris) {
      const why = refusedRedirect(uri) ?? this.#forbidden(uri);
      if (why !== undefined) return why;
    }
    return undefined;
  }

  #forbidden(uri: string): string | undefined {
    if (this.#allowed.length === 0) return undefined;
    const plain = withoutPort(uri);
    const isAllowed = this.#allowed.some((rule) =>
      rule.endsWith('/*') ? plain.startsWith(withoutPort(rule.slice(0, -1))) : plain === withoutPort(rule),
    );
    return isAllowed ? undefined : 'This gateway does not allow this redirect URI; ask its operator.';
  }

  /** A client whose id is the address of its metadata. */
  #described(id: string): MaybePromise<OauthApplication | undefined> {
    if (id.length > maxDocumentUrl || !documentUrl.test(id) || !URL.canParse(id) || new URL(id).href !== id)
      return undefined;
    const { host } = new URL(id);
    if (!this.#documentHosts.some((one) => one === '*' || one === host)) return undefined;
    const known = this.#documents.touch(id);
    if (known !== undefined && this.#scope.clock.now() < known.until) return known.client;
    const running = this.#fetching.get(id);
    if (running !== undefined) return running;
    if (this.#fetching.size >= fetchedAtOnce) return undefined;
    const fetching = this.#fetch(id, host).finally(() => this.#fetching.delete(id));
    this.#fetching.set(id, fetching);
    return fetching;
  }

  async #fetch(id: string, host: string): Promise<OauthApplication | undefined> {
    const { guardedFetch, clock, log } = this.#scope;
    let client: OauthApplication | undefined;
    try {
      const { status, body } = await guardedFetch.fetch({
        url: id,
        headers: ['accept', 'application/json'],
        timeoutMs: documentTimeoutMs,
        maxBytes: maxDocumentBytes,
        maxRedirects: 0,
      }).answer;
      const document: unknown = status === 200 ? JSON.parse(body.toString('utf8')) : undefined;
      if (Value.Check(ClientDocument, document)) client = this.#clientOf(document, id, host);
    } catch (error) {
      const reason = GatewayError.is(error) ? error.message : 'it is no JSON';
      log.info('The metadata document of an MCP client cannot be read', { host, reason });
    }
    this.#documents.set(id, { client, until: clock.now() + (client === undefined ? failureKeptMs : keptMs) });
    return client;
  }

  #clientOf(document: Static<typeof ClientDocument>, id: string, host: string): OauthApplication | undefined {
    const { client_id, client_name = '', redirect_uris: redirectUris } = document;
    if (client_id !== id || this.#refusalOf(redirectUris) !== undefined) return undefined;
    return { name: shownName(client_name), redirectUris, host };
  }
}

/**
 * Whether a client that registered `redirectUris` is sent to `asked`: one of them, to the letter; the port of a loopback
 * address may differ (RFC 8252, 7.3).
 */
export function isRegistered(redirectUris: readonly string[], asked: string): boolean {
  if (redirectUris.includes(asked)) return true;
  if (refusedRedirect(asked) !== undefined || !isLoopback(asked)) return false;
  return redirectUris.some((one) => isLoopback(one) && withoutPort(one) === withoutPort(asked));
}

/** Where a redirect URI leads, for people. */
export function placeOf(redirectUri: string): string {
  const { protocol, host } = new URL(redirectUri);
  if (isLoopback(redirectUri)) return `an application on this computer (${host})`;
  return protocol === 'https:' ? host : `the application that opens links with ${protocol} on this computer`;
}

function refusedRedirect(uri: string): string | undefined {
  if (!/^[\x21-\x7e]+$/.test(uri) || /["<>\\^`{|}]/.test(uri) || !URL.canParse(uri))
    return 'A redirect URI is an absolute URI in ASCII.';
  if (dotSegment.test(uri)) return 'A redirect URI has no "." and no ".." in its path.';
  const { protocol, hash, username, password } = new URL(uri);
  if (hash !== '' || uri.includes('#')) return 'A redirect URI has no fragment.';
  if (username !== '' || password !== '') return 'A redirect URI has no user and no password.';
  if (protocol === 'https:') return undefined;
  if (protocol === 'http:')
    return isLoopback(uri) ? undefined : 'A redirect URI with http is on 127.0.0.1, [::1] or localhost.';
  return unsafeSchemes.has(protocol.slice(0, -1))
    ? `A redirect URI cannot have the scheme ${protocol}`
    : undefined;
}

function isLoopback(uri: string): boolean {
  const { protocol, hostname } = new URL(uri);
  return protocol === 'http:' && loopback.has(hostname);
}

/** The same for every port of a loopback host. */
function withoutPort(uri: string): string {
  if (!URL.canParse(uri) || !isLoopback(uri)) return uri;
  const url = new URL(uri);
  url.port = '';
  return url.href;
}

/** Without what changes how other text is shown. */
function shownName(name: string): string {
  return name
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .trim()
    .slice(0, maxName);
}
