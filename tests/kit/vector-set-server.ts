/** The part of a Redis 8 server that keeps vector sets, with the replies of its documentation; everything in memory. */
import { once } from 'node:events';
import net, { type AddressInfo, type Socket } from 'node:net';
import type { TestContext } from 'node:test';

interface VectorSet {
  readonly vectors: Map<string, Float32Array>;
  expiresInMs: number | undefined;
}

/** The server, and what it was told. */
interface VectorSetServer {
  readonly url: string;
  readonly sets: ReadonlyMap<string, VectorSet>;
  /** Names of commands in the order in which they were carried out. */
  readonly commands: readonly string[];
}

/** Starts it; it ends with the test. */
export async function startVectorSets(t: TestContext): Promise<VectorSetServer> {
  const sets = new Map<string, VectorSet>();
  const commands: string[] = [];
  const open = new Set<Socket>();
  const server = net.createServer((socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    let held = Buffer.alloc(0);
    let queued: Buffer[][] | undefined;
    socket.on('data', (chunk) => {
      held = Buffer.concat([held, chunk]);
      for (let read = readCommand(held); read !== undefined; read = readCommand(held)) {
        held = held.subarray(read.end);
        const name = String(read.words[0]).toUpperCase();
        if (name === 'MULTI') {
          queued = [];
          socket.write('+OK\r\n');
        } else if (name === 'EXEC') {
          socket.write(list((queued ?? []).map((words) => carryOut(sets, commands, words))));
          queued = undefined;
        } else if (queued !== undefined) {
          queued.push(read.words);
          socket.write('+QUEUED\r\n');
        } else {
          socket.write(carryOut(sets, commands, read.words));
        }
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return { url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`, sets, commands };
}

/** `*2\r\n$4\r\nPING\r\n…`: one command, when all of it has come. */
function readCommand(bytes: Buffer): { words: Buffer[]; end: number } | undefined {
  const line = (from: number): [number, number] | undefined => {
    const end = bytes.indexOf('\r\n', from);
    return end === -1 ? undefined : [Number(bytes.toString('latin1', from + 1, end)), end + 2];
  };
  const head = line(0);
  if (head === undefined) return undefined;
  const words: Buffer[] = [];
  let [count, at] = head;
  for (; count > 0; count--) {
    const length = line(at);
    if (length === undefined || bytes.length < length[1] + length[0] + 2) return undefined;
    words.push(bytes.subarray(length[1], length[1] + length[0]));
    at = length[1] + length[0] + 2;
  }
  return { words, end: at };
}

function carryOut(sets: Map<string, VectorSet>, commands: string[], words: readonly Buffer[]): string {
  const [command = '', key = '', ...rest] = words.map((word) => word.toString());
  const name = command.toUpperCase();
  commands.push(name);
  const set = sets.get(key);
  switch (name) {
    case 'INFO':
      return text('redis_version:8.0.0\r\nloading:0\r\n');
    case 'PING':
      return '+PONG\r\n';
    case 'COMMAND':
      return list([list([text('vadd'), number(-5)])]);
    case 'VADD': {
      const vector = numbersOf(words[3] as Buffer);
      const all = set ?? { vectors: new Map<string, Float32Array>(), expiresInMs: undefined };
      const [first] = all.vectors.values();
      if (first !== undefined && first.length !== vector.length)
        return `-ERR Vector dimension mismatch - got ${vector.length} but set has ${first.length}\r\n`;
      const isNew = !all.vectors.has(rest[2] as string);
      all.vectors.set(rest[2] as string, vector);
      sets.set(key, all);
      return number(isNew ? 1 : 0);
    }
    case 'VSIM': {
      const asked = numbersOf(words[3] as Buffer);
      const scores = [...(set?.vectors ?? [])].map(
        ([id, vector]) => [id, (1 + cosine(asked, vector)) / 2] as const,
      );
      const best = scores.sort((one, other) => other[1] - one[1]).slice(0, Number(rest[4]));
      return list(best.flatMap(([id, score]) => [text(id), text(String(score))]));
    }
    case 'VREM': {
      const had = set?.vectors.delete(rest[0] as string) ?? false;
      if (set?.vectors.size === 0) sets.delete(key);
      return number(had ? 1 : 0);
    }
    case 'VCARD':
      return number(set?.vectors.size ?? 0);
    case 'VRANDMEMBER':
      return list([...(set?.vectors.keys() ?? [])].slice(0, Number(rest[0])).map(text));
    case 'PEXPIRE': {
      if (set === undefined) return number(0);
      const ms = Number(rest[0]);
      // A key without an end lives longest.
      const changes = rest[1] === 'NX' ? set.expiresInMs === undefined : ms > (set.expiresInMs ?? Infinity);
      if (changes) set.expiresInMs = ms;
      return number(changes ? 1 : 0);
    }
    default:
      return '+OK\r\n';
  }
}

function numbersOf(blob: Buffer): Float32Array {
  return Float32Array.from({ length: blob.length / 4 }, (_, at) => blob.readFloatLE(4 * at));
}

function cosine(a: Float32Array, b: Float32Array): number {
  const dot = (x: Float32Array, y: Float32Array): number =>
    x.reduce((sum, value, at) => sum + value * (y[at] ?? 0), 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

const text = (value: string): string => `$${Buffer.byteLength(value)}\r\n${value}\r\n`;
const number = (value: number): string => `:${value}\r\n`;
const list = (items: readonly string[]): string => `*${items.length}\r\n${items.join('')}`;
