// The files that one chat request and one config write pass through, from V8's coverage: functions that ran between the
// moment before the request and the moment after its answer. Timers that fire in between count as well.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const key = 'wk_walk_0123456789abcdef';

interface Walk {
  readonly chat: readonly string[];
  readonly write: readonly string[];
}

/**
 * Starts the shipped configuration on a free port and an empty folder, and repeats each request until it is warmed up.
 */
export async function walkOfRequests(): Promise<Walk> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'weir-walk-'));
  const file = path.join(folder, 'walk.json');
  const loaded = ['--import', 'tsx', '--import', new URL('walk-recorder.mjs', import.meta.url).href];
  const options = ['main.ts', 'start', '--port', '0', '--data', path.join(folder, 'data')];
  const child = spawn(process.execPath, [...loaded, ...options], {
    cwd: root,
    env: { ...process.env, WEIR_WALK_FILE: file, WEIR_ADMIN_KEY: key, WEIR_DRAIN_DELAY_MS: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  try {
    const url = await listening(child.stdout);
    const look = async (): Promise<readonly string[]> => {
      rmSync(file, { force: true });
      child.kill('SIGUSR2');
      for (let tries = 0; tries < 200; tries++) {
        await delay(25);
        try {
          return JSON.parse(readFileSync(file, 'utf8')) as string[];
        } catch {
          // The file is not complete yet.
        }
      }
      throw new Error('The gateway did not say which files ran.');
    };
    const walkOf = async (send: () => Promise<void>): Promise<readonly string[]> => {
      for (let warm = 0; warm < 3; warm++) await send();
      await delay(1500);
      await look();
      await send();
      const files = await look();
      const idle = await look();
      return files.filter((one) => !idle.includes(one));
    };
    const workspace = await defaultWorkspace(url);
    let made = 0;
    return {
      chat: await walkOf(() =>
        post(url, '/v1/chat/completions', {
          model: 'mock-gpt',
          messages: [{ role: 'user', content: `Hello ${made++}` }],
        }),
      ),
      write: await walkOf(() =>
        post(url, '/v1/configs', {
          name: `walk ${made++}`,
          workspace_id: workspace,
          config: { provider: 'mock' },
        }),
      ),
    };
  } finally {
    child.kill('SIGKILL');
    // The child of the engine ends a little later than its parent.
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}

async function listening(output: NodeJS.ReadableStream): Promise<string> {
  let text = '';
  for await (const chunk of output) {
    text += String(chunk);
    const found = /listens on (http:\/\/127\.0\.0\.1:\d+)/.exec(text);
    if (found?.[1] !== undefined) return found[1];
  }
  throw new Error(`The gateway ended before it listened:\n${text}`);
}

async function defaultWorkspace(url: string): Promise<string> {
  const answer = await fetch(`${url}/v1/admin/workspaces`, { headers: { 'x-service-api-key': key } });
  const { data } = (await answer.json()) as { data: readonly { id: string }[] };
  const [first] = data;
  if (first === undefined) throw new Error('The gateway has no workspace.');
  return first.id;
}

async function post(url: string, target: string, body: unknown): Promise<void> {
  const answer = await fetch(`${url}${target}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-service-api-key': key },
    body: JSON.stringify(body),
  });
  if (answer.status !== 200) throw new Error(`${target}: ${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
}
