import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { defaultSecurity } from '../../../core/ports/organisation-settings.ts';
import { openResourcesOfFile, startAdministration } from '../../../tests/kit/administration-kit.ts';

const resources = await openResourcesOfFile();

/** A workspace and what a key of it asks. */
async function setUp(t: TestContext) {
  const { tenant, call } = await startAdministration(t, resources);
  const place = await tenant('prompts');
  const service = place.key({ kind: 'workspace-service' });
  const ask = async (method: string, path: string, body?: unknown, status = 200) => {
    const answer = await call(service, { method, path, ...(body !== undefined && { body }) });
    assert.equal(answer.status, status, `${method} ${path}: ${answer.text}`);
    return answer.json();
  };
  const partial = (name: string, string: string, status?: number) =>
    ask('POST', '/prompts/partials', { name, string }, status);
  const prompt = (string: string, more: object = {}, status?: number) =>
    ask('POST', '/prompts', { name: 'P', collection_id: 'default', string, parameters: {}, ...more }, status);
  return { ...place, call, ask, partial, prompt };
}

describe('what is saved', () => {
  test('can be rendered: mistakes are told with their place', async (t) => {
    const { prompt, partial } = await setUp(t);
    const cases: readonly [string, object, string, RegExp][] = [
      ['a\n{{#b}}', {}, '/string', /line 2, column|unclosed section "b"/],
      ['{{>nobody}}', {}, '/string', /no partial "nobody"/],
      ['x', { virtual_key: 'nobody' }, '/virtual_key', /no such provider/],
      ['x', { collection_id: 'nowhere' }, '/collection_id', /no such collection/],
      ['x', { template_metadata: {}, prompt_metadata: {} }, '/prompt_metadata', /template_metadata/],
      ['x', { colour: 1 }, '/colour', /./],
    ];
    for (const [string, more, path, message] of cases) {
      const { errors } = await prompt(string, more, 400);
      assert.equal(errors[0].path, path);
      assert.match(errors[0].message, message);
    }
    assert.match((await partial('Bad', '{{', 400)).errors[0].message, /line 1, column 1/);
  });

  test('has labels with colours that are ones', async (t) => {
    const { ask } = await setUp(t);
    for (const [index, color_code] of ['#00AA55', '#0a5', '', null].entries())
      await ask('POST', '/labels', { name: `good-${index}`, color_code });
    for (const color_code of ['zz', '#zzzzzz', '00AA55', '#12345'])
      assert.equal(
        (await ask('POST', '/labels', { name: 'bad', color_code }, 400)).errors[0].path,
        '/color_code',
      );
  });

  test('holds no whole numbers that would lose digits', async (t) => {
    const { ask, prompt } = await setUp(t);
    const { slug } = await prompt('x');
    const cases = {
      parameters: '{"seed":9007199254740993}',
      functions: '[{"a":[9007199254740993]}]',
      tools: '[{"a":{"b":9007199254740993}}]',
      tool_choice: '{"a":9007199254740993}',
      template_metadata: '{"a":9007199254740993}',
      prompt_metadata: '{"a":9007199254740993}',
    };
    for (const [member, value] of Object.entries(cases)) {
      const rest = member === 'parameters' ? '' : ',"parameters":{}';
      const body = `"string":"x"${rest},"${member}":${value}}`;
      for (const { errors } of [
        await ask('POST', '/prompts', `{"name":"P","collection_id":"default",${body}`, 400),
        await ask('PUT', `/prompts/${slug}`, `{${body}`, 400),
      ]) {
        assert.equal(errors[0].path, `/${member}`);
        assert.match(errors[0].message, /^holds 9007199254740993.*beyond 2\^53 cannot be kept/);
      }
    }
  });

  test('is rendered with whole numbers as they were sent', async (t) => {
    const { call, key, prompt } = await setUp(t);
    const { slug } = await prompt('{{n}}');
    const body = '{"variables":{"n":9007199254740993},"seed":18446744073709551615}';
    const asked = { path: `/prompts/${slug}/render`, body };
    const { text } = await call(key({ kind: 'workspace-service' }), asked);
    assert.match(text, /"content":"9007199254740993".*"seed":18446744073709551615/);
  });

  test('closes no circle: it is named, at save and when a version becomes the default', async (t) => {
    const { ask, partial } = await setUp(t);
    const { slug: a } = await partial('A', 'plain');
    const { slug: b } = await partial('B', `{{>${a}}}`);
    const circle = await ask('PUT', `/prompts/partials/${a}`, { string: `{{>${b}}}` }, 400);
    assert.match(circle.errors[0].message, new RegExp(`${a} → ${b} → ${a}`));
    await ask('PUT', `/prompts/partials/${b}`, { string: 'plain, too' });
    await ask('PUT', `/prompts/partials/${b}/makeDefault`, { version: 2 });
    await ask('PUT', `/prompts/partials/${a}`, { string: `{{>${b}}}` });
    await ask('PUT', `/prompts/partials/${a}/makeDefault`, { version: 2 });
    const late = await ask('PUT', `/prompts/partials/${b}/makeDefault`, { version: 1 }, 400);
    assert.match(late.errors[0].message, /circle/);
  });

  test('is held by what uses it: 409 with its users', async (t) => {
    const { ask, partial, prompt } = await setUp(t);
    const { slug } = await partial('Used', 'x');
    const user = await prompt(`{{>${slug}}}`);
    const held = await ask('DELETE', `/prompts/partials/${slug}`, undefined, 409);
    assert.ok(held.data.message.includes(user.slug));
    assert.match((await ask('DELETE', '/collections/default', undefined, 409)).data.message, /default/);
    await ask('DELETE', `/prompts/${user.slug}`);
    await ask('DELETE', `/prompts/partials/${slug}`);
  });
});

test('a new version says everything anew, or with patch what is different', async (t) => {
  const { ask, prompt } = await setUp(t);
  const { slug, version_id } = await prompt('one', { model: 'm', parameters: { temperature: 1 } });
  const latest = async () => ask('GET', `/prompts/${slug}@latest`);
  await ask('PUT', `/prompts/${slug}`, { patch: true, string: 'two' });
  const two = await latest();
  assert.deepEqual([two.string, two.model, two.parameters], ['two', 'm', { temperature: 1 }]);
  assert.equal((await ask('PUT', `/prompts/${slug}`, { model: 'n' }, 400)).errors[0].path, '/string');
  await ask('PUT', `/prompts/${slug}`, { string: 'three' });
  const three = await latest();
  assert.deepEqual([three.string, three.model, three.parameters, three.prompt_version], ['three', '', {}, 3]);
  await ask('PUT', `/prompts/${slug}`, { name: 'Renamed' });
  assert.deepEqual([(await latest()).prompt_version, (await latest()).name], [3, 'Renamed']);
  const first = await ask('GET', `/prompts/${slug}/versions/${version_id}`);
  assert.deepEqual([first.string, first.prompt_version_status], ['one', 'active']);
  await ask('PUT', `/prompts/${slug}/makeDefault`, { version: 9 }, 400);
  await ask('GET', `/prompts/${slug}@9`, undefined, 404);
});

test('members see prompts and do not edit them, until the settings say otherwise', async (t) => {
  let prompts = defaultSecurity.prompts;
  const directory = { settingsIn: () => ({ ...defaultSecurity, prompts }) };
  const { tenant, call } = await startAdministration(t, resources, { directory });
  const member = (await tenant('settings')).key({ kind: 'workspace-user' });
  const create = { path: '/collections', body: { name: 'x' } };
  const refused = await call(member, create);
  assert.deepEqual([refused.status, refused.json().data.errorCode], [403, 'AB03']);
  assert.match(refused.json().data.message, /membersWritePrompts/);
  assert.equal((await call(member, { path: '/prompts' })).status, 200);
  prompts = { ...prompts, membersWritePrompts: true, membersViewPrompts: false };
  assert.equal((await call(member, create)).status, 200);
  assert.equal((await call(member, { path: '/prompts' })).status, 403);
});

test('keys of an organisation say whose a prompt is; other workspaces see nothing of it', async (t) => {
  const { call, owner, key, workspaceId, prompt } = await setUp(t);
  const { id, slug } = await prompt('x');
  const body = { name: 'Q', string: 'x', parameters: {} };
  assert.equal((await call(owner, { path: '/prompts', body })).json().errors[0].path, '/workspace_id');
  const made = await call(owner, { path: '/prompts', body: { ...body, workspace_id: workspaceId } });
  assert.equal(made.status, 200, made.text);
  assert.equal((await call(owner, { path: `/prompts/${slug}` })).json().id, id);
  const other = key({ kind: 'workspace-service', workspaceId: 'elsewhere' });
  for (const path of [`/prompts/${id}`, `/prompts/${slug}`])
    assert.equal((await call(other, { path })).status, 404);
});
