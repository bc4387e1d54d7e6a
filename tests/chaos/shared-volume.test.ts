/** Two containers on one volume, as namespaces: only the first may serve from it, and nothing that it acknowledged is lost. */
import assert from 'node:assert/strict';
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { eventually, ownerKey } from '../kit/process-kit.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const port = 8787;
const isRoot = process.getuid?.() === 0;
const configuration = `version: 1
storage: { analytics: { url: "none:" } }
pipelines:
  - { name: admin, match: { routes: contributed }, plugins: [auth, management] }
  - { name: gateway, match: { path: /** }, plugins: [auth, provider] }
`;

interface Container {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly ended: Promise<number | null>;
}

let folder: string;
const containers: Container[] = [];

before(async () => {
  // Not below /tmp: each container has one of its own, mounted over it.
  folder = await mkdtemp('/var/tmp/weir-volume-');
  await writeFile(path.join(folder, 'gateway.config.yaml'), configuration);
  await mkdir(path.join(folder, 'source'));
});
after(async () => {
  for (const { child, ended } of containers) {
    child.kill('SIGKILL');
    await ended;
  }
  await rm(folder, { recursive: true, force: true, maxRetries: 10 });
});

/** A gateway with process numbers, a network, a /tmp and mounts of its own; it sees the same data folder. */
function run(): Container {
  const own = isRoot ? [] : ['--map-root-user'];
  // The sources may lie below /tmp, which is mounted over: they are put back at their place.
  const mounts =
    'mount --bind "$2" "$1/source" && mount -t tmpfs tmpfs /tmp && mkdir -p "$2" && mount --bind "$1/source" "$2" && cd "$2"';
  const start = `${mounts} && ip link set lo up && exec "$0" scripts/run.mjs start --port ${port} --data "$1/data" --config "$1/gateway.config.yaml"`;
  const spaces = ['--fork', '--kill-child', '--pid', '--mount-proc', '--mount', '--net', '--ipc', '--uts'];
  const env: NodeJS.ProcessEnv = { ...process.env, WEIR_ADMIN_KEY: ownerKey };
  for (const name of ['NODE_TEST_CONTEXT', 'NODE_OPTIONS', 'WEIR_CONFIG', 'WEIR_DATA']) delete env[name];
  const child = spawn('unshare', [...own, ...spaces, 'sh', '-c', start, process.execPath, folder, root], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => (text += part));
  child.stderr.setEncoding('utf8').on('data', (part: string) => (text += part));
  const ended = new Promise<number | null>((resolve) => child.once('close', (code) => resolve(code)));
  const container = { child, output: () => text, ended };
  containers.push(container);
  return container;
}

async function serving(container: Container): Promise<void> {
  await eventually(
    () => /listens on/.test(container.output()) || undefined,
    () => `a gateway that listens:\n${container.output()}`,
    90_000,
  );
}

/** Asks from within a container's network. */
async function ask({ child }: Container, method: string, route: string, body?: unknown): Promise<unknown> {
  const inside = (await readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')).trim();
  const source = `const [url, method, key, body] = process.argv.slice(1);
    const answer = await fetch(url, { method, headers: { 'x-service-api-key': key, 'content-type': 'application/json' }, ...(body ? { body } : {}) });
    console.log(JSON.stringify({ status: answer.status, body: await answer.json() }));`;
  const { stdout } = await promisify(execFile)('nsenter', [
    ...[
      '-t',
      inside,
      ...(isRoot ? [] : ['--user', '--preserve-credentials']),
      '--net',
      process.execPath,
      '--input-type=module',
      '-e',
      source,
    ],
    ...[
      `http://127.0.0.1:${port}/v1${route}`,
      method,
      ownerKey,
      body === undefined ? '' : JSON.stringify(body),
    ],
  ]);
  const answer = JSON.parse(stdout) as { status: number; body: unknown };
  assert.equal(answer.status, 200, stdout);
  return answer.body;
}

test('of two containers on one volume one serves; the other says why not, and nothing acknowledged is lost', async () => {
  await mkdir(path.join(folder, 'data'));
  const first = run();
  await serving(first);
  const names = ['one', 'two', 'three', 'four'];
  for (const name of names.slice(0, 2)) await ask(first, 'POST', '/admin/workspaces', { name });

  const second = run();
  assert.equal(await second.ended, 1, second.output());
  assert.match(
    second.output(),
    /the data folder \S+data is in use by process \d+ of another container or machine \(its host name is .*\): stop that process, or give this one a data folder of its own/,
  );
  for (const name of names.slice(2)) await ask(first, 'POST', '/admin/workspaces', { name });

  // Its engine goes with it, and its number means nothing in the next container: the socket proves that it is gone.
  first.child.kill('SIGKILL');
  await first.ended;
  const third = run();
  await serving(third);
  assert.doesNotMatch(third.output(), /cannot be seen from here/);
  const { data } = (await ask(third, 'GET', '/admin/workspaces')) as { data: readonly { name: string }[] };
  assert.deepEqual(
    names.filter((name) => !data.some((workspace) => workspace.name === name)),
    [],
  );

  await closed(path.join(folder, 'data'));
});

/** Fails for whatever another user of the machine may open. */
async function closed(directory: string): Promise<void> {
  assert.equal((await stat(directory)).mode & 0o077, 0, directory);
  for (const entry of await readdir(directory, { withFileTypes: true, recursive: true })) {
    const file = path.join(entry.parentPath, entry.name);
    if (!entry.isSymbolicLink()) assert.equal((await stat(file)).mode & 0o077, 0, file);
  }
}
