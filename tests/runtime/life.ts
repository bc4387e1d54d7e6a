import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { makeHome, type Home } from '../kit/gateway-process.ts';
import { begin, send, type Received } from '../kit/http-kit.ts';
import {
  engineOf,
  eventually,
  ownerKey,
  runWeir,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';
import type { Runtime } from '../kit/runtimes.ts';
import { journalIds } from '../kit/stored-copies.ts';

const headers = { 'x-service-api-key': ownerKey, 'x-service-provider': 'mock' };
const slowly = { model: 'mock:chunk_latency_ms=40,tokens=20', stream: true };

function ask(weir: WeirProcess, content = 'Hello', more: object = {}): Promise<Received> {
  const body = { model: 'mock-gpt', messages: [{ role: 'user', content }], ...more };
  return send(weir.url, { path: '/v1/chat/completions', headers, body });
}

function configuration(plugins: readonly string[], storage = 'analytics: { url: "none:" }'): string {
  return `version: 1
storage: { ${storage} }
pipelines:
  - { name: admin, match: { routes: contributed }, plugins: [auth, management] }
  - name: gateway
    match: { path: /** }
    plugins: [auth, ${plugins.map((plugin) => `${plugin}, `).join('')}provider, logger: { bodies: true }]
`;
}

const stamp = (mark: string): string => `export const mark: string = '${mark}';\n`;
const plugin = `import { definePlugin, Type } from 'weir-gateway/plugin';
import { mark } from './mark.ts';

interface Options { readonly label: string }

async function rejects(): Promise<void> {
  throw new Error('floating');
}

export default definePlugin({
  name: 'stamper',
  schema: Type.Object({ label: Type.String() }, { additionalProperties: false }),
  capabilities: { reads: ['request.text'] },
  create({ label }: Options) {
    return {
      request(context) {
        const said = context.conversation.texts.map(({ text }) => text).join();
        if (said.includes('float')) void rejects();
        if (said.includes('timer')) setTimeout(() => { throw new Error('bare timer'); }, 1);
        context.addResponseHeader('x-stamp', label + '-' + mark);
      },
    };
  },
});
`;

/** How one gateway starts, changes, survives and ends. */
export function describeLife(runtime: Runtime): void {
  describe('a plugin from a file', () => {
    let home: Home;
    let weir: WeirProcess;
    const stamped = async (expected: string | undefined): Promise<void> => {
      await eventually(
        async () => (await ask(weir)).headers['x-stamp'] === expected || undefined,
        () => `${expected}; standard error: ${weir.stderr()}`,
      );
    };
    const configError = async (): Promise<{ problems: string[] } | null> =>
      (await send(weir.url, { path: '/status' })).json().config_error;

    before(async () => {
      home = await makeHome(configuration(['./stamper.ts: { label: first }']));
      await home.write('mark.ts', stamp('red'));
      await home.write('stamper.ts', plugin);
      weir = await startWeir({ runtime, config: home.configFile, data: home.data });
    });
    after(async () => {
      await stopEverything();
      await home.remove();
    });

    test('serves, and is exchanged when its file, one that it imports or its options change', async () => {
      await stamped('first-red');
      await home.write('mark.ts', stamp('blue'));
      await stamped('first-blue');
      await home.write('gateway.config.yaml', configuration(['./stamper.ts: { label: second }']));
      await stamped('second-blue');
    });

    test('a stream that runs meanwhile comes to its end', async () => {
      const body = { ...slowly, messages: [{ role: 'user', content: 'Hello' }] };
      const { response } = await begin(weir.url, { path: '/v1/chat/completions', headers, body });
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      await once(response, 'data');
      await home.write('mark.ts', stamp('green'));
      await stamped('second-green');
      assert.doesNotMatch(text, /\[DONE\]/, 'the stream was over before the reload');
      await once(response, 'close');
      assert.match(text, /data: \[DONE\]\n\n$/);
    });

    test('with a mistake in it is not used, and the mistake has a place', async () => {
      await home.write('mark.ts', '\n\nexport const mark = ;\n');
      const { problems } = await eventually(async () => (await configError()) ?? undefined);
      assert.match(problems.join('\n'), /mark\.ts:3:2[01]: /);
      await stamped('second-green');
      await home.write('mark.ts', stamp('white'));
      await stamped('second-white');
      assert.equal(await configError(), null);
    });

    test('that lets a promise float or throws in a timer is named and counted, and all live on', async () => {
      await ask(weir, 'float');
      await ask(weir, 'timer');
      await weir.untilStderr(
        /plugin "stamper" left a rejected promise unhandled.*floating.*stamper\.ts:\d+/s,
      );
      await weir.untilStderr(/plugin "stamper" threw where nothing catches.*bare timer.*stamper\.ts:\d+/s);
      await stamped('second-white');
      const metrics = (await send(weir.url, { path: '/metrics' })).text;
      for (const hook of ['unhandled_rejection', 'uncaught_exception']) {
        const counted = `weir_plugin_errors_total\\{[^}]*plugin="stamper"[^}]*hook="${hook}"[^}]*\\} 1`;
        assert.match(metrics, new RegExp(counted));
      }
    });

    test('SIGHUP rereads the configuration and ends nothing', async () => {
      weir.child.kill('SIGHUP');
      await stamped('second-white');
      assert.equal(weir.child.exitCode ?? weir.child.signalCode, null);
    });

    test('a second gateway on the same data is refused', async () => {
      const args = ['start', '--port', '0', '--config', home.configFile, '--data', home.data];
      const { code, stderr } = await runWeir(args, { runtime });
      assert.equal(code, 1);
      assert.match(stderr, new RegExp(`in use by process ${weir.child.pid}`));
    });
  });

  describe('start and end', () => {
    after(stopEverything);

    test('what keeps it from starting is one sentence, without a trace', async () => {
      const short = await runWeir(['start', '--port', '0'], { runtime, env: { WEIR_ADMIN_KEY: 'short' } });
      assert.equal(short.code, 1);
      assert.match(short.stderr, /WEIR_ADMIN_KEY is shorter than 16 characters/);
      assert.equal(short.stderr.trim().split('\n').length, 1, short.stderr);
      const folder = await temporaryFolder();
      const wrong = await runWeir(['check', 'nowhere.yaml'], { runtime, cwd: folder });
      assert.equal(wrong.code, 1);
      assert.match(wrong.stderr, /nowhere\.yaml/);
    });

    test('kill -9 loses no row that was in the journal', { skip: chdbMissing }, async () => {
      const home = await makeHome(configuration([], 'journal: { ship_ms: 60000 }'));
      const start = (on: Runtime) => startWeir({ runtime: on, config: home.configFile, data: home.data });
      const killed = await start(runtime);
      const ids: string[] = [];
      for (let request = 0; request < 5; request++) {
        ids.push(String((await ask(killed)).headers['x-service-request-id']));
      }
      for (const table of ['requests', 'bodies'] as const) {
        await eventually(async () => {
          const flushed = new Set(await journalIds(home, table));
          return ids.every((id) => flushed.has(id)) || undefined;
        });
      }
      await killed.stop('SIGKILL');
      await home.write('gateway.config.yaml', configuration([], 'journal: { ship_ms: 50 }'));
      const again = await start(runtime);
      for (const id of ids) {
        await eventually(
          async () =>
            (await send(again.url, { path: `/v1/logs/${id}`, headers })).status === 200 ? true : undefined,
          () => `the log of ${id}; standard error: ${again.stderr()}`,
        );
      }
      assert.equal((await again.stop()).code, 0);
      // A data folder belongs to no runtime.
      const elsewhere = await start('node');
      assert.equal((await send(elsewhere.url, { path: `/v1/logs/${ids[0]}`, headers })).status, 200);
      await elsewhere.stop();
      await home.remove();
    });

    test('SIGTERM lets an open stream finish, ends its engine and ends with 0', async () => {
      const weir = await startWeir({ runtime, yaml: configuration([], chdbMissing ? undefined : '') });
      const engine = chdbMissing || process.platform !== 'linux' ? undefined : await engineOf(weir);
      const body = { ...slowly, messages: [{ role: 'user', content: 'Hello' }] };
      const { response } = await begin(weir.url, { path: '/v1/chat/completions', headers, body });
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      await once(response, 'data');
      const stopped = weir.stop();
      await weir.untilStderr('Shutting down');
      await eventually(async () => {
        const refused = await send(weir.url, { path: '/healthz' }).catch((error: unknown) => error);
        return refused instanceof Error ? true : undefined;
      });
      assert.doesNotMatch(text, /\[DONE\]/);
      await once(response, 'close');
      assert.match(text, /data: \[DONE\]\n\n$/);
      const { code, stderr } = await stopped;
      assert.equal(code, 0, stderr);
      if (engine !== undefined) assert.throws(() => process.kill(engine, 0), { code: 'ESRCH' });
    });
  });
}
