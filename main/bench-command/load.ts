import net from 'node:net';

/** Common body of the requests of both benches: a chat question of 310 bytes. */
export const question = {
  model: 'gpt-4o-mini',
  messages: [
    { role: 'system', content: 'You are a careful hydrologist who answers in short sentences.' },
    { role: 'user', content: 'What does a weir do, and how is the flow over it measured? Name the formula.' },
  ],
  temperature: 0.2,
  max_completion_tokens: 200,
};

/** A whole HTTP request as bytes. `headers`: lines such as `x-service-provider: openai`. */
export function post(port: number, path: string, headers: readonly string[], body: string): Buffer {
  const head = [
    `POST ${path} HTTP/1.1`,
    `host: 127.0.0.1:${port}`,
    ...headers,
    'content-type: application/json',
    'user-agent: weir-bench/1',
    'accept: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
}

/** Result of one burst of load. */
export interface LoadResult {
  readonly completed: number;
  readonly failed: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Start of the first answer that was not 200, or why there was none. */
  readonly firstFailure: string | undefined;
}

const headEnd = Buffer.from('\r\n\r\n');
const lastChunk = Buffer.from('\r\n0\r\n\r\n');

/** Called for a free connection: `send` the next request now or later, or `stop` when there is none left. */
interface Turns {
  next(send: () => void, stop: () => void): void;
  /** No connection is left. */
  end(): void;
}

/** The bytes of a request, or of the n-th one where each has to be another. */
export type RequestSource = Buffer | ((n: number) => Buffer);

/** A number of requests, or a time in which requests begin. */
type Amount = number | { readonly seconds: number };

interface Pace {
  /** Undefined: as fast as they are answered. */
  readonly perSecond?: number | undefined;
  /** Cuts what is still open; that counts as failed. */
  readonly signal?: AbortSignal;
}

/**
 * Sends requests over `connections` kept-alive connections, one at a time on each: as fast as they are answered, or
 * so many a second, evenly over time (`pace`). Loopback only.
 */
export async function load(
  port: number,
  request: RequestSource,
  amount: Amount,
  connections: number,
  pace: number | Pace = {},
): Promise<LoadResult> {
  const { perSecond, signal }: Pace = typeof pace === 'number' ? { perSecond: pace } : pace;
  const latencies: number[] = [];
  let failed = 0;
  let sent = 0;
  let firstFailure: string | undefined;
  const next = (): Buffer => (typeof request === 'function' ? request(sent++) : request);
  const begin = performance.now();
  const turns = perSecond === undefined ? atOnce(amount) : paced(amount, perSecond);
  const done: Done = (failure, ms) => {
    latencies.push(ms);
    if (failure === undefined) return;
    failed++;
    firstFailure ??= failure;
  };
  const sockets = new Set<net.Socket>();
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  signal?.addEventListener('abort', cut);
  await Promise.all(
    Array.from({ length: connections }, () => client({ port, next, turns, done, sockets, signal })),
  );
  signal?.removeEventListener('abort', cut);
  turns.end();
  latencies.sort((a, b) => a - b);
  const at = (share: number): number =>
    latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? 0;
  return {
    completed: latencies.length - failed,
    failed,
    seconds: (performance.now() - begin) / 1000,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    firstFailure,
  };
}

function atOnce(amount: Amount): Turns {
  const mayStart = starts(amount);
  return { next: (send, stop) => (mayStart() ? send() : stop()), end: () => undefined };
}

/** Tells whether another request may begin, and counts it. */
function starts(amount: Amount): () => boolean {
  if (typeof amount === 'number') {
    let started = 0;
    return () => started++ < amount;
  }
  const end = performance.now() + amount.seconds * 1000;
  return () => performance.now() < end;
}

/** Every millisecond sends the requests that are due; with all connections busy the rest is late, but none is left out. */
function paced(amount: Amount, perSecond: number): Turns {
  const begin = performance.now();
  const total = typeof amount === 'number' ? amount : Math.ceil(amount.seconds * perSecond);
  const endMs = typeof amount === 'number' ? Infinity : amount.seconds * 1000;
  const waiting: { send: () => void; stop: () => void }[] = [];
  let started = 0;
  const isOver = (): boolean => started >= total || performance.now() - begin >= endMs;
  const timer = setInterval(() => {
    const due = Math.min(total, ((performance.now() - begin) / 1000) * perSecond);
    while (started < due && waiting.length > 0) {
      started++;
      waiting.shift()?.send();
    }
    if (!isOver()) return;
    clearInterval(timer);
    for (const { stop } of waiting.splice(0)) stop();
  }, 1);
  return {
    next(send, stop) {
      if (isOver()) stop();
      else waiting.push({ send, stop });
    },
    end: () => clearInterval(timer),
  };
}

/** Called after each request; `failure` is undefined when the answer was 200 and whole. */
type Done = (failure: string | undefined, ms: number) => void;

interface Client {
  readonly port: number;
  readonly next: () => Buffer;
  readonly turns: Turns;
  readonly done: Done;
  /** Open connections. */
  readonly sockets: Set<net.Socket>;
  readonly signal: AbortSignal | undefined;
}

function client({ port, next, turns, done, sockets, signal }: Client): Promise<void> {
  return new Promise((resolve) => {
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true });
    let received: Buffer[] = [];
    let sentAt = 0;
    let open = false;
    sockets.add(socket);
    if (signal?.aborted === true) socket.destroy();
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
    socket.on('connect', () => turns.next(send, stop));
    socket.on('data', (chunk) => {
      received.push(chunk);
      const ok = complete(received);
      if (ok === undefined) return;
      open = false;
      done(ok ? undefined : startOf(received), performance.now() - sentAt);
      turns.next(send, stop);
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      sockets.delete(socket);
      const how = signal?.aborted === true ? 'it took too long' : 'the connection was closed';
      if (open) done(`${how} before the answer was whole`, performance.now() - sentAt);
      resolve();
    });
  });
}

/** Sends one request on a new connection; resolves to the bytes of its answer, or rejects with the reason. */
export function ask(port: number, request: Buffer, ms: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ port, host: '127.0.0.1' });
    const received: Buffer[] = [];
    const end = (failure?: string): void => {
      clearTimeout(timer);
      socket.destroy();
      if (failure === undefined) resolve(Buffer.concat(received).toString());
      else reject(new Error(failure));
    };
    const timer = setTimeout(() => end(`no answer within ${ms / 1000} s`), ms);
    socket.on('connect', () => socket.write(request));
    socket.on('data', (chunk) => {
      received.push(chunk);
      if (complete(received) !== undefined) end();
    });
    socket.on('error', (error) => end(error.message));
    socket.on('close', () => end('the connection was closed before the answer was whole'));
  });
}

const mostShown = 4096;

function startOf(received: readonly Buffer[]): string {
  return Buffer.concat(received).toString('utf8', 0, mostShown);
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
