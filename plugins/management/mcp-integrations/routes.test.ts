import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { secretContext } from '../../../core/ports/secret-managers.ts';
import { openResourcesOfFile } from '../../../tests/kit/administration-kit.ts';
import { testSecrets } from '../../../tests/kit/test-secrets.ts';
import { body, custom_headers, field, path, planted, startMcp } from '../../../tests/kit/mcp-kit.ts';

const resources = await openResourcesOfFile();
const start = (t: TestContext) => startMcp(t, resources);

describe('an MCP integration', () => {
  test('is created, read, listed, changed and deleted, its headers sealed and shown masked', async (t) => {
    const { call, ok, refused, owner, organisationId, stored, gateway } = await start(t);
    const passthrough_header = { 'X-User': 'x-user' };
    const given = { custom_headers, passthrough_header };
    const made = await call(owner, {
      path,
      body: {
        ...body,
        auth_type: 'headers',
        description: 'd',
        configurations: given,
        organisation_id: organisationId,
      },
    });
    assert.deepEqual([made.status, made.headers['etag']], [200, '"1"'], made.text);
    const { id, slug, object } = made.json();
    assert.match(slug, /^tickets-[a-z]{6}$/);
    assert.equal(object, 'mcp-integration');

    const read = await ok({ path: `${path}/${slug}` });
    const { created_at: at, last_updated_at: changedAt, owner_id: by, ...shown } = read;
    assert.ok(at === changedAt && by !== '');
    assert.deepEqual(shown, {
      ...body,
      id,
      slug,
      object,
      description: 'd',
      organisation_id: organisationId,
      workspace_id: null,
      type: 'organisation',
      auth_type: 'headers',
      status: 'active',
      secret_mappings: [],
      configurations: { custom_headers: { 'X-Api-Key': 'tk…ry' }, passthrough_header },
      global_workspace_access: { enabled: false },
      workspaces_count: 0,
    });
    assert.deepEqual(await ok({ path: `${path}/${id}` }), read);

    const record = await stored(id);
    assert.deepEqual(record.data.customHeaders, ['X-Api-Key']);
    assert.equal(
      testSecrets.open(record.secrets[field] ?? '', secretContext(id, field)),
      JSON.stringify(custom_headers),
    );
    assert.ok(!JSON.stringify(record).includes(planted));

    // A read answer that is sent back, changed in one place, keeps the header.
    const change = { name: 'Renamed', configurations: shown.configurations, description: null };
    const changed = await call(owner, { method: 'PUT', path: `${path}/${id}`, body: change });
    assert.deepEqual([changed.status, changed.headers['etag']], [200, '"2"'], changed.text);
    assert.deepEqual([changed.json().name, changed.json().description], ['Renamed', null]);
    assert.deepEqual(changed.json().configurations, shown.configurations);

    const { data, ...list } = await ok({ path });
    assert.deepEqual(list, { object: 'list', total: 1, has_more: false });
    assert.deepEqual(data, [changed.json()]);
    // Configurations are replaced as a whole.
    const bare = await ok({ method: 'PUT', path: `${path}/${id}`, body: { configurations: {} } });
    assert.deepEqual([bare.configurations, (await stored(id)).secrets], [{}, {}]);
    assert.deepEqual(await ok({ method: 'DELETE', path: `${path}/${slug}` }), {});
    await refused({ path: `${path}/${id}` }, 404, /No MCP integration/);

    const audit = await resources.read((reader) =>
      reader.audit.list(organisationId, {}, { offset: 0, limit: 100 }),
    );
    assert.deepEqual(
      audit.data.map(({ resourceType, action }) => [resourceType, action]),
      ['delete', 'update', 'update', 'create'].map((action) => ['mcp_integrations', action]),
    );
    assert.ok(!JSON.stringify([audit, gateway.lines, read, changed.text]).includes(planted));
  });

  test('sends its headers to no other server than the one that they were given for', async (t) => {
    const { ok, refused, stored } = await start(t);
    const { id } = await ok({ path, body: { ...body, configurations: { custom_headers } } });
    const put = { method: 'PUT', path: `${path}/${id}` };
    const url = 'https://elsewhere.example.net/mcp';
    const masked = { custom_headers: { 'X-Api-Key': 'tk…ry' } };
    await refused(
      { ...put, body: { url } },
      400,
      /\/configurations\/custom_headers is missing: the url leads/,
    );
    await refused({ ...put, body: { url, configurations: masked } }, 400, /shows? of another secret/);
    await ok({ ...put, body: { url: 'https://tickets.example.com/mcp/v2', configurations: masked } });
    await ok({ ...put, body: { url, configurations: { custom_headers: { 'X-Api-Key': 'another-one' } } } });
    assert.equal((await stored(id)).data.url, url);
  });

  const wrong: [string, object, RegExp][] = [
    ['an address that is none', { url: 'tickets' }, /\/url/],
    [
      'an address of another protocol',
      { url: 'ftp://tickets.example.com/mcp' },
      /\/url must be an address like https/,
    ],
    [
      'credentials in the address',
      { url: 'https://me:pw@tickets.example.com/' },
      /\/url carries credentials/,
    ],
    ['a fragment', { url: 'https://tickets.example.com/#a' }, /\/url has a fragment/],
    ['an unknown way of authentication', { auth_type: 'basic' }, /\/auth_type/],
    ['another transport', { transport: 'stdio' }, /\/transport/],
    [
      'a header of the connection',
      { configurations: { custom_headers: { Host: 'x' } } },
      /custom_headers\/Host is set by the gateway/,
    ],
    [
      'a header of the protocol',
      { configurations: { custom_headers: { 'Mcp-Session-Id': 'x' } } },
      /is set by the gateway/,
    ],
    [
      'a header twice',
      { configurations: { custom_headers: { 'x-a': 'x', 'X-A': 'y' } } },
      /X-A is there twice/,
    ],
    [
      'a header with a line break',
      { configurations: { custom_headers: { 'x-a': 'x\ny' } } },
      /characters that the value of a header cannot have/,
    ],
    ['a masked header', { configurations: { custom_headers: { 'x-a': 'ab…cd' } } }, /give the secret itself/],
    ['an unknown setting', { configurations: { headers: {} } }, /\/configurations/],
    [
      'a passthrough that is long',
      { configurations: { passthrough_header: { a: 'x'.repeat(5000) } } },
      /passthrough_header is longer than 4096 bytes/,
    ],
    [
      'a mapping of no header',
      { secret_mappings: [{ target_field: 'key', secret_reference_id: 'one' }] },
      /\/secret_mappings\/0\/target_field is no field of an MCP integration; it can be configurations.custom_headers/,
    ],
    [
      'a mapping of a header of the connection',
      { secret_mappings: [{ target_field: `${field}.Host`, secret_reference_id: 'one' }] },
      /target_field is set by the gateway/,
    ],
    [
      'a reference that there is not',
      { secret_mappings: [{ target_field: `${field}.X-A`, secret_reference_id: 'gone' }] },
      /\/secret_mappings\/0\/secret_reference_id names no secret reference/,
    ],
    ['another organisation', { organisation_id: 'other' }, /\/organisation_id is not your organisation/],
    ['a workspace that there is not', { workspace_id: 'gone' }, /\/workspace_id names no workspace/],
    ['a slug that cannot be one', { slug: 'a b' }, /slug/],
    ['an unknown field', { colour: 'red' }, /colour/],
  ];
  test('refuses what cannot be, with its place', async (t) => {
    const { call, owner, ok, reference } = await start(t);
    await reference('one');
    for (const [name, change, message] of wrong) {
      const answer = await call(owner, { path, body: { ...body, ...change } });
      assert.equal(answer.status, 400, `${name}: ${answer.text}`);
      assert.match(answer.text, message, name);
    }
    assert.equal((await ok({ path })).total, 0);
  });

  test('scopes of the organisation and of workspaces are told apart', async (t) => {
    const { ok, refused, ofWorkspace, key, workspaceId, clock } = await start(t);
    await ok({ path, body: { ...body, slug: 'shared' } });
    clock.advance(1);
    const service = ofWorkspace();
    await refused({ path: `${path}/shared` }, 404, /No MCP integration/, service);
    await ok({
      method: 'PUT',
      path: `${path}/shared/workspaces`,
      body: { workspaces: [{ id: workspaceId, enabled: true }] },
    });
    await refused({ path: `${path}/shared` }, 403, /organisation_mcp_integrations.read/, service);
    await ok({ path, body: { ...body, slug: 'own' } }, service);
    assert.equal((await ok({ path: `${path}/own` }, service)).workspace_id, workspaceId);
    const slugs = async (query: string, by = service) =>
      (await ok({ path: `${path}${query}` }, by)).data.map(({ slug }: { slug: string }) => slug);
    assert.deepEqual(await slugs(''), ['shared', 'own']);
    assert.deepEqual(await slugs('?type=organisation'), ['shared']);
    assert.deepEqual(await slugs('?type=workspace'), ['own']);
    assert.deepEqual(await slugs('?search=SHAR'), ['shared']);
    assert.deepEqual(await slugs(`?workspace_id=${workspaceId}&type=all`), ['shared', 'own']);
    const first = await ok({ path: `${path}?page_size=1` }, service);
    assert.deepEqual([first.total, first.has_more, first.data.length], [2, true, 1]);
    assert.deepEqual(await slugs('?page_size=1&current_page=1'), ['own']);
    await refused({ path: `${path}?workspace_id=gone` }, 404, /No workspace/);
    const scopes = ['organisation_mcp_integrations.create'];
    const organisation = key({ kind: 'organisation-service', name: 'org', scopes });
    const mine = { ...body, slug: 'x', workspace_id: workspaceId };
    await refused({ path, body: mine }, 403, /workspace_mcp_integrations.create/, organisation);
    await refused({ path, body: { ...body, slug: 'own' } }, 409, /slug|exists/, service);
  });

  test('one that a server uses stays, and its secret references do', async (t) => {
    const { ok, refused, ofWorkspace, reference, clock } = await start(t);
    const service = ofWorkspace();
    await reference('one');
    const secret_mappings = [{ target_field: `${field}.X-A`, secret_reference_id: 'one' }];
    await ok({ path, body: { ...body, slug: 'used', secret_mappings } }, service);
    for (let count = 1; count <= 12; count++) {
      clock.advance(1);
      const server = { name: 's', slug: `server-${count}`, mcp_integration_id: 'used' };
      await ok({ path: '/mcp-servers', body: server }, service);
    }
    await refused(
      { method: 'DELETE', path: `${path}/used` },
      ...([
        409,
        /in use by the MCP servers \\"server-1\\", .*\\"server-10\\" and 2 more. Delete them first/,
        service,
      ] as const),
    );
    await refused(
      { method: 'DELETE', path: '/secret-references/one' },
      409,
      /in use by the MCP integrations \\"used\\"/,
    );
  });
});

describe('workspaces of an MCP integration', () => {
  const at = `${path}/shared/workspaces`;

  test('are named, overridden, and all at once', async (t) => {
    const { ok, refused, ofWorkspace, workspaceId, clock } = await start(t);
    const service = ofWorkspace();
    await ok({ path, body: { ...body, slug: 'shared' } });
    const other = await ok({ path: '/workspaces', body: { name: 'Other' } });
    const put = (change: object) => ok({ method: 'PUT', path: at, body: change });
    const shown = async () => {
      const {
        data,
        workspaces,
        total,
        global_workspace_access: all,
      } = await ok({ path: `${at}?version=v2` });
      assert.deepEqual([workspaces, total], [data, data.length]);
      return [
        data.map((one: Record<string, unknown>) => [one['id'], one['enabled'], one['status']]),
        all.enabled,
      ];
    };
    await put({
      workspaces: [
        { id: workspaceId, enabled: true },
        { id: other.slug, enabled: false },
      ],
    });
    assert.deepEqual(await shown(), [
      [
        [workspaceId, true, 'active'],
        [other.id, false, 'disabled'],
      ],
      false,
    ]);
    const before = (await ok({ path: at })).data;
    clock.advance(60_000);
    await put({ workspaces: [{ id: other.id, enabled: true }], global_workspace_access: { enabled: true } });
    const [first, second] = (await ok({ path: at })).data;
    assert.deepEqual(first, before[0]);
    assert.equal(second.created_at, before[1].created_at);
    assert.equal(second.last_updated_at, '2026-11-21T09:01:00.000Z');

    const server = { name: 'Mine', slug: 'mine', mcp_integration_id: 'shared' };
    await ok({ path: '/mcp-servers', body: server }, service);
    await put({ workspaces: [], override_existing_workspace_access: true, global_workspace_access: null });
    assert.deepEqual(await shown(), [[], false]);
    assert.equal((await ok({ path: `${path}/shared` })).workspaces_count, 0);
    // What a workspace made of it stays, and says that it is of no use.
    assert.equal((await ok({ path: '/mcp-servers/mine' }, service)).status, 'disabled');
    const another = { ...server, slug: 'more' };
    await refused(
      { path: '/mcp-servers', body: another },
      400,
      /\/mcp_integration_id names no MCP integration/,
      service,
    );
  });

  test('must be there, once, and not for what is of one workspace', async (t) => {
    const { ok, refused, ofWorkspace, workspaceId } = await start(t);
    await ok({ path, body: { ...body, slug: 'shared' } });
    const one = { id: workspaceId, enabled: true };
    const put = { method: 'PUT', path: at };
    await refused(
      { ...put, body: { workspaces: [{ ...one, id: 'gone' }] } },
      400,
      /\/workspaces\/0\/id names no/,
    );
    await refused({ ...put, body: { workspaces: [one, one] } }, 400, /\/workspaces\/1\/id is there twice/);
    await refused({ ...put, body: {} }, 400, /body/);
    await ok({ path, body: { ...body, slug: 'own' } }, ofWorkspace());
    const own = { method: 'PUT', path: `${path}/own/workspaces`, body: { workspaces: [one] } };
    await refused(
      own,
      409,
      /belongs to one workspace/,
      ofWorkspace(['*', 'workspace_mcp_integrations.update']),
    );
    const { data } = await ok({ path: `${path}/own/workspaces` }, ofWorkspace());
    assert.deepEqual([data.length, data[0].id, data[0].enabled], [1, workspaceId, true]);
  });
});
