import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { type AuthorizationServer, startAuthorizationServer } from '../kit/authorization-server.ts';
import { consoleConfig, openWindow, useConsole } from './console-kit.ts';

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
    await page.getByRole('button', { name: /Appearance/ }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByLabel('Service key').waitFor();
    assert.deepEqual(
      await page
        .context()
        .cookies(`${gateway.url}/console`)
        .then((all) => all.filter(({ name }) => name.startsWith('weir'))),
      [],
    );
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
});
