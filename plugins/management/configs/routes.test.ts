import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test, type TestContext } from 'node:test';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { ApiKeyRecord } from '../../../core/ports/resources.ts';
import {
  startAdministration,
  openTestResources,
  type TestTenant,
} from '../../../tests/kit/administration-kit.ts';
import { startUpstream } from '../../../tests/kit/http-kit.ts';
import { openTestDirectory, type OpenedDirectory } from '../../../tests/kit/live-directory-kit.ts';
import { ok } from '../../../tests/kit/routing-kit.ts';

let opened: OpenedDirectory;
const closing: (() => Promise<void>)[] = [];
before(async () => {
  const closer = { after: (close: () => Promise<void>) => void closing.push(close) };
  opened = await openTestDirectory(closer, await openTestResources(closer));
});
after(async () => {
  for (const close of closing.reverse()) await close();
});

/** A gateway that saves configs and serves requests with them, an organisation, and keys of its workspace. */
async function saving(t: TestContext) {
  const upstream = await startUpstream(t, ok);
  const administration = await startAdministration(t, opened.resources, {
    directory: opened.directory,
    providers: { up: { base_url: `${upstream.url}/v1`, api_key: 'held' } },
  });
  const tenant = await administration.tenant('configs');
  const { call } = administration;
  const service = tenant.key({ kind: 'workspace-service', name: 'service', scopes: ['*'] });
  const save = async (config: unknown, more: object = {}, key: KeyRecord = service): Promise<string> => {
    const made = await call(key, { path: '/configs', body: { name: 'One', config, ...more } });
    assert.equal(made.status, 200, made.text);
    return made.json().data.slug as string;
  };
  const ask = async (key: KeyRecord, config?: string) => {
    const answer = await call(key, {
      path: '/chat/completions',
      body: { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
      headers: config === undefined ? {} : { 'x-service-config': config },
    });
    const sent = upstream.requests.at(-1)?.body.toString() ?? '{}';
    return { answer, user: (JSON.parse(sent) as { user?: string }).user };
  };
  return { ...administration, tenant, service, save, ask, upstream };
}

const saying = (user: string) => ({ virtual_key: 'up', override_params: { user } });

/** Stores a key of the workspace with this default config. */
async function addKey({ organisationId, workspaceId }: TestTenant, name: string, configId: string) {
  const key: ApiKeyRecord = {
    id: randomUUID(),
    organisationId,
    workspaceId,
    userId: '',
    name,
    description: '',
    type: 'workspace-service',
    status: 'active',
    scopes: [],
    rateLimits: [],
    usageLimits: undefined,
    defaults: { configId },
    alertEmails: [],
    masked: '',
    creationMode: 'api',
    expiresAt: undefined,
    rotation: undefined,
    secrets: [{ hash: randomUUID(), expiresAt: undefined }],
    createdAt: 1,
    updatedAt: 1,
    version: 1,
  };
  await opened.resources.write(organisationId, ({ apiKeys }) => apiKeys.insert(key));
}

describe('saved configs', () => {
  test('are made, read, changed, listed and archived', async (t) => {
    const { call, service, tenant } = await saving(t);
    const made = await call(service, { path: '/configs', body: { name: 'My One', config: saying('a') } });
    assert.equal(made.status, 200, made.text);
    const { id, slug, version_id: first, object } = made.json().data;
    assert.match(slug, /^pc-my-one-[a-z]{6}$/);
    assert.equal(object, 'config');
    const path = `/configs/${slug}`;
    const got = (await call(service, { path })).json();
    assert.equal(got.success, true);
    const { created_at: createdAt, last_updated_at: updatedAt, ...shown } = got.data;
    assert.ok(createdAt <= updatedAt);
    assert.deepEqual(shown, {
      id,
      slug,
      name: 'My One',
      organisation_id: tenant.organisationId,
      workspace_id: tenant.workspaceId,
      is_default: 0,
      status: 'active',
      managed_by: 'api',
      owner_id: service.id,
      updated_by: service.id,
      object: 'config',
      config: saying('a'),
      format: 'json',
      type: 'WORKSPACE_CONFIG',
      version_id: first,
    });
    const body = { slug, config: JSON.stringify(saying('b')) };
    const changed = await call(tenant.owner, {
      method: 'PUT',
      path: `/configs/${id}`,
      body: { ...body, slug: id },
    });
    assert.equal(changed.status, 200, changed.text);
    const { version_id: second } = changed.json().data;
    assert.notEqual(second, first);
    const after = (await call(service, { path })).json().data;
    assert.deepEqual(
      [after.config, after.version_id, after.owner_id, after.updated_by],
      [saying('b'), second, service.id, tenant.owner.id],
    );
    const versions = (await call(service, { path: `${path}/versions` })).json();
    assert.deepEqual(
      [
        versions.object,
        versions.total,
        versions.data.map((one: Record<string, unknown>) => [
          one['version'],
          one['version_id'],
          one['config'],
        ]),
      ],
      [
        'list',
        2,
        [
          [2, second, JSON.stringify(saying('b'))],
          [1, first, JSON.stringify(saying('a'))],
        ],
      ],
    );
    const list = async (query = '') => (await call(service, { path: `/configs${query}` })).json();
    const listed = await list();
    assert.deepEqual(
      [listed.success, listed.object, listed.total, listed.data[0].slug],
      [true, 'list', 1, slug],
    );
    assert.equal((await call(service, { method: 'DELETE', path })).status, 200);
    assert.equal((await list()).total, 0);
    assert.deepEqual((await list('?status=archived')).data[0].status, 'archived');
    const refused = await call(service, { method: 'PUT', path, body: { name: 'x' } });
    assert.deepEqual([refused.status, refused.json().data.errorCode], [409, 'AB07']);
    const back = await call(service, { method: 'PUT', path, body: { status: 'active' } });
    assert.deepEqual([back.status, back.json().data.version_id], [200, second]);
    const stale = await call(service, { method: 'DELETE', path, headers: { 'if-match': '"1"' } });
    assert.equal(stale.status, 412);
  });

  test('have one default in a workspace at the most', async (t) => {
    const { call, save, service } = await saving(t);
    const first = await save(saying('a'), { isDefault: 1 });
    const second = await save(saying('b'), { is_default: true });
    const defaults = async () =>
      (await call(service, { path: '/configs' }))
        .json()
        .data.map((one: Record<string, unknown>) => [one['slug'], one['is_default']]);
    assert.deepEqual(await defaults(), [
      [first, 0],
      [second, 1],
    ]);
    await call(service, { method: 'PUT', path: `/configs/${first}`, body: { isDefault: 1 } });
    assert.deepEqual(await defaults(), [
      [first, 1],
      [second, 0],
    ]);
  });

  test('are checked like those within a request, and hold no credentials', async (t) => {
    const { call, service, save } = await saving(t);
    const known = await save(saying('a'));
    const cases: readonly [unknown, string, RegExp][] = [
      [{ virtual_key: 'up', retry: { attempts: 'x' } }, '/config/retry/attempts', /\S/],
      [
        { virtual_key: 'nobody' },
        '/config/virtual_key',
        /^there is no virtual key "nobody"; make a provider of that slug for the workspace/,
      ],
      [{ retri: {} }, '/config/retri', /did you mean "retry"\?$/],
      [{ config: `${known}x` }, '/config/config', new RegExp(`^there is no config.*did you mean "${known}"`)],
      ['{', '/config', /^it is no JSON object/],
      [
        { targets: [{ provider: 'openai', api_key: 'sk-planted' }] },
        '/config/targets/0/api_key',
        /^a saved config holds no credentials/,
      ],
      [
        { virtual_key: 'up', input_guardrails: [{ 'lasso.classify': { credentials: { apiKey: 'x' } } }] },
        '/config/input_guardrails/0/lasso.classify/credentials',
        /^a saved config holds no credentials; store the guardrail/,
      ],
      [
        {
          virtual_key: 'up',
          output_guardrails: [
            {
              checks: [
                {
                  id: 'default.log',
                  parameters: {
                    logURL: 'https://log.example.com',
                    headers: '{"x-team":"a","Authorization":"b"}',
                  },
                },
              ],
            },
          ],
        },
        '/config/output_guardrails/0/checks/0/parameters/headers',
        /^a saved config holds no credentials; store the guardrail/,
      ],
    ];
    for (const [config, place, expected] of cases) {
      const answer = await call(service, { path: '/configs', body: { name: 'One', config } });
      const { data, errors } = answer.json();
      assert.deepEqual([answer.status, data.errorCode], [400, 'AB01'], answer.text);
      assert.equal(errors[0].path, place);
      assert.match(errors[0].message as string, expected);
      assert.doesNotMatch(answer.text, /sk-planted/);
      assert.doesNotMatch(data.message as string, /[?.]\.$/);
    }
    const other = await save({ config: known });
    for (const name of [
      other,
      (await call(service, { path: `/configs/${other}` })).json().data.id as string,
    ]) {
      const body = { config: { config: name } };
      const circle = await call(service, { method: 'PUT', path: `/configs/${known}`, body });
      assert.equal(circle.status, 400);
      assert.match(circle.json().data.message as string, /refer to each other in a circle: pc-/);
    }
  });

  test('hold no whole numbers that would lose digits', async (t) => {
    const { call, service, save } = await saving(t);
    const slug = await save(saying('a'));
    const config = '{"virtual_key":"up","override_params":{"seed":[-9007199254740993]}}';
    for (const asked of [
      { path: '/configs', body: `{"name":"One","config":${config}}` },
      { path: '/configs', body: { name: 'One', config } },
      { method: 'PUT', path: `/configs/${slug}`, body: `{"config":${config}}` },
    ]) {
      const answer = await call(service, asked);
      assert.equal(answer.status, 400, answer.text);
      assert.deepEqual(answer.json().errors, [
        {
          path: '/config',
          message:
            'holds -9007199254740993 at "0", and whole numbers beyond 2^53 cannot be kept; send it as a text',
        },
      ]);
    }
  });

  test('that are in use are not archived', async (t) => {
    const { call, service, save, tenant } = await saving(t);
    const slug = await save(saying('a'));
    const other = await save({ targets: [{ config: slug }] });
    await addKey(tenant, 'batch', slug);
    const named = await call(tenant.owner, {
      method: 'PUT',
      path: `/admin/workspaces/${tenant.workspaceId}`,
      body: { defaults: { config_id: slug } },
    });
    assert.equal(named.status, 200, named.text);
    for (const archiving of [{ method: 'DELETE' }, { method: 'PUT', body: { status: 'archived' } }]) {
      const refused = await call(service, { path: `/configs/${slug}`, ...archiving });
      assert.deepEqual([refused.status, refused.json().data.errorCode], [409, 'AB07']);
      assert.match(
        refused.json().data.message as string,
        new RegExp(`in use by the workspace "configs default", the key "batch", the config "${other}"\\.`),
      );
    }
  });

  test('are checked while they are archived, too', async (t) => {
    const { call, service, save } = await saving(t);
    const slug = await save(saying('a'));
    const body = { config: 'no JSON', status: 'archived' };
    const refused = await call(service, { method: 'PUT', path: `/configs/${slug}`, body });
    assert.deepEqual([refused.status, refused.json().data.errorCode], [400, 'AB01'], refused.text);
  });

  test('are those of one workspace', async (t) => {
    const { call, service, save, tenant, ask } = await saving(t);
    const slug = await save(saying('a'));
    const away = tenant.key({ kind: 'workspace-service', workspaceId: 'elsewhere', scopes: ['*'] });
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const answer = await call(away, {
        method,
        path: `/configs/${slug}`,
        ...(method === 'PUT' && { body: {} }),
      });
      assert.deepEqual([answer.status, answer.json().data.errorCode], [404, 'AB08'], method);
    }
    const { answer } = await ask(away, slug);
    assert.deepEqual([answer.status, answer.json().error.code], [400, 'config_unknown']);
    assert.doesNotMatch(answer.json().error.message as string, /Did you mean/);
    const unplaced = await call(tenant.owner, {
      path: '/configs',
      body: { name: 'One', config: saying('a') },
    });
    assert.deepEqual([unplaced.status, unplaced.json().data.errorCode], [400, 'AB01']);
    const placed = { name: 'One', config: saying('a'), workspace_id: tenant.workspaceId };
    assert.equal((await call(tenant.owner, { path: '/configs', body: placed })).status, 200);
    assert.equal((await call(service, { path: '/configs' })).json().total, 2);
  });

  test('are seen and changed as the settings of the workspace say', async (t) => {
    const { call, save, tenant } = await saving(t);
    const slug = await save(saying('a'));
    const member = tenant.key({ kind: 'workspace-user', userId: '', scopes: ['*'], name: 'mine' });
    assert.equal((await call(member, { path: `/configs/${slug}` })).status, 200);
    const refused = await call(member, { method: 'DELETE', path: `/configs/${slug}` });
    assert.deepEqual([refused.status, refused.json().data.errorCode], [403, 'AB03']);
    assert.match(refused.json().data.message as string, /the setting membersWriteConfigs is off/);
    const security = { membersWriteConfigs: true, membersViewConfigs: false };
    const path = '/admin/organisation/settings';
    const set = await call(tenant.owner, { method: 'PUT', path, body: { security } });
    assert.equal(set.status, 200, set.text);
    const unseen = await call(member, { path: `/configs/${slug}` });
    assert.match(unseen.json().data.message as string, /the setting membersViewConfigs is off/);
    assert.equal((await call(member, { method: 'DELETE', path: `/configs/${slug}` })).status, 200);
  });
});

describe('requests', () => {
  test('name a saved config by slug or id, in a header, in defaults and in configs', async (t) => {
    const { call, save, ask, service, tenant, gateway } = await saving(t);
    const slug = await save(saying('a'));
    const { id } = (await call(service, { path: `/configs/${slug}` })).json().data;
    const nested = await save({ targets: [{ config: slug }] });
    const inline = JSON.stringify({ targets: [{ config: slug }] });
    for (const name of [slug, id, nested, inline]) {
      const { answer, user } = await ask(service, name);
      assert.deepEqual([answer.status, user], [200, 'a'], answer.text);
    }
    const byDefault = { ...service, id: 'with-default', defaults: { configId: slug } };
    assert.equal((await ask(byDefault)).user, 'a');
    assert.equal(gateway.settled.at(-1)?.facts.config, slug);
    // A change is seen at once, through everything that refers to it.
    await call(service, { method: 'PUT', path: `/configs/${slug}`, body: { config: saying('b') } });
    for (const name of [slug, id, nested, inline]) assert.equal((await ask(service, name)).user, 'b');
    const away = tenant.key({ kind: 'workspace-service', workspaceId: 'elsewhere', scopes: ['*'] });
    assert.equal((await ask(away, inline)).answer.status, 400);
    assert.equal((await ask(service, inline)).answer.status, 200);
  });

  test('begin with the default of their workspace: behind what keys and workspaces name, before the organisation', async (t) => {
    const { call, save, ask, service, tenant } = await saving(t);
    const set = (path: string, body: object) => call(tenant.owner, { method: 'PUT', path, body });
    await save(saying('default'), { isDefault: true });
    const slug = await save(saying('named'));
    const organisation = await set('/admin/organisation/defaults', { config_id: 'main' });
    assert.equal(organisation.status, 200, organisation.text);
    assert.equal((await ask(service)).user, 'default');
    await set(`/admin/workspaces/${tenant.workspaceId}`, { defaults: { config_id: slug } });
    assert.equal((await ask(service)).user, 'named');
    // The workspace says itself what the organisation says.
    await set(`/admin/workspaces/${tenant.workspaceId}`, { defaults: { config_id: 'main' } });
    const { answer } = await ask(service);
    assert.equal(answer.json().model, 'm', answer.text);
  });

  test('are told of a saved config that is not valid any more, and others are served', async (t) => {
    const { save, ask, service, call, tenant } = await saving(t);
    const inner = await save(saying('inner'));
    const outer = await save({ targets: [{ config: inner }] });
    // Behind the back of the gateway's checks, as an import could.
    await opened.resources.write(tenant.organisationId, async ({ records }) => {
      const record = await records.find('config', tenant, inner);
      assert.ok(record);
      const data = { ...record.data, config: { virtual_key: 'gone' } };
      assert.ok(await records.replace({ ...record, data, version: record.version + 1 }));
    });
    for (const name of [inner, outer]) {
      const { answer } = await ask(service, name);
      assert.deepEqual([answer.status, answer.json().error.code], [400, 'invalid_config']);
      assert.match(
        answer.json().error.message as string,
        new RegExp(`^The saved config "${name}" is not valid any more\\. .*"gone"`),
      );
    }
    const other = await save(saying('other'));
    assert.equal((await ask(service, other)).user, 'other');
    assert.equal((await call(service, { method: 'DELETE', path: `/configs/${outer}` })).status, 200);
  });

  test('get no held credential to a host that a saved config names', async (t) => {
    const { save, ask, service } = await saving(t);
    const slug = await save({ ...saying('a'), custom_host: 'http://127.0.0.1:9/v1' });
    const { answer } = await ask(service, slug);
    assert.deepEqual([answer.status, answer.json().error.code], [400, 'custom_host_refused'], answer.text);
  });
});
