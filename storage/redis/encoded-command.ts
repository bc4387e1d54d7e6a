import type { Command, Redis } from 'ioredis';
import type { Writable } from 'node:stream';
import type { TimedCall } from './timed-calls.ts';

/** A command in the form in which it travels, put together by whoever sends it often. */
export interface EncodedCommand {
  /** In lower case: ioredis looks up by it what is special about a command. */
  readonly name: string;
  /** See `encodeParts`. */
  readonly bytes: string | Buffer;
  /** What goes before them, and is the same for many commands: it is sent as it is, and never copied. */
  readonly head?: Buffer;
  /** What to send in its place when the server has answered with this error. */
  instead?(error: Error): EncodedCommand | undefined;
}

/** What a server answers, as ioredis reads it: texts of any kind are buffers. */
export type RedisReply = Buffer | number | null | RedisReply[];

/**
 * Parts of a command as they travel: `$4\r\nPING\r\n` for each, behind the `encodeCount` of all of them. Source: the
 * Redis serialization protocol, "Sending commands to a Redis server".
 */
export function encodeParts(parts: readonly (string | number)[]): string {
  let text = '';
  for (const part of parts) {
    const value = String(part);
    const bytes = typeof part === 'number' ? value.length : Buffer.byteLength(value);
    text += `$${bytes}\r\n${value}\r\n`;
  }
  return text;
}

/** The beginning of a command of so many parts, its name included. */
export function encodeCount(count: number): string {
  return `*${count}\r\n`;
}

/** Sends it over the client's connection, in its turn among all commands; the call gets the answer. */
export function sendEncoded(client: Redis, command: EncodedCommand, call: TimedCall<RedisReply>): void {
  const sender: Sender = client;
  sender.sendCommand(new Sent(client, command, call));
}

/** What ioredis uses of a command that it is to send (its own type asks for its own class). */
interface Sendable extends Pick<Command, 'name' | 'inTransaction' | 'isTraced' | 'resolve' | 'reject'> {
  readonly args: readonly unknown[];
  readonly promise: unknown;
  toWritable(socket: Pick<Writable, 'write'>): string | Buffer;
}

interface Sender {
  sendCommand(command: Sendable): unknown;
}

/**
 * All that ioredis asks of a command once it is there. Its own class takes arguments apart, puts them together again one
 * by one, and makes two promises and four functions for each command, which costs more than sending it.
 */
class Sent implements Sendable {
  readonly name: string;
  /** For errors and debug output, which the values of a cache have no place in. */
  readonly args: readonly string[] = [];
  /** ioredis publishes what it sends to diagnostics channels unless it has done so. */
  readonly isTraced = true;
  readonly inTransaction = false;
  readonly promise = undefined;
  readonly #client: Redis;
  readonly #command: EncodedCommand;
  readonly #call: TimedCall<RedisReply>;

  constructor(client: Redis, command: EncodedCommand, call: TimedCall<RedisReply>) {
    this.name = command.name;
    this.#client = client;
    this.#command = command;
    this.#call = call;
  }

  toWritable(socket: Pick<Writable, 'write'>): string | Buffer {
    const { head, bytes } = this.#command;
    if (head === undefined) return bytes;
    if (bytes.length === 0) return head;
    // What ioredis writes goes right behind it.
    socket.write(head);
    return bytes;
  }

  resolve(reply: RedisReply): void {
    this.#call.answer(reply);
  }

  reject(error: Error): void {
    const next = isReplyError(error) ? this.#command.instead?.(error) : undefined;
    if (next === undefined) this.#call.fail(error);
    else sendEncoded(this.#client, next, this.#call);
  }
}

/** True for an error that the server itself answered with (`OOM …`, `NOPERM …`), false for one of the connection. */
export function isReplyError(thrown: unknown): thrown is Error {
  return thrown instanceof Error && thrown.name === 'ReplyError';
}
