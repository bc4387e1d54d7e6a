import { oauthClientOf, oauthMistakes, secretsOfOauth } from '../../../core/organisation/mcp-oauth.ts';
import { GatewayError, type OptionFault, type Scope } from '../../../core/pipeline/plugin.ts';
import {
  type OauthClient,
  oauthErrorOf,
  type OauthServer,
  type OauthTokens,
} from '../../../core/ports/oauth.ts';
import type { McpOauthSettings } from '../../../core/ports/record-kinds.ts';
import { Stopped } from '../../../core/pipeline/browser.ts';
import type { AuthorizationClientOptions, McpOptions } from '../options.ts';

/** Refusal of a request without a browser (RFC 6749, 5.2; RFC 7591, 3.2.2). */
export class OauthRefusal extends Error {
  readonly code: string;
  readonly status: number;

  constructor(code: string, message: string, status = 400) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** Age in milliseconds from which the metadata is read again, and pause after a failure. */
const metadataMs = 600_000;
const pauseMs = 5000;
/** Requests for tokens under way at once. */
const exchangesAtOnce = 32;

/** The organisation's identity provider, at which the gateway is a client in the name of all applications. */
export class OrganisationProvider {
  readonly #issuer: string;
  readonly #client: AuthorizationClientOptions;
  readonly #oauth: Scope['mcp']['oauth'];
  readonly #clock: Scope['clock'];
  readonly #log: Scope['log'];
  #known: { readonly server: OauthServer; readonly readAt: number } | undefined;
  #reading: Promise<OauthServer> | undefined;
  #failedAt = -Infinity;
  #exchanges = 0;

  constructor(issuer: string, client: AuthorizationClientOptions, { mcp, clock, log }: Scope) {
    this.#issuer = issuer;
    this.#client = client;
    this.#oauth = mcp.oauth;
    this.#clock = clock;
    this.#log = log;
  }

  /** The provider as it describes itself. Rejects with a `Stopped` while it does not. */
  async server(): Promise<OauthServer> {
    try {
      return await this.#described();
    } catch (error) {
      if (GatewayError.is(error))
        this.#log.warn('The identity provider of MCP clients does not describe itself', { error });
      throw new Stopped(503, 'The identity provider cannot be asked now. Try again in a moment.');
    }
  }

  /** Where the user signs in, without a `state`, and the verifier of the code. Rejects with a `Stopped`. */
  async authorize(
    asked: { readonly redirectUri: string; readonly scope: string; readonly resource: string | undefined },
    prompt: string | undefined,
  ): Promise<{ readonly url: URL; readonly verifier: string }> {
    const { client_id: clientId, parameters = {} } = this.#client;
    const resource = this.#passed(asked.resource);
    const server = await this.server();
    try {
      const started = await this.#oauth.authorize(server, { ...asked, clientId, resource });
      const { searchParams } = started.url;
      for (const [name, value] of Object.entries(parameters))
        if (!searchParams.has(name)) searchParams.set(name, value);
      if (prompt !== undefined) searchParams.set('prompt', prompt);
      return started;
    } catch (error) {
      this.#log.warn('The identity provider lets no MCP client sign in', { error });
      throw new Stopped(502, 'The identity provider cannot be used. Tell the operator of this gateway.');
    }
  }

  /**
   * Asks for tokens with these parameters. Rejects with an `OauthRefusal`; the provider's own reason reaches the client
   * where it concerns the client.
   */
  async tokens(grant: Readonly<Record<string, string>>, asked: string | undefined): Promise<OauthTokens> {
    if (this.#exchanges >= exchangesAtOnce)
      throw new OauthRefusal('temporarily_unavailable', 'Too many sign-ins at once. Try again.', 503);
    this.#exchanges++;
    const resource = this.#passed(asked);
    try {
      const server = await this.server();
      const whole = { ...grant, ...(resource !== undefined && { resource }) };
      return await this.#oauth.token(server, this.#proof(server), whole);
    } catch (error) {
      const code = oauthErrorOf(error);
      if (code === 'invalid_grant' || code === 'invalid_scope' || code === 'invalid_target')
        throw new OauthRefusal(code, 'The identity provider refuses it. Sign in again.');
      if (error instanceof Stopped) throw new OauthRefusal('temporarily_unavailable', error.message, 503);
      this.#log.warn('The identity provider gives no token to MCP clients', { error });
      throw new OauthRefusal('server_error', 'The identity provider gives no token now.', 502);
    } finally {
      this.#exchanges--;
    }
  }

  #proof({ methods }: OauthServer): OauthClient {
    const [secret] = secretsOfOauth(this.#client);
    return oauthClientOf(settingsOf(this.#client), secret, methods);
  }

  #passed(resource: string | undefined): string | undefined {
    return this.#client.resource_parameter === false ? undefined : resource;
  }

  #described(): Promise<OauthServer> {
    const now = this.#clock.now();
    const known = this.#known;
    const isFresh = known !== undefined && now - known.readAt < metadataMs;
    const mayRead = now - this.#failedAt >= pauseMs;
    if (known !== undefined && (isFresh || !mayRead)) return Promise.resolve(known.server);
    if (!mayRead) return Promise.reject(new Error('The provider did not answer a moment ago.'));
    this.#reading ??= this.#oauth
      .discover({ url: this.#issuer, issuer: this.#issuer })
      .then(({ server }) => {
        this.#known = { server, readAt: now };
        return server;
      })
      .catch((error: unknown) => {
        this.#failedAt = now;
        if (known !== undefined) return known.server;
        throw error;
      })
      .finally(() => (this.#reading = undefined));
    return this.#reading;
  }
}

function settingsOf({ client_id, token_endpoint_auth_method }: AuthorizationClientOptions): McpOauthSettings {
  return { client_id, ...(token_endpoint_auth_method !== undefined && { token_endpoint_auth_method }) };
}

/** Every contradiction in the settings of the client. */
export function clientFaults({ authorization }: McpOptions): readonly OptionFault[] {
  const client = authorization?.client;
  if (client === undefined) return [];
  const secrets = new Set(secretsOfOauth(client).map(({ name }) => name));
  const given = { authType: 'oauth_auto', settings: settingsOf(client), secrets } as const;
  return oauthMistakes(given).map(({ path, message }) => ({
    path: `/authorization/client${path}`,
    message,
  }));
}
