import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { makeHome, startGateway, type Home } from '../kit/gateway-process.ts';
import { eventually, ownerKey, stopEverything } from '../kit/process-kit.ts';

// A plugin of a third party that does what no plugin should, when the prompt says so.
const plugin = `import { definePlugin } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'careless',
  capabilities: { reads: ['request.text'] },
  create(_options, scope) {
    if (process.env.CARELESS === 'dispose') scope.onDispose(() => new Promise(() => {}));
    return {
      request(context) {
        const said = context.conversation.texts.map(({ text }) => text).join();
        if (said.includes('loop')) spin();
        if (said.includes('exit')) process.exit(3);
        if (said.includes('never')) return new Promise(() => {});
      },
    };
  },
});

function spin() {
  for (;;);
}
`;

const configuration = `version: 1
server: { watchdog_ms: 2000, port: 0 }
storage: { analytics: { url: "none:" }, resources: { url: "none:" } }
pipelines:
  - name: gateway
    match: { path: /** }
    plugins: [auth, ./careless.ts, provider, logger]
`;

const onDeno = process.env['WEIR_TEST_RUNTIME'] === 'deno';
const weir = fileURLToPath(new URL('../../scripts/weir.mjs', import.meta.url));

async function home(): Promise<Home> {
  const made = await makeHome(configuration);
  await made.write('careless.ts', plugin);
  return made;
}

describe('a plugin that would hold or end the process', { timeout: 180_000 }, () => {
  after(stopEverything);

  test('a loop is noticed, named with its stack, and ends the process, SIGTERM or not', async () => {
    const where = await home();
    const gateway = await startGateway(where);
    assert.equal((await gateway.ask()).status, 200);
    const hanging = gateway.ask({ content: 'loop' }).then(
      () => 'answered',
      () => 'cut',
    );
    await eventually(() =>
      fetch(`${gateway.url}/healthz`, { signal: AbortSignal.timeout(300) }).then(
        () => undefined,
        () => true,
      ),
    );
    // The loop keeps the signal from being handled.
    process.kill(gateway.pid, 'SIGTERM');
    assert.equal(await hanging, 'cut');
    await eventually(
      () => !isAlive(gateway.pid) || undefined,
      () => 'the end of the process',
      20_000,
    );
    if (onDeno) assert.match(gateway.stderr, /The event loop has taken no turn for 2000 ms/);
    else {
      assert.match(gateway.stderr, /plugin \\?"careless\\?" holds the event loop/);
      assert.match(gateway.stderr, /spin \(.*careless\.ts:\d+/);
    }
    await where.remove();
  });

  test(
    '`weir start` starts a gateway again whose plugin looped',
    { skip: onDeno && 'Deno starts main.ts itself' },
    async () => {
      const where = await home();
      const supervised = spawn(
        process.execPath,
        [weir, 'start', '--config', where.configFile, '--data', where.data],
        { env: { ...process.env, WEIR_ADMIN_KEY: ownerKey, PORT: '0' }, stdio: ['ignore', 'pipe', 'pipe'] },
      );
      const output = gather(supervised);
      const address = async (nth: number): Promise<string> =>
        eventually(
          () => [...output.text.matchAll(/listens on (http:\/\/[\d.]+:\d+)/g)][nth]?.[1],
          () => `start ${nth + 1} in:\n${output.text}`,
          60_000,
        );
      const chat = (url: string, content: string): Promise<number> =>
        fetch(`${url}/v1/chat/completions`, {
          method: 'POST',
          headers: {
            'x-service-api-key': ownerKey,
            'x-service-provider': 'mock',
            'content-type': 'application/json',
          },
          body: JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content }] }),
        }).then(({ status }) => status);
      const first = await address(0);
      assert.equal(await chat(first, 'Hello'), 200);
      await assert.rejects(chat(first, 'loop'));
      const second = await address(1);
      assert.match(output.text, /The gateway ended with 70; it is started again in 1 s/);
      assert.equal(await chat(second, 'Hello'), 200);
      supervised.kill('SIGTERM');
      const [code] = (await once(supervised, 'exit')) as [number | null];
      assert.equal(code, 0, output.text);
      await where.remove();
    },
  );

  test('process.exit in a plugin fails its request and nothing else', async () => {
    const where = await home();
    const gateway = await startGateway(where);
    const refused = await gateway.ask({ content: 'exit' });
    assert.equal(refused.status, 500);
    assert.match(refused.text, /plugin_failed/);
    assert.equal((await gateway.ask()).status, 200);
    assert.match(gateway.stderr, /careless\\?" called process\.exit\(\), which was refused/);
    assert.equal(await gateway.stop(), 0);
    await where.remove();
  });

  test('a hook and a clean-up that never end hold SIGTERM for less than 20 s', async () => {
    const where = await home();
    process.env['CARELESS'] = 'dispose';
    const gateway = await startGateway(where);
    delete process.env['CARELESS'];
    const stuck = gateway.ask({ content: 'never' });
    await eventually(async () =>
      Number((await gateway.status())['active_requests']) > 0 ? true : undefined,
    );
    const askedAt = performance.now();
    const code = await gateway.stop();
    assert.ok(performance.now() - askedAt < 20_000);
    assert.equal(code, 0);
    const answer = await stuck;
    assert.match(answer.text, /did not finish its request hook within 5000 ms/);
    await where.remove();
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function gather(child: ChildProcess): { text: string } {
  const output = { text: '' };
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => (output.text += text));
  return output;
}
