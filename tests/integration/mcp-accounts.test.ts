import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import {
  type ClientCapabilities,
  ElicitationCompleteNotificationSchema,
  McpError,
  UrlElicitationRequiredError,
} from '@modelcontextprotocol/sdk/types.js';
import auth from '../../plugins/auth/index.ts';
import mcp from '../../plugins/mcp/index.ts';
import { openResourcesOfFile } from '../kit/administration-kit.ts';
import { type AuthorizationServerOptions, startAuthorizationServer } from '../kit/authorization-server.ts';
import { Browser } from '../kit/browser.ts';
import { startTestGateway } from '../kit/gateway-kit.ts';
import { connected, trustingClients, whoami } from '../kit/mcp-oauth-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';
import { eventually } from '../kit/process-kit.ts';
import { startProtectedMcpServer } from '../kit/protected-mcp-server.ts';

const resources = await openResourcesOfFile();
const organisationId = 'org-of-accounts';
await resources.write(organisationId, ({ organisations }) =>
  organisations.ensure({ id: organisationId, name: 'Accounts', createdAt: 1 }),
);

/** A gateway in front of `tickets` and `wiki`, each with an authorization server of its own, and users of both. */
async function start(t: TestContext, options: AuthorizationServerOptions = {}) {
  const place = async () => {
    const authority = await startAuthorizationServer(options);
    t.after(() => authority.close());
    const server = await startProtectedMcpServer(authority);
    t.after(() => server.close());
    return { authority, server };
  };
  const [tickets, wiki] = [await place(), await place()];
  const users = ['ann', 'bob'].map((name) => `${name}-${t.name.length}-${process.hrtime.bigint()}`);
  const hosts = [tickets, wiki].flatMap(({ authority, server }) => [authority.host, server.host]);
  const keyOf = (userId: string) =>
    testKey({ id: `key-${userId}`, organisationId, userId, scopes: ['mcp.invoke'] });
  const keys = { 'wk-ann': keyOf(users[0] ?? ''), 'wk-bob': keyOf(users[1] ?? ''), 'wk-service': keyOf('') };
  const restart = (servers: object) =>
    startTestGateway(t, {
      plugins: [auth, { plugin: mcp, options: { servers } }],
      mcp: trustingClients(t, hosts),
      resources,
      keys,
    });
  const gateway = await restart({
    tickets: { url: tickets.server.url, oauth: {} },
    wiki: { url: wiki.server.url, oauth: {} },
  });
  /** The link that a client gets which opens URLs for its user. */
  const linkFor = async (key: string, slug = 'tickets'): Promise<string> => {
    const client = new Client(
      { name: 'agent', version: '1' },
      { capabilities: { elicitation: { url: {} } } },
    );
    const error = await connected(t, `${gateway.url}/${slug}/mcp`, key, client).catch((one: unknown) => one);
    assert.ok(error instanceof UrlElicitationRequiredError, String(error));
    const [asked] = error.elicitations;
    assert.equal(asked?.mode, 'url');
    return asked.url;
  };
  return {
    gateway,
    tickets,
    wiki,
    linkFor,
    restart,
    connect: (key: string, slug = 'tickets') => connected(t, `${gateway.url}/${slug}/mcp`, key),
  };
}

/** Agrees to all pages. */
async function agree(url: string | URL, browser = new Browser()) {
  const end = await browser.agree(url);
  assert.ok('page' in end);
  return end.page;
}

/** A page whose form is not sent. */
async function open(url: string | URL, browser: Browser, init: RequestInit = {}) {
  const end = await browser.open(url, init);
  assert.ok('page' in end);
  return end.page;
}

/** Walks to where the authorization server sends the browser back, and stops there. */
async function walkBack(gateway: string, link: string) {
  const callback = `${gateway}/mcp/callback`;
  const stopping = new Browser(callback);
  const end = await stopping.agree(link);
  assert.ok('left' in end, JSON.stringify(end));
  return { back: end.left, browser: stopping.copy() };
}

describe('a user of an MCP server that wants accounts of users', () => {
  test('connects an account once by the link in the refusal, and calls tools in its name', async (t) => {
    const { gateway, tickets, linkFor, connect } = await start(t);
    const page = await agree(await linkFor('wk-ann'));
    assert.equal(page.status, 200, page.html);
    assert.match(page.html, /Connected/);
    const client = await connect('wk-ann');
    assert.match(await whoami(client), /^ann by /);
    assert.match(await whoami(client), /^ann by /);
    const begun = tickets.authority.requests.filter((one) => one === 'POST /reg').length;
    assert.equal(begun, 1);
    assert.ok(tickets.server.headers.every((headers) => !JSON.stringify(headers).includes('wk-ann')));
    const logged = JSON.stringify(gateway.lines);
    for (const token of tickets.server.tokens) if (token !== '') assert.ok(!logged.includes(token));
    // Of this user alone, who has to go on with further rights by another link.
    await assert.rejects(connect('wk-bob'), /needs your account there/);
    await assert.rejects(whoami(client, 'write'), /needs your account there/);
  });

  test('gets the link in a sentence where the client opens none, and a reason where a key has no user', async (t) => {
    const { connect } = await start(t);
    const error = await connect('wk-ann').catch((one: unknown) => one);
    assert.ok(error instanceof McpError);
    assert.equal(error.code, -32_000);
    assert.match(JSON.stringify(error.data), /"code":"mcp_connection_missing"/);
    const link = /http:\/\/127\.0\.0\.1:\d+\/mcp\/connect\/\S+/.exec(error.message)?.[0] ?? '';
    assert.equal((await agree(link)).status, 200);
    assert.match(await whoami(await connect('wk-ann')), /^ann by /);
    await assert.rejects(connect('wk-service'), /Come with a key or a token of a user/);
  });
});

describe('an attacker', () => {
  test('cannot end a walk that another browser has begun, nor one with another state, nor end one twice', async (t) => {
    const { gateway, linkFor, connect } = await start(t);
    const { back, browser } = await walkBack(gateway.url, await linkFor('wk-ann'));
    const changed = new URL(back);
    changed.searchParams.set('state', `${back.searchParams.get('state')?.slice(0, -1)}_`);
    for (const [url, by] of [
      [back, new Browser()],
      [changed, browser],
    ] as const) {
      const page = await open(url, by);
      assert.equal(page.status, 403, page.html);
      assert.match(page.html, /not begun in this browser/);
    }
    await assert.rejects(connect('wk-ann'), /needs your account there/);
    assert.equal((await open(back, browser)).status, 200);
    const again = await open(back, browser);
    assert.equal(again.status, 403);
    assert.match(again.html, /not begun in this browser/);
    assert.match(await whoami(await connect('wk-ann')), /^ann by /);
  });

  test('cannot replay the answer with a kept cookie, nor use a link again', async (t) => {
    const { gateway, linkFor } = await start(t);
    const link = await linkFor('wk-ann');
    const { back, browser } = await walkBack(gateway.url, link);
    const thief = browser.copy();
    assert.equal((await open(back, browser)).status, 200);
    const replayed = await open(back, thief);
    assert.equal(replayed.status, 403);
    assert.match(replayed.html, /opened before/);
    const second = await agree(link);
    assert.equal(second.status, 403);
    assert.match(second.html, /connected an account before/);
  });

  test('cannot have a page of another site begin in the browser of a victim', async (t) => {
    const { linkFor, tickets, connect } = await start(t);
    const link = await linkFor('wk-bob');
    const victim = new Browser();
    const form = (proof: string) => ({ method: 'POST', body: new URLSearchParams({ proof }) });
    const refusals = [await open(link, victim, form('x'))];
    const page = await open(link, victim);
    assert.match(page.headers.get('content-security-policy') ?? '', /frame-ancestors 'none'/);
    assert.match(page.headers.getSetCookie().join(), /HttpOnly; SameSite=Strict/);
    assert.match(page.html, /tickets/);
    assert.match(page.html, /bob-/);
    refusals.push(await open(link, victim, form('x')));
    const proof = /name="proof" value="([^"]+)"/.exec(page.html)?.[1] ?? '';
    refusals.push(
      await open(link, victim, { ...form(proof), headers: { origin: 'https://evil.example.com' } }),
    );
    for (const refused of refusals) {
      assert.equal(refused.status, 403, refused.html);
      assert.match(refused.html, /not opened in this browser/);
    }
    assert.deepEqual(tickets.authority.requests, []);
    await assert.rejects(connect('wk-bob'), /needs your account there/);
  });

  test('cannot change a link, nor pass the answer of another authorization server off as that of this one', async (t) => {
    const { gateway, linkFor, tickets, wiki, connect } = await start(t);
    const link = await linkFor('wk-ann');
    const changed = await open(`${link.slice(0, -6)}AAAAAA`, new Browser());
    assert.equal(changed.status, 400);
    for (const issuer of [wiki.authority.issuer, undefined]) {
      const { back, browser } = await walkBack(gateway.url, await linkFor('wk-ann'));
      assert.equal(back.searchParams.get('iss'), tickets.authority.issuer);
      if (issuer === undefined) back.searchParams.delete('iss');
      else back.searchParams.set('iss', issuer);
      const page = await open(back, browser);
      assert.equal(page.status, 403);
      assert.match(page.html, /another authorization server/);
    }
    assert.deepEqual(tickets.authority.tokenRequests, []);
    await assert.rejects(connect('wk-ann'), /needs your account there/);
  });
});

test('a refusal of the user is told in words of the gateway, and connects nothing', async (t) => {
  const { linkFor, tickets, connect } = await start(t);
  tickets.authority.user = undefined;
  const page = await agree(await linkFor('wk-ann'));
  assert.equal(page.status, 403);
  assert.match(page.html, /gives no access \(access_denied\)/);
  assert.doesNotMatch(page.html, /<b>no/);
  await assert.rejects(connect('wk-ann'), /needs your account there/);
});

test('a token goes to the server that it was made for: not to another one, nor to another address of this one', async (t) => {
  const { gateway, linkFor, tickets, wiki, connect, restart } = await start(t);
  await agree(await linkFor('wk-ann'));
  await whoami(await connect('wk-ann'));
  await assert.rejects(connect('wk-ann', 'wiki'), /needs your account there/);
  assert.deepEqual(new Set(wiki.server.tokens), new Set(['']));
  wiki.authority.user = 'ann of the wiki';
  await agree(await linkFor('wk-ann', 'wiki'));
  assert.match(await whoami(await connect('wk-ann', 'wiki')), /^ann of the wiki by /);
  const ofWiki = new Set(wiki.server.tokens);
  assert.ok(tickets.server.tokens.every((token) => token === '' || !ofWiki.has(token)));
  const tokens = wiki.server.tokens.length;
  const moved = await restart({ tickets: { url: wiki.server.url, oauth: {} } });
  await assert.rejects(connected(t, `${moved.url}/tickets/mcp`, 'wk-ann'), /needs your account there/);
  assert.deepEqual(new Set(wiki.server.tokens.slice(tokens)), new Set(['']));
  assert.notEqual(moved.url, gateway.url);
});

test('all servers together: a server offers a tool that connects an account, then its own tools, to each user for itself', async (t) => {
  const { gateway, linkFor } = await start(t);
  const all = (key: string) => connected(t, `${gateway.url}/mcp`, key);
  const names = async (client: Client) => (await client.listTools()).tools.map(({ name }) => name).sort();
  const [ann, bob] = [await all('wk-ann'), await all('wk-bob')];
  assert.deepEqual(await names(bob), ['tickets__connect', 'wiki__connect']);
  const error = await ann.callTool({ name: 'tickets__connect' }).catch((one: unknown) => one);
  assert.match(String(error), /\/mcp\/connect\//);
  await agree(await linkFor('wk-ann'));
  assert.deepEqual(await names(await all('wk-ann')), ['tickets__whoami', 'tickets__write', 'wiki__connect']);
  assert.deepEqual(await names(bob), ['tickets__connect', 'wiki__connect']);
});

test('a client that opens URLs is told on its stream when its user is done, and others hear nothing', async (t) => {
  const { gateway } = await start(t);
  const heard: string[][] = [];
  const connect = (name: string, key: string, capabilities: ClientCapabilities) => {
    const client = new Client({ name, version: '1' }, { capabilities });
    client.setNotificationHandler(ElicitationCompleteNotificationSchema, ({ params }) => {
      heard.push([name, params.elicitationId]);
    });
    return connected(t, `${gateway.url}/mcp`, key, client);
  };
  const opensUrls = { elicitation: { url: {} } };
  const ann = await connect('ann', 'wk-ann', opensUrls);
  await connect('ann without URLs', 'wk-ann', { elicitation: { form: {} } });
  await connect('bob', 'wk-bob', opensUrls);
  await eventually(
    () => gateway.held() === 3 || undefined,
    () => 'three streams',
  );
  const error = await ann.callTool({ name: 'tickets__connect' }).catch((one: unknown) => one);
  assert.ok(error instanceof UrlElicitationRequiredError, String(error));
  const [asked] = error.elicitations;
  assert.equal(asked?.mode, 'url');
  assert.equal((await agree(asked.url)).status, 200);
  await eventually(
    () => heard.length > 0 || undefined,
    () => 'a notification',
  );
  assert.deepEqual(heard, [['ann', asked.elicitationId]]);
});
