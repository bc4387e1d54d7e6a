import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

const kills = 5;
/** More than a run gets to before it is killed; it bounds a run that is not. */
const rowsPerRun = 100_000;

/** A store that deduplicates by token, and whose answers get lost or fail now and then. */
class Sink {
  readonly ids: string[] = [];
  refused = 0;
  steady = false;
  private readonly tokens = new Set<string>();
  private calls = 0;

  readonly serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      return; // killed in the middle of a post
    }
    this.calls += 1;
    const trouble = this.steady ? 0 : this.calls % 6;
    if (trouble === 1) return void response.writeHead(503).end();
    const isStored = this.store(request.url ?? '', Buffer.concat(chunks).toString('utf8'));
    if (trouble === 2) return void request.socket.destroy();
    response.writeHead(isStored ? 200 : 422).end();
  };

  private store(token: string, text: string): boolean {
    let ids: string[];
    try {
      ids = text
        .trimEnd()
        .split('\n')
        .map((line) => (JSON.parse(line) as { id: string }).id);
    } catch {
      this.refused += 1;
      return false;
    }
    if (!this.tokens.has(token)) this.ids.push(...ids);
    this.tokens.add(token);
    return true;
  }
}

async function place(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), 'journal-kill-'));
  const sink = new Sink();
  const server = createServer((request, response) => void sink.serve(request, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const children: ChildProcess[] = [];
  t.after(async () => {
    for (const child of children) child.kill('SIGKILL');
    server.closeAllConnections();
    server.close();
    await rm(directory, { recursive: true });
  });
  const start = (run: number, rows: number) => {
    const script = fileURLToPath(new URL('journal-kill-child.ts', import.meta.url));
    const values = [directory, port, run, rows].map(String);
    const child = spawn(process.execPath, ['--import', 'tsx', script, ...values], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(child);
    return { child, lines: createInterface({ input: child.stdout }) };
  };
  return { directory, sink, start };
}

/** Runs a child and kills it some milliseconds after its first rows are on disk; resolves to how many were, for certain. */
async function killed({ child, lines }: Awaited<ReturnType<Awaited<ReturnType<typeof place>>['start']>>) {
  let flushed = 0;
  for await (const line of lines) {
    if (flushed === 0) setTimeout(() => child.kill('SIGKILL'), 20 + Math.random() * 250);
    flushed = Number(line);
  }
  return flushed;
}

/** A write that was under way is rarely caught half done: adds what it would have left behind. */
async function tear(directory: string): Promise<void> {
  const open = (await readdir(directory)).filter((file) => file.endsWith('.open'));
  for (const file of open) await appendFile(join(directory, file), '{"id":"torn');
}

test('whatever the journal had flushed before kill -9 is stored exactly once', async (t) => {
  const { directory, sink, start } = await place(t);
  const flushed: number[] = [];
  for (let run = 0; run < kills; run += 1) {
    flushed.push(await killed(start(run, rowsPerRun)));
    await tear(directory);
  }
  sink.steady = true;
  const { lines } = start(kills, 0);
  const said: string[] = [];
  for await (const line of lines) said.push(line);
  assert.deepEqual(said, ['settled']);

  const stored = new Set(sink.ids);
  assert.equal(stored.size, sink.ids.length, 'rows were stored twice');
  assert.equal(sink.refused, 0, 'torn rows were posted');
  for (const [run, rows] of flushed.entries()) {
    assert.ok(rows > 0);
    for (let n = 0; n < rows; n += 1)
      assert.ok(stored.has(`${run}-${n}`), `row ${n} of run ${run} (${rows}) is lost`);
  }
});
