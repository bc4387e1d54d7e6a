import net from 'node:net';

/** What one burst of load came to. */
export interface LoadResult {
  readonly completed: number;
  readonly failed: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const headEnd = Buffer.from('\r\n\r\n');
const lastChunk = Buffer.from('\r\n0\r\n\r\n');

/** Sends `total` copies of a request over `connections` kept-alive connections, one at a time on each. Loopback only. */
export async function load(
  port: number,
  request: Buffer,
  total: number,
  connections: number,
): Promise<LoadResult> {
  const latencies: number[] = [];
  let started = 0;
  let failed = 0;
  const begin = performance.now();
  const next = (): boolean => started++ < total;
  await Promise.all(
    Array.from({ length: connections }, () =>
      client(port, request, next, (ok, ms) => {
        latencies.push(ms);
        if (!ok) failed++;
      }),
    ),
  );
  latencies.sort((a, b) => a - b);
  const at = (share: number): number =>
    latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? 0;
  return {
    completed: latencies.length - failed,
    failed,
    seconds: (performance.now() - begin) / 1000,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
  };
}

function client(
  port: number,
  request: Buffer,
  next: () => boolean,
  done: (ok: boolean, ms: number) => void,
): Promise<void> {
  return new Promise((resolve) => {
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true });
    let received: Buffer[] = [];
    let sentAt = 0;
    let open = false;
    const send = (): void => {
      if (!next()) {
        socket.end();
        resolve();
        return;
      }
      received = [];
      sentAt = performance.now();
      open = true;
      socket.write(request);
    };
    socket.on('connect', send);
    socket.on('data', (chunk) => {
      received.push(chunk);
      const ok = complete(received);
      if (ok === undefined) return;
      open = false;
      done(ok, performance.now() - sentAt);
      send();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      if (open) done(false, performance.now() - sentAt);
      resolve();
    });
  });
}

/** True or false (by status) once a whole answer is there, undefined before. */
function complete(received: Buffer[]): boolean | undefined {
  const first = received[0] as Buffer;
  const last = received[received.length - 1] as Buffer;
  const end = first.indexOf(headEnd);
  if (end === -1) {
    if (received.length > 1) received.splice(0, received.length, Buffer.concat(received));
    return undefined;
  }
  const head = first.toString('latin1', 0, end).toLowerCase();
  const length = /\r\ncontent-length: (\d+)/.exec(head)?.[1];
  if (length === undefined) {
    const tail = last.length >= lastChunk.length ? last : Buffer.concat(received.slice(-2));
    if (!tail.subarray(-lastChunk.length).equals(lastChunk)) return undefined;
  } else {
    let size = -(end + headEnd.length);
    for (const chunk of received) size += chunk.length;
    if (size < Number(length)) return undefined;
  }
  return head.startsWith('http/1.1 200');
}
