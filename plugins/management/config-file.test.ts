import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { MainFileEditor } from '../../core/lifecycle/config-file-editor.ts';
import { PluginBundler } from '../../core/lifecycle/plugin-bundler.ts';
import type { ConfigFileEditor } from '../../core/ports/config-file.ts';
import { recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import { openResourcesOfFile, startAdministration } from '../../tests/kit/administration-kit.ts';
import { TestClock } from '../../tests/kit/plugin-kit.ts';
import { builtInPlugins } from '../index.ts';

const resources = await openResourcesOfFile();
const file = '/admin/config-file';
const text = `version: 1
telemetry: { otlp: { url: 'http://collector:4318', headers: { x-team: a-literal-secret } } }
pipelines:
  - { name: gateway, match: { path: /** }, plugins: [auth, { provider: { default: mock } }] }
`;

/** An editor of a real file, whose gateway serves whatever it finds. */
async function editorOf(
  t: TestContext,
): Promise<{ name: string; editor: ConfigFileEditor; reloads: string[] }> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'weir-config-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const name = path.join(folder, 'gateway.config.yaml');
  await writeFile(name, text);
  const reloads: string[] = [];
  const clock = new TestClock();
  const editor = new MainFileEditor({
    file: name,
    env: {},
    sources: {
      builtIns: new Map(builtInPlugins.map((plugin) => [plugin.name, plugin])),
      bundler: new PluginBundler({ folder: path.join(folder, 'plugins'), clock, log: recordingLog([]) }),
      providerNames: new Set(['mock']),
      clock,
    },
    reloader: () => ({
      reload(reason) {
        reloads.push(reason);
        return Promise.resolve('unchanged');
      },
      get current(): never {
        return undefined as never;
      },
      lastError: undefined,
      restartNeeded: undefined,
    }),
  });
  return { name, editor, reloads };
}

describe('the configuration file', () => {
  test('is read, checked and written by the owner, each write with an entry without the text', async (t) => {
    const { name, editor, reloads } = await editorOf(t);
    const { tenant, call } = await startAdministration(t, resources, { configFile: editor });
    const { owner, organisationId } = await tenant('file');
    const shown = (await call(owner, { path: file })).json();
    assert.equal(shown.text, text.replace('a-literal-secret', '"***1***"'));
    const { version } = shown;
    const faulty = { text: shown.text.replace('plugins:', 'plugin:'), version };
    const checked = (await call(owner, { method: 'POST', path: `${file}/check`, body: faulty })).json();
    assert.deepEqual(
      checked.faults.map(({ line, column }: { line: number; column: number }) => [line, column]).at(0),
      [4, 44],
    );
    assert.match(checked.faults[0].message, /did you mean "plugins"/);
    const refused = await call(owner, { method: 'PUT', path: file, body: faulty });
    assert.equal(refused.status, 400);
    assert.match(refused.text, /gateway\.config\.yaml:4:44: unknown key/);
    assert.equal(await readFile(name, 'utf8'), text);
    const body = { text: `# mine\n${shown.text}`, version };
    const written = await call(owner, { method: 'PUT', path: file, body });
    assert.equal(written.status, 200, written.text);
    assert.equal(await readFile(name, 'utf8'), `# mine\n${text}`);
    assert.deepEqual(reloads, ['its file was written over the administration API']);
    const again = await call(owner, { method: 'PUT', path: file, body });
    assert.equal(again.status, 412);
    const { data } = await resources.read(({ audit }) =>
      audit.list(organisationId, {}, { offset: 0, limit: 10 }),
    );
    const [entry] = data.filter(
      ({ resourceType, status }) => resourceType === 'config_file' && status === 200,
    );
    assert.equal(entry?.resourceId, 'gateway.config.yaml');
    assert.doesNotMatch(JSON.stringify(data), /# mine|a-literal-secret/);
  });

  test('is not written when its entry of the audit trail is not', async (t) => {
    const { name, editor, reloads } = await editorOf(t);
    const { version } = await editor.read();
    await assert.rejects(
      editor.write({ text: `# mine\n${text}`, version }, () =>
        Promise.reject(new Error('the store is away')),
      ),
      /the store is away/,
    );
    assert.equal(await readFile(name, 'utf8'), text);
    assert.deepEqual(reloads, []);
  });

  test('is read where it may not be written, its secrets masked', async (t) => {
    const { name, editor } = await editorOf(t);
    const management = { config_writes: false };
    const { tenant, call } = await startAdministration(t, resources, { configFile: editor, management });
    const { owner } = await tenant('reader');
    const references = text.replace('mock }', 'mock, api_key: "${MINE}" }');
    await writeFile(name, `${references}# api_key: one-in-a-comment\n`);
    const shown = (await call(owner, { path: file })).json();
    assert.equal(shown.text, `${references.replace('a-literal-secret', '"***1***"')}# api_key: ***2***\n`);
    assert.deepEqual([shown.writes, shown.reason, shown.masked], [false, null, 2]);
    const schema = (await call(owner, { path: `${file}/schema` })).json();
    assert.match(schema.properties.server.properties.port.description, /port/i);
    assert.ok('config_writes' in schema.$defs.management.properties);
    const { version } = shown;
    for (const [method, place] of [
      ['PUT', file],
      ['POST', `${file}/check`],
      ['POST', `${file}/canary`],
    ] as const) {
      const refused = await call(owner, { method, path: place, body: { text: shown.text, version } });
      assert.equal(refused.status, 400);
      assert.match(refused.text, /management: \{ config_writes: true \}/);
    }
  });

  test('is for owners alone, and says why it cannot be shown', async (t) => {
    const { name, editor } = await editorOf(t);
    const { tenant, call } = await startAdministration(t, resources, { configFile: editor });
    const { owner, key } = await tenant('others');
    const other = key({
      kind: 'organisation-service',
      workspaceId: '',
      scopes: ['organisation_settings.update'],
    });
    for (const [method, place] of [
      ['GET', file],
      ['GET', `${file}/schema`],
      ['POST', `${file}/check`],
      ['PUT', file],
      ['GET', `${file}/canary`],
      ['POST', `${file}/canary`],
      ['DELETE', `${file}/canary`],
    ] as const)
      assert.equal(
        (
          await call(other, {
            method,
            path: place,
            ...((method === 'POST' || method === 'PUT') && { body: { text, version: '' } }),
          })
        ).status,
        403,
      );
    await writeFile(name, 'api_key: [');
    const { text: none, reason } = (await call(owner, { path: file })).json();
    assert.equal(none, null);
    assert.match(reason, /no valid YAML/);
  });
});
