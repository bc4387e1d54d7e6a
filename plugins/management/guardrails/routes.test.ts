import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { testScope } from '../../../tests/kit/plugin-kit.ts';
import { builtInPlugins } from '../../index.ts';
import { guardrailRoutes } from './routes.ts';
import { secretContext } from '../../../core/ports/secret-managers.ts';
import { openResourcesOfFile, startAdministration } from '../../../tests/kit/administration-kit.ts';

const resources = await openResourcesOfFile();

const check = {
  id: 'default.requestParametersCheck',
  parameters: { params: { blockedKeys: ['logit_bias'] } },
};
const whole = {
  deny: true,
  async: false,
  sequential: false,
  on_success: { feedback: { value: 5, weight: 1, metadata: '' } },
  on_fail: { feedback: { value: -5, weight: 1, metadata: '' } },
};
const guardrail = { name: 'No bias', checks: [check], actions: { deny: true } };

describe('guardrails', () => {
  test('are made of checks that the gateway lists, with the schema of their parameters', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { key } = await tenant('checks');
    const service = key({ kind: 'workspace-service', scopes: ['guardrails.read'] });
    const { data, total } = (await call(service, { path: '/guardrail-checks' })).json();
    assert.equal(data.length, total);
    const contains = data.find(({ id }: { id: string }) => id === 'default.contains');
    assert.deepEqual(
      [contains.phases, contains.changes, contains.parameters.type, contains.parameters.required],
      [['input', 'output'], false, 'object', ['words']],
    );
    const stranger = key({ kind: 'workspace-service', scopes: ['logs.list'] });
    assert.equal((await call(stranger, { path: '/guardrail-checks' })).status, 403);
  });

  test('are created, read, listed, changed with a new version, and deleted', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner, key, workspaceId, organisationId } = await tenant('guards');
    const service = key({ kind: 'workspace-service' });
    const made = (await call(service, { path: '/guardrails', body: guardrail })).json();
    assert.match(made.slug, /^guard_no-bias-[a-z]{6}$/);
    const path = `/guardrails/${made.slug}`;
    const read = (await call(service, { path })).json();
    assert.deepEqual(read.checks, [{ ...check, name: check.id, is_enabled: true }]);
    assert.deepEqual(read.actions, whole);
    assert.deepEqual(
      [read.id, read.name, read.workspace_id, read.organisation_id, read.status, read.owner_id],
      [made.id, 'No bias', workspaceId, organisationId, 'active', service.id],
    );
    const checks = [
      { id: 'add-prefix', name: 'Prefix', is_enabled: false, parameters: { prefix: 'Be brief.' } },
    ];
    const changed = await call(owner, { method: 'PUT', path: `/guardrails/${made.id}`, body: { checks } });
    assert.equal(changed.status, 200, changed.text);
    assert.notEqual(changed.json().version_id, made.version_id);
    const after = (await call(service, { path })).json();
    assert.deepEqual([after.checks, after.actions, after.name], [checks, whole, 'No bias']);
    const { data: versions } = await resources.read(({ records }) =>
      records.versions('guardrail', organisationId, made.id, { offset: 0, limit: 10 }),
    );
    assert.deepEqual(
      versions.map(({ id, number }) => [number, id]),
      [
        [2, changed.json().version_id],
        [1, made.version_id],
      ],
    );
    assert.equal((await call(service, { path: '/guardrails' })).json().total, 1);
    assert.deepEqual((await call(service, { method: 'DELETE', path })).json(), {});
    assert.equal((await call(service, { path })).status, 404);
    assert.equal((await call(service, { path: '/guardrails' })).json().total, 0);
  });

  test('of the organisation are for keys that may, and seen by all', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { key, organisationId, workspaceId } = await tenant('above');
    const scopes = ['guardrails.create', 'guardrails.update', 'guardrails.delete'];
    const plain = key({ kind: 'organisation-service', scopes });
    const whole = key({ kind: 'organisation-service', scopes: ['organisation_guardrails.create'] });
    const service = key({ kind: 'workspace-service' });
    const refused = await call(plain, { path: '/guardrails', body: guardrail });
    assert.equal(refused.status, 403);
    assert.match(refused.text, /organisation_guardrails\.create/);
    const within = { ...guardrail, workspace_id: workspaceId };
    assert.equal((await call(plain, { path: '/guardrails', body: within })).status, 200);
    const body = { ...guardrail, organisation_id: organisationId };
    const { id } = (await call(whole, { path: '/guardrails', body })).json();
    const path = `/guardrails/${id}`;
    assert.equal((await call(service, { path })).json().workspace_id, null);
    const listed = await call(service, { path: `/guardrails?organisation_id=${organisationId}` });
    assert.deepEqual([listed.json().total, listed.json().data[0].id], [1, id]);
    for (const method of ['PUT', 'DELETE']) {
      for (const caller of [plain, service]) {
        const change = method === 'PUT' ? { name: 'x' } : undefined;
        assert.equal((await call(caller, { method, path, body: change })).status, 403);
      }
    }
  });

  test('tell in their reference which parameters each check takes', () => {
    const definition = (id: string) =>
      [...builtInPlugins].flatMap(({ offers = [] }) => offers).find((one) => one.id === id);
    const guards = {
      ids: ['default.contains', 'lasso.classify'],
      issues: () => undefined,
      definition,
    };
    const { scope } = testScope({ guards });
    for (const method of ['POST', 'PUT']) {
      const body = JSON.stringify(guardrailRoutes(scope).find((one) => one.method === method)?.body);
      assert.match(body, /`default\.contains`: `words` \(required\), `operator`/);
      assert.match(body, /`lasso\.classify`: .*`credentials`/);
    }
  });

  test('hold credentials sealed, show their ends, and keep what comes back as it was shown', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner, organisationId } = await tenant('sealed');
    const apiKey = 'key-of-pangea-0123456789';
    const reference = { secret_reference: 'elsewhere' };
    const one = (credentials: unknown, more: object = {}) => ({
      id: 'pangea.pii',
      parameters: { redact: true, ...more, credentials },
    });
    const checks = [one({ apiKey, domain: 'aws.us.pangea.cloud' }), one({ apiKey: reference, domain: 'd' })];
    const made = (await call(owner, { path: '/guardrails', body: { ...guardrail, checks } })).json();
    const path = `/guardrails/${made.slug}`;
    const shown = (await call(owner, { path })).json().checks;
    assert.deepEqual(
      shown.map(({ parameters }: { parameters: object }) => parameters),
      [
        { redact: true, credentials: { apiKey: 'ke…89', domain: 'aw…ud' } },
        { redact: true, credentials: { apiKey: reference, domain: '…' } },
      ],
    );
    const stored = () =>
      resources.read(({ records }) => records.find('guardrail', { organisationId }, made.id));
    const before = await stored();
    assert.ok(!JSON.stringify(before).includes(apiKey));
    assert.deepEqual(Object.keys(before?.secrets ?? {}), ['checks.0.credentials', 'checks.1.credentials']);
    const put = (body: object) => call(owner, { method: 'PUT', path, body });
    // Sent back as shown, in another order.
    assert.equal((await put({ checks: [shown[1], shown[0]] })).status, 200);
    const again = (await call(owner, { path })).json().checks;
    assert.equal(again[1].parameters.credentials.apiKey, 'ke…89');
    // A mask keeps no secret for another address.
    const [, { parameters }] = again;
    const moved = { id: 'pangea.pii', parameters: { ...parameters, baseURL: 'https://evil.example.com' } };
    const elsewhere = {
      id: 'pangea.pii',
      parameters: { credentials: { ...parameters.credentials, domain: 'evil.example.com' } },
    };
    for (const check of [moved, elsewhere]) {
      const refused = await put({ checks: [check] });
      assert.equal(refused.status, 400, refused.text);
      assert.match(refused.text, /\/checks\/0\/parameters\/credentials holds what answers show/);
    }
    assert.equal((await put({ name: 'Renamed' })).status, 200);
    assert.equal(Object.keys((await stored())?.secrets ?? {}).length, 2);
    assert.equal((await put({ checks: [check] })).status, 200);
    assert.deepEqual((await stored())?.secrets, {});
  });

  test('hold headers of webhooks sealed; they stay at the same origin, and go nowhere else', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner, organisationId } = await tenant('hooked');
    const token = 'Bearer of-the-webhook-0123456789';
    const headers = { authorization: token, 'x-team': 'blue' };
    const hook = (parameters: object) => ({
      id: 'default.webhook',
      parameters: { webhookURL: 'https://hooks.example.com/one', ...parameters },
    });
    const logging = {
      id: 'default.log',
      parameters: { logURL: 'https://log.example.com/', headers: JSON.stringify({ 'x-key': token }) },
    };
    const body = { ...guardrail, checks: [hook({ headers }), logging] };
    const made = (await call(owner, { path: '/guardrails', body })).json();
    const path = `/guardrails/${made.slug}`;
    const shown = async () =>
      (await call(owner, { path }))
        .json()
        .checks.map(({ parameters }: { parameters: Record<string, unknown> }) => parameters['headers']);
    const mask = 'Be…89';
    assert.deepEqual(await shown(), [{ authorization: mask, 'x-team': '…' }, { 'x-key': mask }]);
    const secrets = async () => {
      const stored = await resources.read(({ records }) =>
        records.find('guardrail', { organisationId }, made.id),
      );
      assert.ok(!JSON.stringify(stored).includes('webhook-0123'), 'sealed');
      const { secrets: box } = testScope().scope;
      return Object.entries(stored?.secrets ?? {}).map(
        ([field, sealed]) => JSON.parse(box.open(sealed, secretContext(made.id, field))) as unknown,
      );
    };
    assert.deepEqual(await secrets(), [headers, { 'x-key': token }]);
    const put = (...checks: object[]) => call(owner, { method: 'PUT', path, body: { checks } });
    const logAsShown = { ...logging, parameters: { ...logging.parameters, headers: { 'x-key': mask } } };
    const rows: readonly (readonly [string, object, unknown])[] = [
      ['not given', hook({ webhookURL: 'https://hooks.example.com/two' }), headers],
      ['as shown', hook({ headers: { authorization: mask, 'x-team': '…' } }), headers],
      [
        'one of them anew',
        hook({ headers: { authorization: mask, 'x-team': 'red' } }),
        { ...headers, 'x-team': 'red' },
      ],
      ['taken away', hook({ headers: {} }), {}],
      ['given again', hook({ headers }), headers],
    ];
    for (const [name, check, expected] of rows) {
      const answer = await put(check, logAsShown);
      assert.equal(answer.status, 200, `${name}: ${answer.text}`);
      assert.deepEqual(await secrets(), [expected, { 'x-key': token }], name);
    }
    for (const [check, message] of [
      [
        hook({ webhookURL: 'https://evil.example.com/' }),
        /\/checks\/0\/parameters\/headers is needed: .*another address/,
      ],
      [
        hook({ webhookURL: 'https://evil.example.com/', headers: { authorization: mask } }),
        /\/checks\/0\/parameters\/headers\/authorization is what answers show/,
      ],
      [hook({ headers: { other: mask } }), /\/headers\/other is what answers show/],
    ] as const) {
      const refused = await put(check, logAsShown);
      assert.equal(refused.status, 400, refused.text);
      assert.match(refused.text, message);
    }
    const moved = await put(hook({ webhookURL: 'https://other.example.com/', headers: {} }));
    assert.equal(moved.status, 200, moved.text);
    assert.deepEqual(await secrets(), [{}]);
  });

  const refusals: [object, RegExp][] = [
    [{ checks: [] }, /checks expected a list of 1 to 50 items/],
    [{ checks: [{ id: 'default.addPrefx' }] }, /\/checks\/0\/id .*did you mean \\"default\.addPrefix\\"\?/],
    [
      { checks: [check, { id: 'no.such' }] },
      /\/checks\/1\/id .*this gateway has no such check; list the plugin that offers it, or use one of /,
    ],
    [{ checks: [{ id: 'logger' }] }, /no such check/],
    [{ checks: [{ id: 'add-prefix' }] }, /\/checks\/0\/parameters\/prefix/],
    [{ checks: [{ ...check, parameters: { parms: {} } }] }, /\/checks\/0\/parameters\/parms/],
    [{ actions: { deny: 'yes' } }, /\/actions\/deny/],
    [{ actions: { on_fail: { feedback: { value: -11 } } } }, /\/actions\/on_fail\/feedback\/value/],
    [{ workspace_id: 'elsewhere' }, /\/workspace_id/],
  ];
  test('are refused with the place of what is wrong', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner } = await tenant('wrong');
    for (const [change, message] of refusals) {
      const answer = await call(owner, { path: '/guardrails', body: { ...guardrail, ...change } });
      assert.equal(answer.status, 400, answer.text);
      assert.match(answer.text, message);
    }
    const digits =
      '{"name":"n","actions":{},"checks":[{"id":"add-prefix","parameters":{"prefix":"p","x":12345678901234567890}}]}';
    assert.equal((await call(owner, { path: '/guardrails', body: JSON.parse(digits) })).status, 400);
  });
});

describe('deployments', () => {
  const path = '/deployments';

  test('are created, read, listed, changed and deleted', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner, workspaceId, organisationId } = await tenant('deployed');
    const body = { name: 'Europe', slug: 'europe', type: 'production', config: { region: 'eu' } };
    const { id, slug, object } = (await call(owner, { path, body })).json();
    assert.deepEqual([slug, object], ['europe', 'deployment']);
    assert.equal((await call(owner, { path, body })).status, 409);
    const { created_at, last_updated_at, ...read } = (await call(owner, { path: `${path}/europe` })).json();
    assert.equal(created_at, last_updated_at);
    assert.deepEqual(read, {
      id,
      ...body,
      allow_all_workspaces: true,
      allowed_workspaces: [],
      status: 'active',
      organisation_id: organisationId,
      managed_by: 'api',
      object,
    });
    const change = { type: 'non-production', allowed_workspaces: ['ws-deployed-default', workspaceId] };
    const changed = (await call(owner, { method: 'PUT', path: `${path}/${id}`, body: change })).json();
    assert.deepEqual(
      [changed.type, changed.allow_all_workspaces, changed.allowed_workspaces, changed.config],
      ['non-production', false, [workspaceId], { region: 'eu' }],
    );
    const open = { allow_all_workspaces: true };
    const opened = (await call(owner, { method: 'PUT', path: `${path}/${id}`, body: open })).json();
    assert.deepEqual([opened.allow_all_workspaces, opened.allowed_workspaces], [true, []]);
    assert.equal((await call(owner, { path })).json().total, 1);
    assert.deepEqual((await call(owner, { method: 'DELETE', path: `${path}/europe` })).json(), {});
    assert.equal((await call(owner, { path: `${path}/${id}` })).status, 404);
  });

  test('belong to organisations: keys of workspaces have nothing to do with them', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner, key } = await tenant('mine');
    const { id } = (await call(owner, { path, body: { name: 'n', type: 'production' } })).json();
    assert.equal((await call(key({ kind: 'workspace-service' }), { path })).status, 403);
    const other = await tenant('other');
    assert.equal((await call(other.owner, { path: `${path}/${id}` })).status, 404);
  });

  const refusals: [object, RegExp][] = [
    [{ type: 'staging' }, /\/type/],
    [{ slug: 'a b' }, /\/slug/],
    [{ allowed_workspaces: ['nowhere'] }, /\/allowed_workspaces\/0 names no workspace/],
    [{ allow_all_workspaces: false }, /\/allowed_workspaces is needed/],
    [{ allow_all_workspaces: true, allowed_workspaces: ['ws-wrong-default'] }, /cannot stand beside/],
  ];
  test('are refused with the place of what is wrong', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner } = await tenant('wrong');
    for (const [change, message] of refusals) {
      const answer = await call(owner, { path, body: { name: 'n', type: 'production', ...change } });
      assert.equal(answer.status, 400, answer.text);
      assert.match(answer.text, message);
    }
  });
});
