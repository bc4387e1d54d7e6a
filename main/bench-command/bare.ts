// The yardstick of `weir bench` and `npm run bench`: Node `http` + undici `Pool`, nothing else. Parses both bodies; forwards
// streams untouched.
import cluster from 'node:cluster';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { Pool } from 'undici';

/** Usage of this process so far. */
function ownUsage(): Usage {
  const { user, system } = process.cpuUsage();
  return { cpu_us: user + system, rss: process.memoryUsage.rss() };
}

interface Usage {
  readonly cpu_us: number;
  readonly rss: number;
}

/** In the parent: answers a worker with the usage of all processes. */
function shareUsage(): void {
  const usages = new Map<number, Usage>();
  cluster.on('message', (worker, usage: Usage) => {
    usages.set(worker.id, usage);
    const all = [ownUsage(), ...usages.values()];
    worker.send({
      cpu_us: all.reduce((sum, one) => sum + one.cpu_us, 0),
      rss: all.reduce((sum, one) => sum + one.rss, 0),
    });
  });
}

/** The usage of all processes; that of other workers is as old as their last question, at most 100 ms. */
function wholeUsage(): Promise<Usage> {
  if (!cluster.isWorker) return Promise.resolve(ownUsage());
  return new Promise((resolve) => {
    process.once('message', (usage) => resolve(usage as Usage));
    process.send?.(ownUsage());
  });
}

function forward(
  pool: Pool,
  body: Buffer,
  request: http.IncomingMessage,
  response: http.ServerResponse,
): void {
  const question = JSON.parse(body.toString()) as { stream?: boolean };
  const answer: Buffer[] = [];
  let head: { status: number; type: string } = { status: 502, type: '' };
  pool.dispatch(
    {
      path: request.url ?? '/',
      method: 'POST',
      headers: ['content-type', 'application/json', 'authorization', 'Bearer sk-bench'],
      body,
    },
    {
      onRequestStart() {},
      onResponseStart(_controller, status, headers) {
        head = { status, type: String(headers['content-type']) };
        if (question.stream) response.writeHead(status, ['content-type', head.type]);
      },
      onResponseData(_controller, chunk) {
        if (question.stream) response.write(chunk);
        else answer.push(chunk);
      },
      onResponseEnd() {
        if (question.stream) {
          response.end();
          return;
        }
        const whole = Buffer.concat(answer);
        JSON.parse(whole.toString());
        response.writeHead(head.status, ['content-type', head.type, 'content-length', String(whole.length)]);
        response.end(whole);
      },
      onResponseError(_controller, error) {
        response.destroy(error);
      },
    },
  );
}

/**
 * Serves on a free port of loopback in front of the upstream, with that many processes, and prints the port. `GET /cpu`
 * tells the usage so far, of all processes.
 */
export function serveBare(upstreamPort: number, processes = 1): void {
  const pool = new Pool(`http://127.0.0.1:${upstreamPort}`, { pipelining: 1 });
  const server = http.createServer((request, response) => {
    if (request.url === '/cpu') {
      void wholeUsage().then((usage) => response.end(JSON.stringify(usage)));
      return;
    }
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => forward(pool, Buffer.concat(parts), request, response));
  });
  server.keepAliveTimeout = 120_000;
  if (processes > 1 && cluster.isPrimary) {
    cluster.schedulingPolicy = cluster.SCHED_NONE;
    shareUsage();
    let listening = 0;
    cluster.on('listening', (_, { port }) => {
      listening += 1;
      if (listening === processes) console.log(`port ${port}`);
    });
    for (let one = 0; one < processes; one++) cluster.fork();
  } else {
    server.listen(0, '127.0.0.1', () => {
      if (!cluster.isWorker) console.log(`port ${(server.address() as AddressInfo).port}`);
    });
    if (cluster.isWorker) setInterval(() => void process.send?.(ownUsage()), 100);
  }
  process.on('disconnect', () => process.exit(0));
}
