// Guardrails that judge every request of an organisation or a workspace, as its next requests meet them.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { type Administration, openResourcesOfFile, startAdministration } from '../kit/administration-kit.ts';
import type { TestGatewayOptions } from '../kit/gateway-kit.ts';
import { send } from '../kit/http-kit.ts';
import { openTestDirectory } from '../kit/live-directory-kit.ts';
import { loaded, usual } from '../../core/lifecycle/isolation/isolated-checks.test-support.ts';
import { defineCheck, definePlugin, failed, passed, Type } from '../../core/pipeline/plugin.ts';

const resources = await openResourcesOfFile();

const providers = { plain: { base_url: 'mock:', credentials: 'none' as const } };

const without = (word: string, actions: object = { deny: true }) => ({
  name: `No ${word}`,
  checks: [{ id: 'default.contains', parameters: { words: [word], operator: 'none' } }],
  actions,
});

/** An organisation with a workspace, and a second workspace with a key of its own. */
async function begin(t: TestContext, checksOf: TestGatewayOptions['checksOf'] = []) {
  const opened = await openTestDirectory(t, resources);
  const administration = await startAdministration(t, opened.resources, {
    directory: opened.directory,
    providers,
    checksOf,
  });
  const { owner, workspaceId } = await administration.tenant('guarded');
  const call = (method: string, path: string, body?: object) =>
    administration.call(owner, { method, path, ...(body !== undefined && { body }) });
  const operate = async (method: string, path: string, body?: object) => {
    const answer = await call(method, path, body);
    assert.ok(answer.status < 300, answer.text);
    return answer.json();
  };
  const keyIn = async (id: string) => {
    const body = { name: `of ${id}`, scopes: ['completions.write'], workspace_id: id };
    return (await operate('POST', '/api-keys/workspace/service', body)).key;
  };
  const other = (await operate('POST', '/workspaces', { name: 'Other' })).id;
  const secrets = { own: await keyIn(workspaceId), other: await keyIn(other) };
  /** The status, and what judged in which order. */
  const ask = async (
    text: string,
    of: 'own' | 'other' = 'own',
    headers: Record<string, string> = {},
    { gateway }: Pick<Administration, 'gateway'> = administration,
  ) => {
    const answer = await send(gateway.url, {
      path: '/v1/chat/completions',
      headers: { 'x-service-api-key': secrets[of], 'x-service-provider': '@plain', ...headers },
      body: { model: 'mock', messages: [{ role: 'user', content: text }] },
    });
    const { hook_results: results, error } = answer.json();
    const ids = (results?.before_request_hooks ?? []).map(({ id }: { id: string }) => id);
    return { status: answer.status, ids, message: error?.message as string | undefined };
  };
  const guardrail = async (word: string, place: object, actions?: object) =>
    (await operate('POST', '/guardrails', { ...without(word, actions), ...place })).slug as string;
  /** Another generation of the same gateway, with the checks of these plugins. */
  const next = (checksOf: TestGatewayOptions['checksOf'] = []) =>
    startAdministration(t, opened.resources, { directory: opened.directory, providers, checksOf });
  return { administration, call, operate, ask, guardrail, workspaceId, other, next };
}

test('those of the organisation judge first, then those of the workspace, then those of the request', async (t) => {
  const { operate, ask, guardrail, workspaceId } = await begin(t);
  assert.deepEqual(await ask('Initech'), { status: 200, ids: [], message: undefined });
  const everywhere = await guardrail('Initech', {});
  const here = await guardrail('Umbrella', { workspace_id: workspaceId });
  const shown = await operate('PUT', '/admin/organisation/defaults', { input_guardrails: [everywhere] });
  assert.deepEqual([shown.input_guardrails, shown.output_guardrails], [[everywhere], []]);
  await operate('PUT', `/workspaces/${workspaceId}`, { defaults: { input_guardrails: [here] } });
  const asking = JSON.stringify([{ id: 'asked', 'default.wordCount': { minWords: 1, maxWords: 9 } }]);
  const header = { 'x-service-default-input-guardrails': asking };
  assert.deepEqual((await ask('hello', 'own', header)).ids, [everywhere, here, 'asked']);
  assert.deepEqual((await ask('hello', 'other')).ids, [everywhere]);
  assert.equal((await ask('About Initech')).status, 446);
  assert.equal((await ask('About Initech', 'other')).status, 446);
  assert.equal((await ask('About Umbrella')).status, 446);
  assert.equal((await ask('About Umbrella', 'other')).status, 200);
});

test('a workspace that is excluded is judged by its own alone, until it is not', async (t) => {
  const { operate, ask, guardrail, other } = await begin(t);
  const everywhere = await guardrail('Initech', {});
  await operate('PUT', '/admin/organisation/defaults', { input_guardrails: [everywhere] });
  const path = '/workspace-exclusions/input-guardrails';
  const excluded = { workspaces: [{ workspace_id: other, excluded: true }] };
  assert.deepEqual((await operate('PUT', path, excluded)).workspaces, excluded.workspaces);
  assert.deepEqual((await operate('GET', path)).workspaces, excluded.workspaces);
  assert.deepEqual((await operate('GET', '/workspace-exclusions/output-guardrails')).workspaces, []);
  assert.deepEqual([(await ask('Initech')).status, (await ask('Initech', 'other')).status], [446, 200]);
  await operate('PUT', '/admin/organisation/defaults', { metadata: { team: 'a' } });
  assert.equal((await ask('Initech', 'other')).status, 200, 'another change keeps what is excluded');
  await operate('PUT', '/workspace-exclusions/output-guardrails', excluded);
  assert.deepEqual((await operate('GET', path)).workspaces, excluded.workspaces);
  await operate('PUT', path, { workspaces: [], override_existing: true });
  assert.equal((await ask('Initech', 'other')).status, 446);
});

test('a guardrail of a workspace cannot stand in for one of the organisation', async (t) => {
  const { operate, ask, guardrail, workspaceId } = await begin(t);
  const slug = await guardrail('Initech', {});
  await operate('PUT', '/admin/organisation/defaults', { input_guardrails: [slug] });
  // The slug is made of the name: the workspace makes one of the same name that finds nothing.
  const harmless = await operate('POST', '/guardrails', {
    ...without('Initech'),
    checks: [{ id: 'default.contains', parameters: { words: ['zzz'], operator: 'none' } }],
    workspace_id: workspaceId,
  });
  assert.equal((await ask('Initech')).status, 446, `with ${harmless.slug}`);
});

test('a new version acts at once; one that is in use cannot be deleted', async (t) => {
  const { operate, call, ask, guardrail, workspaceId } = await begin(t);
  const slug = await guardrail('Initech', { workspace_id: workspaceId });
  await operate('PUT', `/workspaces/${workspaceId}`, { defaults: { input_guardrails: [slug] } });
  assert.equal((await ask('Initech')).status, 446);
  await operate('PUT', `/guardrails/${slug}`, { ...without('Globex'), workspace_id: workspaceId });
  assert.deepEqual([(await ask('Initech')).status, (await ask('Globex')).status], [200, 446]);
  const refused = await call('DELETE', `/guardrails/${slug}?workspace_id=${workspaceId}`);
  assert.equal(refused.status, 409);
  assert.match(refused.text, /in use by the workspace \\"guarded default\\"/);
  await operate('PUT', `/workspaces/${workspaceId}`, { defaults: { metadata: { a: 'b' } } });
  assert.equal((await ask('Globex')).status, 446, 'defaults that do not speak of guardrails leave them');
  await operate('PUT', `/workspaces/${workspaceId}`, { defaults: { input_guardrails: [] } });
  assert.equal((await ask('Globex')).status, 200);
  await operate('DELETE', `/guardrails/${slug}?workspace_id=${workspaceId}`);
});

test('one that is unknown, or judges only requests, is refused where it is named', async (t) => {
  const { operate, call, guardrail, workspaceId, other } = await begin(t);
  const here = await guardrail('Initech', { workspace_id: workspaceId });
  const places: [string, object, RegExp][] = [
    ['/admin/organisation/defaults', { input_guardrails: ['guard_no-initec'] }, /there is no guardrail/],
    ['/admin/organisation/defaults', { input_guardrails: [here] }, /there is no guardrail/],
    [`/workspaces/${other}`, { defaults: { input_guardrails: [here] } }, /\/defaults\/input_guardrails\/0/],
    [
      `/workspaces/${workspaceId}`,
      { defaults: { input_guardrails: [`${here}x`] } },
      /Did you mean|did you mean/,
    ],
  ];
  for (const [path, body, message] of places) {
    const refused = await call('PUT', path, body);
    assert.equal(refused.status, 400, refused.text);
    assert.match(refused.text, message);
  }
  const model = { id: 'default.modelWhitelist', parameters: { models: ['mock'] } };
  const ofRequests = await operate('POST', '/guardrails', { name: 'Models', checks: [model], actions: {} });
  const refused = await call('PUT', '/admin/organisation/defaults', { output_guardrails: [ofRequests.slug] });
  assert.equal(refused.status, 400, refused.text);
  assert.match(refused.text, /judges only requests/);
  const unknown = { workspaces: [{ workspace_id: 'ws-nowhere', excluded: true }] };
  const exclusion = await call('PUT', '/workspace-exclusions/input-guardrails', unknown);
  assert.match(exclusion.text, /there is no workspace/);
});

/** A plugin outside of the gateway; each version takes its parameter by another name. */
const toneBy = (parameter: 'rude' | 'forbidden') =>
  definePlugin({
    name: 'tone',
    offers: [
      defineCheck({
        id: 'acme.tone',
        description: 'Fails for a rude word.',
        phases: ['input'],
        schema: Type.Object({ [parameter]: Type.String() }, { additionalProperties: false }),
        create:
          ({ [parameter]: word = '' }) =>
          ({ text }) =>
            text.includes(word) ? failed() : passed(),
      }),
    ],
    create: () => ({}),
  });

test('a check of a plugin is stored like any other; once the plugin is gone it breaks, and passes nothing', async (t) => {
  const { operate, call, ask, next } = await begin(t, [toneBy('rude')]);
  const tone = (parameters: object, actions: object = { deny: true }) => ({
    name: 'Tone',
    checks: [{ id: 'acme.tone', parameters }],
    actions,
  });
  for (const [body, message] of [
    [tone({ rud: 'darn' }), /\/checks\/0\/parameters\/rud .*did you mean \\"rude\\"/],
    [{ ...tone({}), checks: [{ id: 'acme.tune' }] }, /\/checks\/0\/id .*did you mean \\"acme\.tone\\"/],
  ] as const) {
    const refused = await call('POST', '/guardrails', body);
    assert.equal(refused.status, 400, refused.text);
    assert.match(refused.text, message);
  }
  const { slug } = await operate('POST', '/guardrails', tone({ rude: 'darn' }));
  await operate('PUT', '/admin/organisation/defaults', { input_guardrails: [slug] });
  assert.deepEqual([(await ask('hello')).status, (await ask('darn')).status], [200, 446]);

  for (const [later, message] of [
    [
      await next(),
      /could not judge it: this gateway has no check "acme\.tone": list the plugin that offers it/,
    ],
    [
      await next([toneBy('forbidden')]),
      /could not judge it: its parameters do not fit it: \/forbidden missing key/,
    ],
  ] as const) {
    const denied = await ask('hello', 'own', {}, later);
    assert.equal(denied.status, 446);
    assert.match(denied.message ?? '', message);
    assert.deepEqual(
      later.gateway.settled.at(-1)?.facts.verdicts.map(({ verdict }) => verdict),
      ['failed'],
    );
  }
  await operate('PUT', `/guardrails/${slug}`, tone({ rude: 'darn' }, { deny: false }));
  const open = await next();
  assert.equal((await ask('darn', 'own', {}, open)).status, 200, 'on_error decides, and the log tells');
  await open.gateway.untilSettled();
  assert.deepEqual(
    open.gateway.settled[0]?.facts.verdicts.map(({ verdict }) => verdict),
    ['failed'],
  );
});

test('a check in a thread of its own has its parameters looked at when it is stored', async (t) => {
  const tone = await loaded(
    t,
    `const tone = defineCheck({
      id: 'acme.tone',
      description: 'Fails for a rude word.',
      phases: ['input'],
      schema: Type.Object({ rude: Type.String() }, { additionalProperties: false }),
      check: ({ rude }) => (rude === '' ? [{ path: '/rude', message: 'must be a word' }] : []),
      create: () => () => passed(),
    });
    export default definePlugin({ name: 'tone', offers: [tone], create: () => ({}) });`,
    usual,
  );
  const { call } = await begin(t, [tone]);
  const save = (parameters: object, id = 'acme.tone') =>
    call('POST', '/guardrails', { name: 'Tone', checks: [{ id, parameters }], actions: { deny: true } });
  for (const [refused, message] of [
    [await save({ rud: 'darn' }), /\/checks\/0\/parameters\/rud .*did you mean \\"rude\\"/],
    [await save({ rude: '' }), /\/checks\/0\/parameters\/rude .*must be a word/],
    [await save({ rude: 'darn' }, 'acme.tune'), /did you mean \\"acme\.tone\\"/],
  ] as const) {
    assert.equal(refused.status, 400, refused.text);
    assert.match(refused.text, message);
  }
  assert.equal((await save({ rude: 'darn' })).status, 200);
});
