import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { type AuthorizationServer, startAuthorizationServer } from '../kit/authorization-server.ts';
import { assertAccessible, consoleConfig, openWindow, useConsole } from './console-kit.ts';

const resource = 'https://weir.example/console';
const scopes = ['logs.list', 'analytics.view', 'configs.list'];

describe('single sign-on', () => {
  let provider: AuthorizationServer;
  const gateway = useConsole(async (port) => {
    provider = await startAuthorizationServer({
      clients: [
        {
          client_id: 'weir-console',
          client_secret: 'planted secret',
          ...{ grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] },
          redirect_uris: [`http://127.0.0.1:${port}/console/callback`],
          post_logout_redirect_uris: [`http://127.0.0.1:${port}/console`],
        },
      ],
      scopes,
      resources: [resource],
      tokensAreJwt: true,
    });
    const auth = {
      auth: { jwt: { jwks_url: `${provider.issuer}/jwks`, issuer: provider.issuer, audience: resource } },
    };
    const signIn = {
      ...{ issuer: provider.issuer, client_id: 'weir-console', client_secret: 'planted secret' },
      ...{ scope: `openid offline_access ${scopes.join(' ')}`, resource, label: 'Sign in with Acme' },
    };
    const [admin, , serving] = consoleConfig.pipelines;
    gateway.after(() => provider.close());
    return {
      ...consoleConfig,
      security: { trusted_hosts: [provider.host] },
      pipelines: [
        { ...admin, plugins: [auth, 'management'] },
        { name: 'console', match: { path: '/console/**' }, plugins: [{ console: { sign_in: signIn } }] },
        { ...serving, plugins: [auth, ...(serving?.plugins.slice(1) ?? [])] },
      ],
    };
  });

  const signInWithAcme = async (page: Page): Promise<void> => {
    await page.getByRole('link', { name: 'Sign in with Acme' }).click();
    await page.getByRole('navigation').first().waitFor();
  };

  const signOut = async (page: Page): Promise<void> => {
    await page.getByRole('button', { name: /Appearance/ }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
  };

  /** Cookies of the gateway; the provider has the same host. */
  const ownCookies = async (page: Page): Promise<readonly string[]> => {
    const all = await page.context().cookies(`${gateway.url}/console`);
    return all.map(({ name }) => name).filter((name) => name.startsWith('weir'));
  };

  test('leads to the provider and back to the page that was asked for; the token is in no place that a script can read', async (t) => {
    const page = await openWindow(t, gateway, { key: null, place: '/console/logs?status=500' });
    await signInWithAcme(page);
    assert.equal(page.url(), `${gateway.url}/console/logs?status=500`);
    const shown = await page.getByRole('navigation').first().getByRole('link').allTextContents();
    assert.ok(shown.includes('Logs') && !shown.includes('Playground'), String(shown));
    assert.equal(await page.evaluate('document.cookie'), '');
    assert.ok((await page.context().cookies(gateway.url)).every(({ httpOnly }) => httpOnly));
    assert.ok(!(await page.content()).includes('planted secret'));
  });

  test('an ended access token is renewed by the refresh token, without a sign-in', async (t) => {
    const page = await openWindow(t, gateway, { key: null });
    await signInWithAcme(page);
    const before = provider.tokenRequests.length;
    await page.context().clearCookies({ name: 'weir-console' });
    await page.reload();
    await page.getByRole('navigation').first().waitFor();
    assert.equal(provider.tokenRequests[before]?.get('grant_type'), 'refresh_token');
  });

  test('signing out leads to the provider, which asks, and back; then it asks for the credentials again', async (t) => {
    const page = await openWindow(t, gateway, { key: null, expected: /favicon\.ico|status of 401/ });
    const asked = (): number => provider.logins.length;
    const before = asked();
    await signInWithAcme(page);
    assert.equal(asked(), before + 1);
    await signOut(page);
    const yes = page.getByRole('button', { name: 'Yes, sign me out' });
    await yes.waitFor();
    assert.ok(page.url().startsWith(`${provider.issuer}/session/end?client_id=weir-console&`), page.url());
    assert.deepEqual(await ownCookies(page), [], 'the session here is over before the provider is asked');
    await yes.click();
    await page.waitForURL(`${gateway.url}/console`);
    await signInWithAcme(page);
    assert.equal(asked(), before + 2);
  });

  test('a refusal of the provider is told, and a key still signs in', async (t) => {
    provider.user = undefined;
    t.after(() => (provider.user = 'ann'));
    const page = await openWindow(t, gateway, { key: null, expected: /403/ });
    await page.getByRole('link', { name: 'Sign in with Acme' }).click();
    await page.getByText('refused the sign-in (access_denied)').waitFor();
    await page.getByRole('link', { name: 'Back to the console' }).click();
    await page.getByLabel('Service key').waitFor();
  });

  test('a code that another browser began is refused, and so is a second use', async (t) => {
    const page = await openWindow(t, gateway, { key: null, expected: /400/ });
    let callback = '';
    page.on('request', (request) => {
      if (request.url().includes('/console/callback')) callback = request.url();
    });
    await signInWithAcme(page);
    const stranger = await openWindow(t, gateway, { key: null, expected: /400/ });
    await stranger.goto(callback);
    await stranger.getByText('begun in another browser').waitFor();
    await page.goto(callback);
    await page.getByText('Begin again').waitFor();
  });

  // The last one: the provider does not come back.
  test('signing out ends the session here also when the provider is away', async (t) => {
    const expected = /ERR_CONNECTION_REFUSED|status of 50\d/;
    const [page, other] = [
      await openWindow(t, gateway, { key: null, expected }),
      await openWindow(t, gateway, { key: null, expected }),
    ];
    await signInWithAcme(page);
    await signInWithAcme(other);
    provider.close();
    const gone = page.waitForEvent('requestfailed', (request) => request.isNavigationRequest());
    await signOut(page);
    await gone;
    assert.deepEqual(await ownCookies(page), []);

    // A gateway that has just started does not know what the provider says of itself.
    await gateway.stop();
    await gateway.start();
    await signOut(other);
    await other.getByText('The identity provider does not answer').waitFor();
    await other.getByLabel('Service key').waitFor();
    assert.deepEqual(await ownCookies(other), []);
    await assertAccessible(other);
  });
});
