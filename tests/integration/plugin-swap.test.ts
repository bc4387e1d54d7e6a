import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { makeHome, startGateway } from '../kit/gateway-process.ts';
import { eventually, stopEverything } from '../kit/process-kit.ts';

const clients = 8;
const onDeno = process.env['WEIR_TEST_RUNTIME'] === 'deno';

const configuration = (entry: string): string => `version: 1
server: { port: 0 }
storage: { analytics: { url: "none:" }, resources: { url: "none:" } }
pipelines:
  - name: gateway
    match: { path: /** }
    plugins: [auth, ${entry}, provider, logger]
`;

/** Says its version in two hooks of the same request. */
const versioned = (version: number): string => `import { definePlugin } from 'weir-gateway/plugin';
export default definePlugin({
  name: 'versioned',
  capabilities: { stream: 'ignore' },
  create: () => ({
    request: (context) => context.addResponseHeader('x-request-version', '${version}'),
    response: (context) => context.response.setHeader('x-response-version', '${version}'),
  }),
});
`;

describe('a plugin whose code changes under load', { timeout: 240_000 }, () => {
  after(stopEverything);

  for (const [how, entry, changes] of [
    ['in the gateway', './versioned.ts', 100],
    ['in a thread of its own', './versioned.ts: { isolate: true }', 10],
  ] as const) {
    const skip = onDeno && how !== 'in the gateway' && 'Deno has no threads with a bound of memory';
    test(
      `${how}: no request fails, and each has one version from its first hook to its last`,
      { skip },
      async () => {
        const home = await makeHome(configuration(entry.includes(':') ? `{ ${entry} }` : entry));
        await home.write('versioned.ts', versioned(0));
        const gateway = await startGateway(home);
        const seen = new Set<string>();
        const wrong: string[] = [];
        let isOver = false;
        const ask = async (): Promise<string> => {
          const { status, headers, text } = await gateway.ask();
          const versions = [headers.get('x-request-version'), headers.get('x-response-version')];
          if (status !== 200 || versions[0] === null || versions[0] !== versions[1])
            wrong.push(`${status} ${versions.join('/')} ${text.slice(0, 200)}`);
          seen.add(versions[0] ?? '');
          return versions[0] ?? '';
        };
        const load = Array.from({ length: clients }, async () => {
          while (!isOver) await ask();
        });
        for (let version = 1; version <= changes; version += 1) {
          await home.write('versioned.ts', versioned(version));
          await eventually(
            async () => (await ask()) === String(version) || undefined,
            () => `version ${version}; standard error: ${gateway.stderr}`,
          );
        }
        isOver = true;
        await Promise.all(load);
        assert.deepEqual(wrong, []);
        assert.equal(seen.size, changes + 1);
        assert.equal(await gateway.stop(), 0);
        await home.remove();
      },
    );
  }
});
