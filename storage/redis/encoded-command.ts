import type { Cluster, Command, Redis } from 'ioredis';
import type { Writable } from 'node:stream';
import { atTurnEnd, type Waiting } from '../../core/base/turns.ts';
import type { TimedCall } from './timed-calls.ts';

/** Encodes and sends commands. */
export const encodedCommands = {
  parts: encodeParts,
  count: encodeCount,
  send: sendEncoded,
  isReplyError,
  batchWrites,
  slotOfKey,
  slotOf: slotOfCommand,
};

/** A client of one server or of a cluster. */
export type RedisClient = Redis | Cluster;

/** A frequent command in wire form, encoded by its sender. */
export interface EncodedCommand {
  /** In lower case: ioredis looks up properties of a command by it. */
  readonly name: string;
  /** See `encodeParts`. */
  readonly bytes: string | Buffer;
  /** Prefix shared by many commands: it is sent unchanged, and never copied. */
  readonly head?: Buffer;
  /** Replacement command after this error of the server. */
  instead?(error: Error): EncodedCommand | undefined;
}

/** An answer of the server in the form of ioredis: texts of any kind are buffers. */
export type RedisReply = Buffer | number | null | RedisReply[];

/**
 * Parts of a command in wire form: `$4\r\nPING\r\n` for each, preceded by the `encodeCount` of all of them. Source: the
 * Redis serialization protocol, "Sending commands to a Redis server".
 */
function encodeParts(parts: readonly (string | number)[]): string {
  let text = '';
  for (const part of parts) {
    const value = String(part);
    const bytes = typeof part === 'number' ? value.length : Buffer.byteLength(value);
    text += `$${bytes}\r\n${value}\r\n`;
  }
  return text;
}

/** The header of a command with this number of parts, its name included. */
function encodeCount(count: number): string {
  return `*${count}\r\n`;
}

/**
 * Sends a command over the client's connection, in order with all others; `call` gets the answer. A cluster's client
 * needs the slot of its keys, and follows redirections: a server that redirects a command has not run it.
 */
function sendEncoded(
  client: RedisClient,
  command: EncodedCommand,
  call: TimedCall<RedisReply>,
  slot?: number,
): void {
  const sender: Sender = client;
  sender.sendCommand(new Sent(client, command, call, slot));
}

/** Members of a command that ioredis uses to send it (its own type requires its own class). */
interface Sendable extends Pick<Command, 'name' | 'inTransaction' | 'isTraced' | 'resolve' | 'reject'> {
  readonly args: readonly unknown[];
  readonly promise: unknown;
  /** Asked by the client of a cluster. */
  getSlot(): number | null;
  toWritable(socket: Pick<Writable, 'write'>): string | Buffer;
}

interface Sender {
  sendCommand(command: Sendable): unknown;
}

/**
 * All members that ioredis reads from a sent command. Its own class splits arguments and joins them again one by one,
 * and creates two promises and four functions per command, which costs more than sending it.
 */
class Sent implements Sendable {
  readonly name: string;
  /** For errors and debug output, which must not show the values of a cache. */
  readonly args: readonly string[] = [];
  /** ioredis publishes commands to diagnostics channels unless this is set. */
  readonly isTraced = true;
  readonly inTransaction = false;
  readonly promise = undefined;
  readonly #client: RedisClient;
  readonly #command: EncodedCommand;
  readonly #call: TimedCall<RedisReply>;
  readonly #slot: number | undefined;

  constructor(
    client: RedisClient,
    command: EncodedCommand,
    call: TimedCall<RedisReply>,
    slot: number | undefined,
  ) {
    this.name = command.name;
    this.#client = client;
    this.#command = command;
    this.#call = call;
    this.#slot = slot;
  }

  getSlot(): number | null {
    return this.#slot ?? null;
  }

  toWritable(socket: Pick<Writable, 'write'>): string | Buffer {
    const { head, bytes } = this.#command;
    if (head === undefined) return bytes;
    if (bytes.length === 0) return head;
    // ioredis writes its part right after it.
    socket.write(head);
    return bytes;
  }

  resolve(reply: RedisReply): void {
    this.#call.answer(reply);
  }

  reject(error: Error): void {
    const next = isReplyError(error) ? this.#command.instead?.(error) : undefined;
    if (next === undefined) this.#call.fail(error);
    else sendEncoded(this.#client, next, this.#call, this.#slot);
  }
}

/** True for an error reply of the server (`OOM …`, `NOPERM …`), false for an error of the connection. */
function isReplyError(thrown: unknown): thrown is Error {
  return thrown instanceof Error && thrown.name === 'ReplyError';
}

/** Bytes that are allocated at once. */
const slabBytes = 65_536;
/** Longer parts are written as they are: copying them costs more than a write. */
const longestCopy = 16_384;

/**
 * Makes a client send the commands of one turn of the event loop in one write, and so get their answers in one read.
 * Streams take each write through a queue of their own, which costs more than the command. (ioredis has pipelines, with
 * a promise and two callbacks per command, which cost more as well.) Returns the client.
 */
function batchWrites(client: Redis): Redis {
  let batch: Batch | undefined;
  const base = Object.getPrototypeOf(client) as Sender;
  client.sendCommand = (command, stream) => {
    // Transactions collect their commands themselves, and the handshake of a connection waits for each answer.
    if (stream !== undefined || client.status !== 'ready') {
      batch?.send();
      return base.sendCommand.call(client, command, stream);
    }
    if (batch?.socket !== client.stream) batch = new Batch(client.stream);
    return base.sendCommand.call(client, command, batch);
  };
  return client;
}

interface Sender {
  sendCommand(command: Command, stream?: Written): unknown;
}

/** ioredis only writes to it. */
interface Written {
  write(part: string | Buffer): unknown;
}

/** Unsent bytes of one connection, in their order. */
class Batch implements Waiting, Written {
  readonly socket: Writable;
  #slab = Buffer.allocUnsafeSlow(slabBytes);
  #from = 0;
  #to = 0;
  #isWaiting = false;

  constructor(socket: Writable) {
    this.socket = socket;
  }

  /** Called by ioredis with each part of a command. */
  write(part: string | Buffer): void {
    const isText = typeof part === 'string';
    const most = isText ? part.length * 3 : part.length;
    if (this.#to + most > slabBytes) {
      this.send();
      if (most > longestCopy) return void this.socket.write(part);
      this.#slab = Buffer.allocUnsafeSlow(slabBytes);
      this.#from = this.#to = 0;
    }
    this.#to += isText ? this.#slab.write(part, this.#to) : part.copy(this.#slab, this.#to);
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    atTurnEnd(this);
  }

  run(): void {
    this.#isWaiting = false;
    this.send();
  }

  send(): void {
    if (this.#from === this.#to) return;
    const part = this.#slab.subarray(this.#from, this.#to);
    this.#from = this.#to;
    // The commands of a closed connection fail with it.
    if (this.socket.writable) this.socket.write(part);
  }
}

/** CRC-16 of each byte: XMODEM, polynomial 0x1021. Source: the Redis cluster specification, "Key distribution model". */
const table = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc;
});
const slots = 16_384;
const [open, close, carriageReturn, lineFeed, zero] = [0x7b, 0x7d, 0x0d, 0x0a, 0x30];

/** The slot of a key in a cluster: that of its first part in braces, or of all of it. */
function slotOfKey(key: Buffer | string): number {
  const bytes = typeof key === 'string' ? Buffer.from(key) : key;
  const start = bytes.indexOf(open);
  const end = start < 0 ? -1 : bytes.indexOf(close, start + 1);
  return end > start + 1 ? slotOf(bytes, start + 1, end) : slotOf(bytes, 0, bytes.length);
}

function slotOf(bytes: Buffer, from: number, to: number): number {
  let crc = 0;
  for (let at = from; at < to; at++)
    crc = ((crc << 8) & 0xffff) ^ (table[(crc >> 8) ^ (bytes[at] as number)] as number);
  return crc % slots;
}

/** Commands of one limit share their constant part, and its keys. */
const slotsOfHeads = new WeakMap<Buffer, number>();

/** The slot of a command's keys, all of which are in one: the second part, or the fourth of a script's call. */
function slotOfCommand({ name, head, bytes }: EncodedCommand): number {
  const position = name === 'evalsha' || name === 'eval' ? 3 : 1;
  if (head === undefined)
    return slotOfKey(partAt(Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes), position));
  let slot = slotsOfHeads.get(head);
  if (slot === undefined) slotsOfHeads.set(head, (slot = slotOfKey(partAt(head, position))));
  return slot;
}

/** A part of a command in wire form; empty when it has fewer. */
function partAt(bytes: Buffer, position: number): Buffer {
  let at = bytes.indexOf(lineFeed) + 1;
  for (let index = 0; at < bytes.length; index++) {
    let length = 0;
    for (at++; (bytes[at] ?? carriageReturn) !== carriageReturn; at++)
      length = length * 10 + (bytes[at] as number) - zero;
    at += 2;
    if (index === position) return bytes.subarray(at, at + length);
    at += length + 2;
  }
  return bytes.subarray(bytes.length);
}
