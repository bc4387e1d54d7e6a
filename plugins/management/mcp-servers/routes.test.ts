import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import {
  expecting,
  openResourcesOfFile,
  startAdministration,
} from '../../../tests/kit/administration-kit.ts';
import { describedServer, fakeMcp, toolOffer } from '../../../tests/kit/fake-mcp.ts';
import { TestClock } from '../../../tests/kit/plugin-kit.ts';

const resources = await openResourcesOfFile();

const path = '/mcp-servers';
const integrations = '/mcp-integrations';
const planted = 'tk-planted-0123456789-canary';
const custom_headers = { 'x-api-key': planted };
const shared = {
  name: 'Tickets',
  slug: 'tickets',
  url: 'https://tickets.example.com/mcp',
  auth_type: 'headers',
  transport: 'http',
  configurations: { custom_headers },
};
const body = { name: 'Mine', slug: 'mine', mcp_integration_id: 'tickets' };

/** A gateway with an integration of the organisation that the workspace may use. */
async function start(t: TestContext, server: { public_url?: string } = {}) {
  const mcp = fakeMcp();
  const clock = new TestClock();
  const { tenant, call } = await startAdministration(t, resources, { mcp, clock, server });
  const place = await tenant('mcp');
  const { owner, key, organisationId, workspaceId } = place;
  const service = key({ kind: 'workspace-service', name: 'service' });
  const { ok, refused } = expecting(call, service);
  const integration = await ok({ path: integrations, body: shared }, owner);
  const allow = (enabled: boolean) =>
    ok(
      {
        method: 'PUT',
        path: `${integrations}/tickets/workspaces`,
        body: { workspaces: [{ id: workspaceId, enabled }] },
      },
      owner,
    );
  await allow(true);
  const member = async (firstName: string, lastName: string) => {
    const id = randomUUID();
    await resources.write(organisationId, async ({ users, members }) => {
      const times = { createdAt: clock.now(), updatedAt: clock.now(), version: 1 };
      const email = `${firstName}-${id}@example.com`.toLowerCase();
      await users.insert({ id, organisationId, email, firstName, lastName, role: 'member', ...times });
      await members.insert({ organisationId, workspaceId, userId: id, role: 'member', ...times });
    });
    clock.advance(1);
    return id;
  };
  return { ...place, mcp, clock, call, ok, refused, service, integration, allow, member };
}

describe('an MCP server', () => {
  test('is made of an integration, read, listed, changed and deleted', async (t) => {
    const { call, ok, refused, service, owner, integration, organisationId, workspaceId, clock } =
      await start(t, {
        public_url: 'https://weir.example.com/',
      });
    const made = await call(service, { path, body: { ...body, slug: undefined, description: 'd' } });
    assert.deepEqual([made.status, made.headers['etag']], [200, '"1"'], made.text);
    const { id, slug, object } = made.json();
    assert.match(slug, /^mine-[a-z]{6}$/);
    assert.equal(object, 'mcp-server');
    const { created_at, last_updated_at, owner_id: by, ...shown } = await ok({ path: `${path}/${slug}` });
    assert.deepEqual([created_at, by], [last_updated_at, service.id]);
    const beside = {
      id,
      slug,
      object,
      name: 'Mine',
      description: 'd',
      status: 'active',
      workspace_id: workspaceId,
      organisation_id: organisationId,
      mcp_integration_id: integration.id,
      url: `https://weir.example.com/${slug}/mcp`,
    };
    assert.deepEqual(shown, {
      ...beside,
      mcp_integration_details: {
        id: integration.id,
        slug: 'tickets',
        status: 'active',
        transport: 'http',
        url: shared.url,
        auth_type: 'headers',
        configurations: { custom_headers: { 'x-api-key': 'tk…ry' } },
      },
    });
    const { data, ...list } = await ok({ path });
    assert.deepEqual(list, { object: 'list', total: 1, has_more: false });
    assert.deepEqual(data, [
      {
        ...beside,
        owner_id: by,
        created_at,
        last_updated_at,
        auth_type: 'headers',
        mcp_integration_slug: 'tickets',
        mcp_integration_url: shared.url,
        workspace_name: 'mcp default',
        workspace_slug: 'ws-mcp-default',
      },
    ]);
    clock.advance(1);
    const change = { name: 'Ours', description: null };
    const changed = await ok({ method: 'PUT', path: `${path}/${id}`, body: change });
    assert.deepEqual([changed.name, changed.description, changed.slug], ['Ours', null, slug]);
    await ok({ path, body });
    const slugs = async (query: string, by = service) =>
      (await ok({ path: `${path}${query}` }, by)).data.map((one: { slug: string }) => one.slug);
    assert.deepEqual(await slugs('?search=OURS'), [slug]);
    assert.deepEqual(await slugs('?id=mine'), ['mine']);
    assert.deepEqual(await slugs(`?id=${id}`), [slug]);
    assert.deepEqual(await slugs('?page_size=1&current_page=1'), ['mine']);
    assert.deepEqual(await slugs(`?workspace_id=${workspaceId}`, owner), [slug, 'mine']);
    assert.deepEqual(await ok({ method: 'DELETE', path: `${path}/${id}` }), {});
    await refused({ path: `${path}/${id}` }, 404, /No MCP server/);
    assert.equal((await call(service, { path: `${path}/mine` })).text.includes(planted), false);
  });

  test('needs an integration that its workspace may use, and a name and a slug that can be', async (t) => {
    const { ok, refused, owner, key, allow } = await start(t);
    await refused(
      { path, body: { ...body, mcp_integration_id: 'gone' } },
      400,
      /\/mcp_integration_id names no MCP/,
    );
    await refused({ path, body: { ...body, slug: 'ab' } }, 400, /\/slug/);
    await refused({ path, body: { ...body, slug: 'x'.repeat(51) } }, 400, /\/slug/);
    await refused({ path, body: { ...body, description: 'x'.repeat(501) } }, 400, /\/description/);
    await refused({ path, body }, 400, /\/workspace_id is missing/, owner);
    await allow(false);
    await refused(
      { path, body },
      400,
      /\/mcp_integration_id names no MCP integration that the workspace may use/,
    );
    await allow(true);
    await ok({ path, body });
    await refused({ path, body }, 409, /slug|exists/);
    const { url } = await ok({ path: `${path}/mine` });
    assert.equal(url, null, 'nobody said where people reach this gateway');
    const elsewhere = key({ kind: 'workspace-service', name: 'elsewhere', workspaceId: 'another' });
    await refused({ path: `${path}/mine` }, 404, /No MCP server \\"mine\\" is visible/, elsewhere);
  });

  test('stays when its workspace may not use the integration any more, and is not spoken to', async (t) => {
    const { ok, allow, mcp } = await start(t);
    await ok({ path, body });
    await allow(false);
    assert.equal((await ok({ path: `${path}/mine` })).status, 'disabled');
    assert.deepEqual(
      (await ok({ path })).data.map(({ status }: { status: string }) => status),
      ['disabled'],
    );
    const tried = await ok({ path: `${path}/mine/test`, body: {} });
    assert.deepEqual(
      [tried.success, tried.error],
      [false, 'The workspace may not use the MCP integration any more.'],
    );
    assert.equal((await ok({ path: `${path}/mine/metadata?refresh=true` })).sync_status, 'never');
    assert.deepEqual(mcp.addresses, []);
    await allow(true);
    assert.equal((await ok({ path: `${path}/mine` })).status, 'active');
  });
});

describe('the test of an MCP server', () => {
  test('says how long it took, or why it failed', async (t) => {
    const { ok, refused, mcp, clock } = await start(t);
    await ok({ path, body });
    mcp.meanwhile = () => Promise.resolve(clock.advance(87));
    const run = { path: `${path}/mine/test`, body: {} };
    assert.deepEqual(await ok(run), {
      success: true,
      status_code: 200,
      response_time_ms: 87,
      url: shared.url,
      server_name: 'tickets',
      error: null,
    });
    assert.deepEqual(mcp.addresses[0]?.headers, ['x-api-key', planted]);
    mcp.answer = new GatewayError('mcp_failed', `It answered with status 401 to ${planted}.`, {
      extra: { status: 401 },
    });
    assert.deepEqual(await ok({ method: 'POST', path: run.path }), {
      success: false,
      status_code: 401,
      response_time_ms: 87,
      url: shared.url,
      server_name: 'Mine',
      error: 'It answered with status 401 to ….',
    });
    mcp.answer = new GatewayError('address_refused', 'The address may not be spoken to.');
    assert.equal((await ok(run)).status_code, null);
    await refused({ ...run, body: { now: true } }, 400, /now/);
    await refused({ path: `${path}/gone/test`, body: {} }, 404, /No MCP server/);
  });
});

describe('what an MCP server offers', () => {
  const at = `${path}/mine/capabilities`;
  const tool = (name: string, enabled: boolean) => ({ name, type: 'tool', enabled });

  test('is on as far as neither its integration nor its workspace says otherwise', async (t) => {
    const { ok, refused, owner, mcp } = await start(t);
    await ok({ path, body });
    mcp.answer = describedServer([toolOffer('find'), toolOffer('close'), toolOffer('drop')]);
    const metadata = await ok({ path: `${path}/mine/metadata` });
    assert.deepEqual([metadata.sync_status, metadata.server_name], ['synced', 'tickets']);
    const put = (...capabilities: object[]) => ({ method: 'PUT', path: at, body: { capabilities } });
    const off = { method: 'PUT', path: `${integrations}/tickets/capabilities` };
    await ok({ ...off, body: { capabilities: [tool('drop', false)] } }, owner);
    assert.deepEqual(await ok(put(tool('close', false))), { success: true });
    const shown = async () =>
      (await ok({ path: at })).data.map((one: Record<string, unknown>) => [
        ...[one['name'], one['enabled'], one['integration_enabled']],
      ]);
    assert.deepEqual(await shown(), [
      ['find', true, true],
      ['close', false, true],
      ['drop', false, false],
    ]);
    assert.deepEqual((await ok({ path: at })).counts.tools, { total: 3, enabled: 1 });
    assert.deepEqual((await ok({ path: `${path}/mine/metadata` })).counts.tools, { total: 3, enabled: 1 });
    await refused(
      put(tool('drop', true)),
      400,
      /\/capabilities\/0\/enabled cannot be true: the integration \\"tickets\\"/,
    );
    await refused(put(tool('clsoe', true)), 400, /did you mean \\"close\\"/);
    await ok(put(tool('close', true), tool('drop', false)));
    // On in the integration again, it is still off for this workspace, which said so.
    await ok({ ...off, body: { capabilities: [tool('drop', true)] } }, owner);
    assert.deepEqual(await shown(), [
      ['find', true, true],
      ['close', true, true],
      ['drop', false, true],
    ]);
    const page = await ok({ path: `${at}?page=2&page_size=2&type=tool` });
    assert.deepEqual([page.data.length, page.total, page.has_more, page.data[0].name], [1, 3, false, 'drop']);
    assert.deepEqual(page.data[0].input_schema, { type: 'object' });
  });
});

describe('who may use an MCP server', () => {
  const at = `${path}/mine/user-access`;

  test('is said for all and by name', async (t) => {
    const { ok, refused, member } = await start(t);
    await ok({ path, body });
    const [ann, bob] = [await member('Ann', 'Lee'), await member('Bob', 'Mead')];
    const put = (change: object) => ({ method: 'PUT', path: at, body: change });
    const shown = async (query = '') => {
      const { data, default_user_access: all } = await ok({ path: `${at}${query}` });
      return [
        all,
        ...data.map((one: Record<string, unknown>) => [one['user_id'], one['enabled'], one['has_override']]),
      ];
    };
    assert.deepEqual(await shown(), ['allow', [ann, true, false], [bob, true, false]]);
    assert.deepEqual((await ok({ path: at })).data[0], {
      user_id: ann,
      first_name: 'Ann',
      last_name: 'Lee',
      enabled: true,
      has_override: false,
      connection_status: 'not_connected',
    });
    assert.deepEqual(await ok(put({ user_access: [{ user_id: ann, enabled: false }] })), { success: true });
    assert.deepEqual(await shown(), ['allow', [ann, false, true], [bob, true, false]]);
    await ok(put({ default_user_access: 'deny', user_access: [{ id: bob, enabled: true }] }));
    assert.deepEqual(await shown(), ['deny', [ann, false, true], [bob, true, true]]);
    assert.deepEqual(await shown('?search=LEE'), ['deny', [ann, false, true]]);
    assert.deepEqual(await shown('?search=bob'), ['deny', [bob, true, true]]);
    assert.deepEqual(await shown('?page=2&page_size=1'), ['deny', [bob, true, true]]);
    const one = { user_id: ann, enabled: true };
    const wrong: [object, RegExp][] = [
      [{ user_access: [{ ...one, user_id: 'gone' }] }, /\/user_access\/0\/user_id names no member/],
      [{ user_access: [one, one] }, /\/user_access\/1\/user_id is there twice/],
      [{ user_access: [{ enabled: true }] }, /\/user_access\/0\/user_id is missing/],
      [{ user_access: [{ ...one, id: bob }] }, /\/user_access\/0\/user_id is not what id says/],
      [{ default_user_access: 'ask' }, /default_user_access/],
      [{}, /body/],
    ];
    for (const [change, message] of wrong) await refused(put(change), 400, message);
    assert.deepEqual(await shown(), ['deny', [ann, false, true], [bob, true, true]]);
  });

  test('nobody is connected to begin with', async (t) => {
    const { ok, refused, organisationId } = await start(t);
    await ok({ path, body });
    const connections = `${path}/mine/connections`;
    const none = { object: 'list', total: 0, has_more: false, data: [] };
    assert.deepEqual(await ok({ path: `${connections}?page_size=500` }), none);
    assert.deepEqual(await ok({ method: 'DELETE', path: `${connections}?user_id=${randomUUID()}` }), {
      success: true,
    });
    await refused({ path: `${path}/gone/connections` }, 404, /No MCP server/);
    await refused({ method: 'DELETE', path: `${path}/gone/connections` }, 404, /No MCP server/);
    const { data } = await resources.read(({ audit }) =>
      audit.list(organisationId, { resourceType: 'mcp_server_connections' }, { offset: 0, limit: 10 }),
    );
    assert.deepEqual(
      data.map(({ action }) => action),
      ['delete'],
    );
  });
});
