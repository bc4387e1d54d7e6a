/** `strategy: least-latency` with several workers: what one of them has measured, all of them know. */
import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { makeHome, startGateway, type GatewayProcess, type Home } from '../kit/gateway-process.ts';
import { eventually, ownerKey, stopEverything } from '../kit/process-kit.ts';
import { defaultRuntime } from '../kit/runtimes.ts';

const onNode = defaultRuntime === 'node' ? false : 'Deno cannot share a port between processes';

/** Each has two targets that nothing has measured yet. */
const configs = Array.from({ length: 10 }, (_, index) => `pair-${index}`);

const configuration = `version: 1
server: { port: 8787, workers: 2 }
storage: { analytics: { url: "none:" }, resources: { url: "none:" } }
providers:
  quick: { base_url: "mock:?latency_ms=5", credentials: none }
  slow: { base_url: "mock:?latency_ms=250", credentials: none }
configs:
  greeting: { provider: quick }
${configs
  .map(
    (name) =>
      `  ${name}: { strategy: { mode: least-latency }, targets: [{ provider: quick }, { provider: slow }] }`,
  )
  .join('\n')}
pipelines:
  - name: gateway
    match: { path: /** }
    plugins: [auth, ./say-where.ts, provider]
`;

/** The mock provider repeats what it was told: here, by which process. */
const sayWhere = `import { definePlugin } from 'weir-gateway/plugin';
export default definePlugin({
  name: 'say-where',
  capabilities: { changes: ['request.body'] },
  create: () => ({
    request({ body }) {
      body.set(['messages', 0, 'content'], 'process ' + process.pid);
    },
  }),
});
`;

/** One connection, and so one worker. */
class Client {
  readonly #url: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(url: string) {
    this.#url = url;
  }

  /** The worker that served the request, and the place of the target that answered. */
  async ask(config: string): Promise<{ pid: number; target: string }> {
    const body = JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content: '' }] });
    const headers = {
      'x-service-api-key': ownerKey,
      'x-service-config': config,
      'content-type': 'application/json',
    };
    return new Promise((resolve, reject) => {
      const sent = request(
        `${this.#url}/v1/chat/completions`,
        { method: 'POST', agent: this.#agent, headers },
        (answer) => {
          let text = '';
          answer.setEncoding('utf8');
          answer.on('data', (chunk: string) => (text += chunk));
          answer.on('error', reject);
          answer.on('end', () => {
            const pid = Number(/process (\d+)/.exec(text)?.[1]);
            if (Number.isNaN(pid)) return reject(new Error(text));
            resolve({ pid, target: String(answer.headers['x-service-last-used-option-index']) });
          });
        },
      );
      sent.on('error', reject);
      sent.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

describe('least latency over two workers', { skip: onNode, timeout: 120_000 }, () => {
  let home: Home;
  let gateway: GatewayProcess;
  const clients: Client[] = [];

  before(async () => {
    home = await makeHome(configuration);
    await home.write('say-where.ts', sayWhere);
    gateway = await startGateway(home);
  });
  after(async () => {
    for (const client of clients) client.close();
    await stopEverything();
    await home.remove();
  });

  /** A client of a worker that is none of these. */
  async function clientOfOther(than: readonly number[]): Promise<{ client: Client; pid: number }> {
    return eventually(async () => {
      // While one worker is busy with a connection, the other one takes the next.
      const some = Array.from({ length: 8 }, () => new Client(gateway.url));
      clients.push(...some);
      const asked = await Promise.all(
        some.map(async (client) => ({ client, pid: (await client.ask('greeting')).pid })),
      ).catch(() => []);
      return asked.find(({ pid }) => !than.includes(pid));
    });
  }

  /** How many of the first two requests with each config met the slow target. */
  async function slowAnswers(client: Client, pid: number): Promise<number> {
    let slow = 0;
    for (const config of [...configs, ...configs]) {
      const answer = await client.ask(config);
      assert.equal(answer.pid, pid);
      if (answer.target === 'config.targets[1]') slow++;
    }
    return slow;
  }

  test('a slow provider that one worker has met is avoided by the other, and by one that replaces it', async () => {
    const one = await clientOfOther([]);
    // Of two targets, the one that was never measured is asked: each config meets both.
    const first = await slowAnswers(one.client, one.pid);
    assert.ok(first >= configs.length - 2, `${first} of ${configs.length}`);
    await pause(1500);
    const other = await clientOfOther([one.pid]);
    // 1 request in 50 is sent anywhere, to measure again.
    const second = await slowAnswers(other.client, other.pid);
    assert.ok(second <= 3, `${second} of ${2 * configs.length} were slow on the other worker`);
    process.kill(other.pid, 'SIGKILL');
    const successor = await clientOfOther([one.pid, other.pid]);
    const third = await slowAnswers(successor.client, successor.pid);
    assert.ok(third <= 3, `${third} of ${2 * configs.length} were slow on the successor`);
  });
});
