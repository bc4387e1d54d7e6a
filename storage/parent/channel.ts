/** Calls between a worker and its parent over one socket. */
import type { Socket } from 'node:net';
import { deserialize, serialize } from 'node:v8';
import { atTurnEnd } from '../../core/base/turns.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';

/** Functions by name; arguments and results are values that a structured clone can hold. */
type Calls = Readonly<Record<string, (...args: never[]) => unknown>>;

/** The functions that this side offers, the channel that called first. */
export type Offered<C extends Calls> = {
  readonly [Name in keyof C]: (...args: Parameters<C[Name]>) => unknown;
};

/** The caller's side of functions on the other side. */
export interface Remote<C extends Calls> {
  /** Rejects with the error of the function, or with `store_unavailable` when the other process has gone. */
  call<N extends keyof C & string>(name: N, ...args: Parameters<C[N]>): Promise<Awaited<ReturnType<C[N]>>>;
  /**
   * The same, for an answer that must be taken before the next message is: `onAnswer` runs at once, in the order in
   * which the other side sent its answers and calls.
   */
  ask<N extends keyof C & string>(
    name: N,
    args: Parameters<C[N]>,
    onAnswer: (answer: Awaited<ReturnType<C[N]>>) => void,
    onError: (error: unknown) => void,
  ): void;
}

/** Kinds of messages. */
const called = 0;
const answered = 1;
const failed = 2;

/** A whole message: the largest cached value and the largest page of records fit with room to spare. */
const maxMessageBytes = 256 * 1024 * 1024;
const headBytes = 4;
/** Calls without an answer yet; more of them mean that the other side has stopped. */
const maxWaiting = 100_000;

interface Waiting {
  resolve(value: never): void;
  reject(error: unknown): void;
}

/** The members of an error that cross the channel. */
interface SentError {
  readonly message: string;
  /** Undefined for an error that is no `GatewayError`. */
  readonly gateway?: ConstructorParameters<typeof GatewayError>[0];
  readonly details?: { headers: readonly string[]; param: string | null; limit: string | undefined };
  readonly name: string;
}

/**
 * One end of the connection. Both ends offer functions and call those of the other one; any number of calls may be in
 * flight, and their messages of one turn of the event loop leave in one write.
 */
export class Channel<C extends Calls> implements Remote<C> {
  readonly #socket: Socket;
  readonly #offered: Calls;
  readonly #waiting = new Map<number, Waiting>();
  #next = 1;
  #isCorked = false;
  #unread: Buffer[] = [];
  #unreadBytes = 0;
  #isClosed = false;
  /** Resolves when the connection has ended. */
  readonly closed: Promise<void>;

  constructor(socket: Socket, offered: Calls) {
    this.#socket = socket;
    this.#offered = offered;
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    // The end follows, and is handled there.
    socket.on('error', () => undefined);
    this.closed = new Promise((resolve) =>
      socket.once('close', () => {
        this.#isClosed = true;
        for (const { reject } of this.#waiting.values()) reject(goneError());
        this.#waiting.clear();
        resolve();
      }),
    );
  }

  call<N extends keyof C & string>(name: N, ...args: Parameters<C[N]>): Promise<Awaited<ReturnType<C[N]>>> {
    return new Promise((resolve, reject) => this.ask(name, args, resolve, reject));
  }

  ask<N extends keyof C & string>(
    name: N,
    args: Parameters<C[N]>,
    resolve: (answer: Awaited<ReturnType<C[N]>>) => void,
    reject: (error: unknown) => void,
  ): void {
    if (this.#isClosed || this.#waiting.size >= maxWaiting) return reject(goneError());
    const id = this.#next++;
    // Throws for a value that cannot be sent: the promise rejects, and nothing waits.
    this.#send([called, id, name, args]);
    this.#waiting.set(id, { resolve, reject });
  }

  /** Ends the connection; calls without an answer fail. */
  close(): void {
    this.#socket.destroy();
  }

  #send(message: readonly unknown[]): void {
    if (this.#isClosed) return;
    const body = serialize(message);
    const head = Buffer.allocUnsafe(headBytes);
    head.writeUInt32LE(body.length);
    if (!this.#isCorked) {
      this.#isCorked = true;
      this.#socket.cork();
      atTurnEnd({
        run: () => {
          this.#isCorked = false;
          this.#socket.uncork();
        },
      });
    }
    this.#socket.write(head);
    this.#socket.write(body);
  }

  #read(chunk: Buffer): void {
    this.#unread.push(chunk);
    this.#unreadBytes += chunk.length;
    if (this.#unreadBytes < headBytes) return;
    let bytes = this.#unread.length === 1 ? chunk : this.#wholeOrNothing();
    if (bytes === undefined) return;
    while (bytes.length >= headBytes) {
      const end: number = headBytes + bytes.readUInt32LE(0);
      if (end > maxMessageBytes) return this.close();
      if (bytes.length < end) break;
      this.#take(deserialize(bytes.subarray(headBytes, end)));
      bytes = bytes.subarray(end);
    }
    this.#unread = bytes.length === 0 ? [] : [bytes];
    this.#unreadBytes = bytes.length;
  }

  /** The unread bytes as one buffer, once the first message is complete: a large one is joined once. */
  #wholeOrNothing(): Buffer | undefined {
    if ((this.#unread[0] as Buffer).length < headBytes) this.#unread = [Buffer.concat(this.#unread)];
    const wanted = headBytes + (this.#unread[0] as Buffer).readUInt32LE(0);
    if (wanted > maxMessageBytes) {
      this.close();
      return undefined;
    }
    return this.#unreadBytes < wanted ? undefined : Buffer.concat(this.#unread);
  }

  #take(message: unknown): void {
    const [kind, id, ...rest] = message as [number, number, ...unknown[]];
    if (kind === called) {
      return this.#answer(id, rest[0] as string, rest[1] as never[]);
    }
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (kind === answered) waiting?.resolve(rest[0] as never);
    else waiting?.reject(receivedError(rest[0] as SentError));
  }

  /** An answer that is there at once leaves before anything else that this side sends. */
  #answer(id: number, name: string, args: never[]): void {
    const fail = (error: unknown): void => this.#send([failed, id, sentError(error)]);
    const succeed = (result: unknown): void => {
      try {
        this.#send([answered, id, result]);
      } catch (error) {
        fail(error);
      }
    };
    try {
      const work = this.#offered[name];
      if (work === undefined) throw new Error(`The other process has no function ${name}.`);
      const result = work(...args);
      if (isThenable(result)) result.then(succeed, fail);
      else succeed(result);
    } catch (error) {
      fail(error);
    }
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

function goneError(): GatewayError {
  return new GatewayError('store_unavailable', 'Another process of the gateway has ended. Try again.');
}

function sentError(error: unknown): SentError {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) };
  const { name, message } = error;
  if (!GatewayError.is(error)) return { name, message };
  const { code, headers, param, limit } = error;
  return { name, message, gateway: code, details: { headers, param, limit } };
}

function receivedError({ name, message, gateway, details }: SentError): Error {
  if (gateway !== undefined) return new GatewayError(gateway, message, details);
  return Object.assign(new Error(message), { name });
}
