import net from 'node:net';

/** Result of one burst of load. */
export interface LoadResult {
  readonly completed: number;
  readonly failed: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const headEnd = Buffer.from('\r\n\r\n');
const lastChunk = Buffer.from('\r\n0\r\n\r\n');

/** Called for a free connection: `send` the next request now or later, or `stop` when there is none left. */
type Turn = (send: () => void, stop: () => void) => void;

/** The bytes of a request, or of the n-th one where each has to be another. */
export type RequestSource = Buffer | ((n: number) => Buffer);

/**
 * Sends `total` requests over `connections` kept-alive connections, one at a time on each: as fast as they
 * are answered, or `perSecond` of them evenly over time. Loopback only.
 */
export async function load(
  port: number,
  request: RequestSource,
  total: number,
  connections: number,
  perSecond?: number,
): Promise<LoadResult> {
  const latencies: number[] = [];
  let failed = 0;
  let sent = 0;
  const next = (): Buffer => (typeof request === 'function' ? request(sent++) : request);
  const begin = performance.now();
  const turn = perSecond === undefined ? atOnce(total) : paced(total, perSecond);
  await Promise.all(
    Array.from({ length: connections }, () =>
      client(port, next, turn, (ok, ms) => {
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

function atOnce(total: number): Turn {
  let started = 0;
  return (send, stop) => (started++ < total ? send() : stop());
}

/** Every millisecond sends the requests that are due; with all connections busy the rest is late, but none is left out. */
function paced(total: number, perSecond: number): Turn {
  const begin = performance.now();
  const waiting: { send: () => void; stop: () => void }[] = [];
  let started = 0;
  const timer = setInterval(() => {
    const due = Math.min(total, ((performance.now() - begin) / 1000) * perSecond);
    while (started < due && waiting.length > 0) {
      started++;
      waiting.shift()?.send();
    }
    if (started < total) return;
    clearInterval(timer);
    for (const { stop } of waiting.splice(0)) stop();
  }, 1);
  return (send, stop) => {
    if (started < total) waiting.push({ send, stop });
    else stop();
  };
}

function client(
  port: number,
  next: () => Buffer,
  turn: Turn,
  done: (ok: boolean, ms: number) => void,
): Promise<void> {
  return new Promise((resolve) => {
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true });
    let received: Buffer[] = [];
    let sentAt = 0;
    let open = false;
    const stop = (): void => {
      socket.end();
      resolve();
    };
    const send = (): void => {
      received = [];
      sentAt = performance.now();
      open = true;
      socket.write(next());
    };
    socket.on('connect', () => turn(send, stop));
    socket.on('data', (chunk) => {
      received.push(chunk);
      const ok = complete(received);
      if (ok === undefined) return;
      open = false;
      done(ok, performance.now() - sentAt);
      turn(send, stop);
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
