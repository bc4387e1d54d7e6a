import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { pluginFolder } from './plugin-files.test-support.ts';
import { installProcessGuards } from './process-guards.ts';
import { recordingServices } from './recording-services.test-support.ts';

function start(attribute: (thrown: unknown) => string | undefined) {
  const ended: string[] = [];
  const process = Object.assign(new EventEmitter(), {
    pid: 7,
    exit: (): never => {
      throw new Error('exit');
    },
    abort: (): never => {
      throw new Error('abort');
    },
    kill: (pid: number): true => {
      ended.push(`kill ${pid}`);
      return true;
    },
  });
  const { services, lines, metrics } = recordingServices();
  const fatal: unknown[] = [];
  const { log } = services;
  const uninstall = installProcessGuards({
    process,
    log,
    metrics,
    attribute,
    onFatal: (thrown) => fatal.push(thrown),
  });
  return { process, uninstall, lines, metrics, fatal, ended };
}

test('a rejection is logged and counted with its plugin, and never fatal', () => {
  const { process, lines, metrics, fatal } = start((thrown) =>
    thrown instanceof Error ? 'deny' : undefined,
  );
  process.emit('unhandledRejection', new Error('floating'));
  process.emit('unhandledRejection', 'no error');
  assert.deepEqual(fatal, []);
  assert.equal(metrics.values.get('weir_plugin_errors_total{plugin=deny,hook=unhandled_rejection}'), 1);
  assert.equal(metrics.values.get('weir_plugin_errors_total{plugin=unknown,hook=unhandled_rejection}'), 1);
  assert.match(lines[0]?.message ?? '', /plugin "deny" left a rejected promise unhandled/);
  assert.equal(lines[0]?.fields['plugin'], 'deny');
  assert.match(String(lines[0]?.fields['error']), /floating/);
});

test("a third-party plugin's exception is logged with its name and is not fatal", () => {
  const { process, lines, metrics, fatal } = start(() => 'deny');
  process.emit('uncaughtException', new Error('timer'));
  assert.deepEqual(fatal, []);
  assert.equal(metrics.values.get('weir_plugin_errors_total{plugin=deny,hook=uncaught_exception}'), 1);
  assert.match(lines[0]?.message ?? '', /plugin "deny" threw/);
});

test("the gateway's own exception is fatal", () => {
  const { process, fatal, lines } = start(() => undefined);
  const thrown = new Error('ours');
  process.emit('uncaughtException', thrown);
  assert.deepEqual(fatal, [thrown]);
  assert.equal(lines[0]?.level, 'error');
});

test('a plugin cannot end the process; the gateway can', () => {
  let caller: string | undefined = 'deny';
  const { process, lines, metrics, ended, uninstall } = start(() => caller);
  assert.throws(() => process.exit(), /process\.exit\(\) is not for plugins/);
  assert.throws(() => process.abort(), /process\.abort\(\) is not for plugins/);
  assert.throws(() => process.kill(7), /process\.kill\(\) on the gateway is not for plugins/);
  assert.ok(process.kill(8), 'other processes are its own business');
  assert.equal(metrics.values.get('weir_plugin_errors_total{plugin=deny,hook=process_exit}'), 3);
  assert.match(lines[0]?.message ?? '', /plugin "deny" called process\.exit\(\), which was refused/);
  caller = undefined;
  assert.throws(() => process.exit(), /^Error: exit$/);
  process.kill(7);
  assert.deepEqual(ended, ['kill 8', 'kill 7']);
  uninstall();
  caller = 'deny';
  assert.throws(() => process.abort(), /^Error: abort$/);
});

test('uninstalling takes both guards away', () => {
  const { process, uninstall } = start(() => undefined);
  uninstall();
  assert.deepEqual(process.eventNames(), []);
});

const main = (lifecycle: string, plugin: string, bundles: string): string => `
  import { PluginBundler } from '${lifecycle}/plugin-bundler.ts';
  import { installProcessGuards } from '${lifecycle}/process-guards.ts';
  import { loadPlugin } from '${lifecycle}/prepare.ts';
  import { recordingServices, realClock } from '${lifecycle}/recording-services.test-support.ts';
  const { services, lines } = recordingServices();
  const bundler = new PluginBundler({ folder: ${JSON.stringify(bundles)}, clock: realClock, log: services.log });
  installProcessGuards({
    process, log: services.log, metrics: services.metrics,
    attribute: (thrown) => bundler.origins.attribute(thrown),
    onFatal: (thrown) => { console.log('fatal ' + thrown.message); process.exit(7); },
  });
  const entry = { use: ${JSON.stringify(plugin)}, options: {}, pointer: '', optionsPointer: '', file: '/x.yaml' };
  const loaded = await loadPlugin(entry, { file: '', line: 0, column: 0 }, { builtIns: new Map(), bundler });
  loaded.plugin.definition.create({}, {});
  setTimeout(() => {
    for (const line of lines) console.log(line.fields.plugin + ': ' + line.fields.error.split('\\n')[0]);
    setTimeout(() => { throw new Error('ours'); }, 1);
  }, 200);
`;

test('in a real process a plugin that throws from a timer and leaves promises floating is named and survived', async (t: TestContext) => {
  const where = await pluginFolder(t);
  await where.write({
    'careless.ts': `
      import { definePlugin } from 'weir-gateway/plugin';
      import { fail } from './fail.ts';
      void Promise.reject(new Error('top level'));
      export default definePlugin({ name: 'careless', create() {
        setTimeout(() => fail('timer'), 1);
        void (async () => fail('floating'))();
        return {};
      } });`,
    'fail.ts': `export function fail(what: string): never {\n  throw new Error(what);\n}\n`,
  });
  const lifecycle = fileURLToPath(new URL('.', import.meta.url)).replace(/\/$/, '');
  await where.write({ 'main.mts': main(lifecycle, where.path('careless.ts'), where.bundles) });
  const tsx = import.meta.resolve('tsx');
  const child = spawn(process.execPath, ['--import', tsx, where.path('main.mts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [status] = (await once(child, 'close')) as [number];
  const expected = [
    'careless: Error: top level',
    'careless: Error: floating',
    'careless: Error: timer',
    'fatal ours',
  ];
  assert.deepEqual(output.trim().split('\n'), [...expected]);
  assert.equal(status, 7);
});
