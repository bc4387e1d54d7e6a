import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { freePort } from './free-port.ts';

/** The protocol's own reference server, in a process of its own on a free port. */
export interface ReferenceMcpServer {
  /** `127.0.0.1:PORT`. */
  readonly host: string;
  /** Where it speaks the transport that it was started with. */
  readonly url: string;
  /** Everything that it has written so far. */
  output(): string;
  /** Ends it, and waits until it has ended. */
  stop(): Promise<void>;
}

/** It listens on every address unless it is told otherwise, and has no setting for that. */
const onLoopback = `data:text/javascript,${encodeURIComponent(`
  import { Server } from 'node:net';
  const listen = Server.prototype.listen;
  Server.prototype.listen = function (port, ...rest) {
    return listen.call(this, port, '127.0.0.1', ...rest.filter((part) => typeof part === 'function'));
  };
`)}`;
const program = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'));
const alive = new Set<ChildProcess>();
// A test runner that dies must not leave servers behind.
process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
});

/** Starts it and waits until it listens. Fails with its output when it ends before that. */
export async function startReferenceMcpServer(transport: 'http' | 'sse'): Promise<ReferenceMcpServer> {
  const port = await freePort();
  // Of the environment only what it needs: one of its tools shows it.
  const env = { PATH: process.env['PATH'], PORT: String(port) };
  const mode = transport === 'http' ? 'streamableHttp' : 'sse';
  const child = spawn(process.execPath, ['--import', onLoopback, program, mode], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  alive.add(child);
  let output = '';
  const ended = once(child, 'close').then(() => alive.delete(child));
  const listens = new Promise<void>((resolve) => {
    const take = (text: string): void => {
      output += text;
      if (/(listening|running) on port \d+/.test(output)) resolve();
    };
    child.stdout.setEncoding('utf8').on('data', take);
    child.stderr.setEncoding('utf8').on('data', take);
  });
  const first = await Promise.race([listens, ended.then(() => 'ended')]);
  if (first === 'ended') throw new Error(`The reference server ended before it listened:\n${output}`);
  const host = `127.0.0.1:${port}`;
  return {
    host,
    url: `http://${host}/${transport === 'http' ? 'mcp' : 'sse'}`,
    output: () => output,
    async stop() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
