import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import type { TestContext } from 'node:test';
import { realClock } from '../../../core/lifecycle/recording-services.test-support.ts';
import { Browser } from '../../../tests/kit/browser.ts';
import { type IdentityProvider, startIdentityProvider } from '../../../tests/kit/identity-provider.ts';
import { startGuarded } from '../resource/guarded-servers.test-support.ts';

/** The one client at the provider. The port of a native application's loopback address may differ. */
export const known = {
  client_id: 'weir',
  client_secret: 'held-by-the-gateway-alone',
  application_type: 'native',
  redirect_uris: ['http://127.0.0.1/mcp/oauth/callback'],
  grant_types: ['authorization_code', 'refresh_token'],
};

/** Where the application of a test waits; the browser stops in front of it. */
export const waiting = 'http://127.0.0.1:34567/callback';

type Guarded = Parameters<typeof startGuarded>[1];

/** What a test says otherwise. */
interface FacadeSetup extends Omit<Guarded, 'provider' | 'authorization'> {
  readonly provider?: Parameters<typeof startIdentityProvider>[1];
  /** Instead of one of its own. */
  readonly knownProvider?: IdentityProvider;
  /** Of `mcp.authorization`. */
  readonly authorization?: Readonly<Record<string, unknown>>;
  /** Of `mcp.authorization.client`. */
  readonly client?: Readonly<Record<string, unknown>>;
}

/** Members of answers of the authorization server. */
interface Answered {
  readonly client_id?: string;
  readonly client_name?: string;
  readonly redirect_uris?: readonly string[];
  readonly access_token?: string;
  readonly refresh_token?: string;
  readonly expires_in?: number;
  readonly scope?: string;
  readonly error?: string;
  readonly error_description?: string;
}

/** A sign-in up to the code. */
interface SignIn {
  readonly clientId: string;
  readonly verifier: string;
  readonly code: string;
  /** The address at which the application was told. */
  readonly told: URL;
}

/** A gateway that is the authorization server in front of a provider, and what an application does with it by hand. */
export async function startFacade(t: TestContext, { knownProvider, ...setup }: FacadeSetup = {}) {
  const provider = knownProvider ?? (await startIdentityProvider(t, { clients: [known], ...setup.provider }));
  const time = { passed: 0 };
  const clock = {
    ...realClock,
    now: () => realClock.now() + time.passed,
    monotonic: () => realClock.monotonic() + time.passed,
  };
  const gateway = await startGuarded(t, {
    ...setup,
    provider,
    authorization: {
      ...setup.authorization,
      client: { client_id: known.client_id, client_secret: known.client_secret, ...setup.client },
    },
    gateway: { clock, ...setup.gateway },
  });
  const at = (path: string): string => `${gateway.url}/mcp/oauth/${path}`;
  const post = async (path: string, body: unknown) => {
    const answer = await fetch(at(path), {
      method: 'POST',
      ...(body instanceof URLSearchParams
        ? { body }
        : {
            body: typeof body === 'string' ? body : JSON.stringify(body),
            headers: { 'content-type': 'application/json' },
          }),
    });
    return { status: answer.status, headers: answer.headers, json: (await answer.json()) as Answered };
  };
  const register = async (metadata: object = {}): Promise<string> => {
    const { status, json } = await post('register', {
      redirect_uris: [waiting],
      client_name: 'Agent',
      ...metadata,
    });
    assert.equal(status, 201, JSON.stringify(json));
    return json.client_id ?? '';
  };
  const token = (form: Readonly<Record<string, string>>) => post('token', new URLSearchParams(form));
  /** Address of a sign-in; an undefined parameter is left out. */
  const authorizeUrl = (
    clientId: string,
    verifier: string,
    changed: Record<string, string | undefined> = {},
  ): string => {
    const parameters: Record<string, string | undefined> = {
      response_type: 'code',
      client_id: clientId,
      redirect_uri: waiting,
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
      state: 'state of the application',
      scope: 'mcp.invoke',
      resource: `${gateway.url}/tickets/mcp`,
      ...changed,
    };
    const sent = Object.entries(parameters).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value] as [string, string]],
    );
    return `${at('authorize')}?${new URLSearchParams(sent).toString()}`;
  };
  const signIn = async (
    changed: Record<string, string | undefined> = {},
    { clientId, browser = new Browser(waiting) }: { clientId?: string; browser?: Browser } = {},
  ): Promise<SignIn> => {
    const client = clientId ?? (await register());
    const verifier = randomBytes(32).toString('base64url');
    const end = await browser.agree(authorizeUrl(client, verifier, changed));
    assert.ok('left' in end, JSON.stringify(end));
    return { clientId: client, verifier, code: end.left.searchParams.get('code') ?? '', told: end.left };
  };
  const exchange = ({ clientId, verifier, code }: SignIn, changed: Record<string, string> = {}) =>
    token({
      grant_type: 'authorization_code',
      client_id: clientId,
      code,
      code_verifier: verifier,
      redirect_uri: waiting,
      ...changed,
    });
  /** Lists the tools of a server with this token: status and code of the error. */
  const list = async (accessToken = '', path = '/tickets/mcp'): Promise<[number, string | undefined]> => {
    const answer = await fetch(gateway.url + path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${accessToken}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    });
    const { error } = (await answer.json()) as { error?: { data?: { code?: string } } };
    return [answer.status, error?.data?.code];
  };
  return { provider, gateway, time, at, post, register, token, authorizeUrl, signIn, exchange, list };
}

/** The page that a browser ends at; it must not have been sent anywhere. */
export async function pageOf(ending: ReturnType<Browser['open']>) {
  const end = await ending;
  assert.ok('page' in end, 'the browser was sent away');
  return end.page;
}

/** The hidden field of the page that asks the user. */
export function requestOf({ html }: { readonly html: string }): string {
  return /name="request" value="([^"]+)"/.exec(html)?.[1] ?? '';
}

export type Facade = Awaited<ReturnType<typeof startFacade>>;

/** Begins a sign-in that is refused by a page, and sent nowhere. */
export async function refusedPage(
  facade: Facade,
  clientId: string,
  changed: Readonly<Record<string, string | undefined>>,
  why: RegExp,
): Promise<void> {
  const answer = await fetch(facade.authorizeUrl(clientId, 'v'.repeat(43), changed), { redirect: 'manual' });
  const html = await answer.text();
  const told = JSON.stringify(changed);
  assert.deepEqual([answer.status, answer.headers.get('location')], [400, null], told);
  assert.match(html, why, told);
  assert.ok(!html.includes('<form'), told);
}
