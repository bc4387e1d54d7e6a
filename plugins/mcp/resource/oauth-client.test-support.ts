import assert from 'node:assert/strict';
import { type OAuthClientProvider, UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type {
  OAuthClientInformationFull,
  OAuthClientInformationMixed,
  OAuthTokens,
} from '@modelcontextprotocol/sdk/shared/auth.js';
import { Browser } from '../../../tests/kit/browser.ts';

/** Where the client waits for its code; nothing listens there, the browser stops in front of it. */
const redirectUrl = 'http://127.0.0.1:34567/oauth/callback';

/** What a client of the SDK keeps, in memory. */
export class MemoryProvider implements OAuthClientProvider {
  readonly redirectUrl = redirectUrl;
  readonly clientMetadata = {
    client_name: 'Test Agent',
    redirect_uris: [redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'native',
  };
  client: OAuthClientInformationMixed | undefined;
  saved: OAuthTokens | undefined;
  /** Where the user has to sign in; undefined before the SDK has asked for it. */
  asked: URL | undefined;
  #verifier = '';

  state(): string {
    return 'state of the client';
  }

  clientInformation(): OAuthClientInformationMixed | undefined {
    return this.client;
  }

  saveClientInformation(client: OAuthClientInformationFull): void {
    this.client = client;
  }

  tokens(): OAuthTokens | undefined {
    return this.saved;
  }

  saveTokens(tokens: OAuthTokens): void {
    this.saved = tokens;
  }

  redirectToAuthorization(url: URL): void {
    this.asked = url;
  }

  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }

  codeVerifier(): string {
    return this.#verifier;
  }
}

/** Connects the SDK's client to this server. Resolves with its tools. */
export async function toolsAt(url: string, provider: OAuthClientProvider): Promise<readonly string[]> {
  const client = new Client({ name: 'agent', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider: provider }));
  try {
    return (await client.listTools()).tools.map(({ name }) => name);
  } finally {
    await client.close();
  }
}

/**
 * Signs in as the SDK's users do: the client is refused, finds the authorization server, and sends the user there; the
 * code comes back to it. Resolves with the address at which it came back.
 */
export async function signIn(url: string, provider: MemoryProvider): Promise<URL> {
  await assert.rejects(toolsAt(url, provider), UnauthorizedError);
  assert.ok(provider.asked, 'the client knows where to send its user');
  const end = await new Browser(redirectUrl).agree(provider.asked);
  assert.ok('left' in end, JSON.stringify(end));
  assert.equal(end.left.searchParams.get('state'), provider.state(), end.left.href);
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  await transport.finishAuth(end.left.searchParams.get('code') ?? '');
  return end.left;
}
