// `weir bench` as a user runs it: its processes are real, and its load is small.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { childrenOf, isRunning } from '../kit/processes.ts';

const weir = fileURLToPath(new URL('../../scripts/run.mjs', import.meta.url));

const configuration = `# Kept as it is.
version: 1
server: { header_prefix: x-acme }
storage:
  # Nothing listens there.
  resources: { url: "postgres://weir@127.0.0.1:1/weir" }
  analytics: { url: "none:" }
providers:
  elsewhere: { dialect: openai-chat, base_url: "http://127.0.0.1:1/v1", credentials: none }
pipelines:
  - name: gateway
    match: { path: /** }
    plugins:
      - auth
      - ./own.ts
      - provider
      - logger: { bodies: true }
`;

/** Starts sooner: without an embedded store. */
const small = configuration.replace('postgres://weir@127.0.0.1:1/weir', 'none:');

const ownPlugin = `import { definePlugin } from 'weir-gateway/plugin';

export default definePlugin({ name: 'own', create: () => ({ request() {} }) });
`;

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

describe('weir bench', { timeout: 240_000 }, () => {
  let folder: string;

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'weir-bench-test-'));
    await writeFile(path.join(folder, 'gateway.config.yaml'), configuration);
    await writeFile(path.join(folder, 'small.yaml'), small);
    await writeFile(path.join(folder, 'own.ts'), ownPlugin);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  /** Runs the command in the folder. `onLine` gets each line of progress with the process's id. */
  function bench(args: readonly string[], onLine?: (line: string, pid: number) => void): Promise<Ended> {
    const child = spawn(process.execPath, [weir, 'bench', '--peers', 'none', ...args], { cwd: folder });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
      onLine?.(text, child.pid ?? 0);
    });
    return new Promise((resolve) => child.once('close', (code) => resolve({ code, stdout, stderr })));
  }

  const files = async (): Promise<readonly string[]> => (await readdir(folder)).sort();

  test('makes a table, JSON and a chart of the configuration, which stays as it was', async () => {
    const started: Promise<readonly number[]>[] = [];
    const { code, stdout, stderr } = await bench(
      ['--seconds', '1', '--rate', '50', '--connections', '4', '--out', 'results'],
      (line, pid) => {
        if (line.includes('Warming up'))
          started.push(childrenOf(pid).then((children) => children.map((child) => child.pid)));
      },
    );
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^bare proxy .*\(1\.00 ×\)/m);
    assert.match(stdout, /^Weir .* ×\)/m);
    assert.match(stdout, /^Note: storage\.resources of the configuration left out/m);

    const result = JSON.parse(await readFile(path.join(folder, 'results', 'bench.json'), 'utf8')) as {
      readonly command: string;
      readonly gateways: readonly {
        readonly name: string;
        readonly at_rate: { readonly cpu_us: number; readonly p99_ms: number };
        readonly saturated: { readonly cpu_us: number; readonly requests_per_second: number };
        readonly streams: { readonly cpu_us: number };
        readonly stores_memory_mib?: number;
      }[];
    };
    assert.match(result.command, /^weir bench --peers none --seconds 1 --rate 50/);
    assert.deepEqual(
      result.gateways.map(({ name }) => name),
      ['bare', 'weir'],
    );
    for (const { at_rate, saturated, streams } of result.gateways)
      for (const value of [
        at_rate.cpu_us,
        at_rate.p99_ms,
        saturated.cpu_us,
        saturated.requests_per_second,
        streams.cpu_us,
      ])
        assert.ok(value > 0);
    assert.ok((result.gateways[1]?.stores_memory_mib ?? 0) > 0, 'the embedded store is told apart');

    const svg = await readFile(path.join(folder, 'results', 'bench.svg'), 'utf8');
    assert.match(svg, /^<svg [^>]*viewBox=[\s\S]*prefers-color-scheme: dark[\s\S]*>Weir<[\s\S]*<\/svg>\n$/);
    assert.match(await readFile(path.join(folder, 'results', 'bench.md'), 'utf8'), /^\| Weir +\|/m);

    assert.equal(await readFile(path.join(folder, 'gateway.config.yaml'), 'utf8'), configuration);
    assert.deepEqual(await files(), ['gateway.config.yaml', 'own.ts', 'results', 'small.yaml']);
    const pids = (await Promise.all(started)).flat();
    assert.equal(pids.length, 3, 'the provider, the bare proxy and the gateway');
    for (const pid of pids) assert.equal(await isRunning(pid), false);
  });

  test('a rate limit of the configuration ends it with status, code and remedy', async () => {
    const limited = small.replace('./own.ts', 'rate-limit: { requests_per_minute: 1 }');
    await writeFile(path.join(folder, 'limited.yaml'), limited);
    const { code, stdout, stderr } = await bench(['--config', 'limited.yaml', '--seconds', '1']);
    assert.equal(code, 1);
    assert.equal(stdout, '');
    assert.match(stderr, /refuses the bench: status 429, code \w+, ".*measure a copy .* higher rate limit/);
    assert.equal((await files()).filter((name) => name.startsWith('.weir-bench')).length, 0);
    await rm(path.join(folder, 'limited.yaml'));
  });

  test('a request that the configuration routes to another host is told before many follow', async () => {
    const { code, stderr } = await bench(['--config', 'small.yaml', '--header', 'x-acme-provider: mock']);
    assert.equal(code, 1);
    assert.match(stderr, /answered, but not by its stand-in provider/);
  });

  test('Ctrl-C ends everything that was started, and removes the copy', async () => {
    const started: Promise<readonly number[]>[] = [];
    const { code, stderr } = await bench(['--config', 'small.yaml', '--seconds', '60'], (line, pid) => {
      if (!line.includes('Warming up')) return;
      started.push(
        childrenOf(pid).then((children) => {
          process.kill(pid, 'SIGINT');
          return children.map((child) => child.pid);
        }),
      );
    });
    assert.equal(code, 130);
    assert.match(stderr, /was interrupted/);
    const pids = (await Promise.all(started)).flat();
    assert.equal(pids.length, 3);
    for (const pid of pids) assert.equal(await isRunning(pid), false);
    assert.equal((await files()).filter((name) => name.startsWith('.weir-bench')).length, 0);
  });

  test('an invalid configuration is told with its place', async () => {
    await writeFile(path.join(folder, 'wrong.yaml'), `${configuration}pipeline: []\n`);
    const { code, stderr } = await bench(['--config', 'wrong.yaml']);
    assert.equal(code, 1);
    assert.match(stderr, /wrong\.yaml:\d+:\d+/);
    await rm(path.join(folder, 'wrong.yaml'));
  });
});
