import type { Redis, RedisOptions } from 'ioredis';
import type { EncodedCommand, RedisReply } from './encoded-command.ts';
import { isIP } from 'node:net';

/** Milliseconds that connecting to a server, and its greeting, may take. */
export const handshakeMs = 2000;
const longestBackOffMs = 2000;

/** How every connection reaches its server: tried again for ever, pausing 50 ms to 2 s. */
export function serverOptions({ host, port, database, username, password, tls }: RedisAddress): RedisOptions {
  return {
    host,
    port,
    db: database,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    // A server's name goes with the handshake; an address must not.
    ...(tls ? { tls: isIP(host) === 0 ? { servername: host } : {} } : {}),
    connectionName: 'weir',
    disableClientInfo: true,
    retryStrategy: (attempt) => Math.min(longestBackOffMs, 50 * 2 ** Math.min(attempt - 1, 10)),
    connectTimeout: handshakeMs,
    disconnectTimeout: 100,
    keepAlive: 30_000,
  };
}

/** Milliseconds in which a server has to answer a call, unless the configuration says otherwise. */
export const defaultBudgetMs = 50;

/** How one call is made. */
export interface RedisCallOptions {
  /** Milliseconds until the call is given up. Default: those of the connection. */
  readonly budgetMs?: number;
  /** Send it also to a server that is slow: nobody waits for the answer. Default false. */
  readonly unhurried?: boolean;
}

/** What is made of an answer, or of none. */
export interface ReplyHandling<Result> extends RedisCallOptions {
  read(reply: RedisReply): Result;
  /** When there is none in time. */
  without(error: Error): Result | Promise<Result>;
  /** Gets the answer to a call that was given up before. */
  readonly late?: (reply: RedisReply) => void;
}

/** One connection to one server, shared by all who use that server. */
export interface RedisConnection {
  /** False while a call would fail at once: not connected, or not answering in time. */
  readonly available: boolean;
  /**
   * The number of the connection; undefined without one. Commands that were under way on an earlier one may have been done, or not.
   */
  readonly session: number | undefined;
  /** Milliseconds that a call waits for its answer when it says nothing else. */
  readonly budgetMs: number;
  /** Sends at once, or rejects at once; rejects when there is no answer in time. Nothing is ever sent twice. */
  call<Reply>(send: (client: Redis) => Promise<Reply>, options?: RedisCallOptions): Promise<Reply>;
  /**
   * The same for one command that is encoded already: for those of which every request needs some. Resolves with what
   * the handling makes of the answer, or of the want of one; rejects only as that does.
   */
  send<Result>(command: EncodedCommand, handling: ReplyHandling<Result>): Promise<Result>;
  /** Resolves when the server answers in time; rejects with the reason otherwise. */
  ping(): Promise<void>;
  /** Ends the connection for good. */
  close(): Promise<void>;
}

/** Where a Redis server is and how to get in. Holds a secret: log only `label`. */
export interface RedisAddress {
  /** The address without its credentials, for logs and errors. */
  readonly label: string;
  readonly host: string;
  readonly port: number;
  readonly database: number;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly tls: boolean;
}

/**
 * Reads `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or `rediss://` for TLS; port 6379 and database 0 when none
 * is named. Throws an Error that says what is wrong and never repeats the address, which may hold a password.
 */
export function parseRedisUrl(url: string): RedisAddress {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || !/^rediss?:$/.test(parsed.protocol) || parsed.hostname === '')
    throw refused('it is no address');
  if (parsed.search !== '' || parsed.hash !== '')
    throw refused('nothing may follow the database; write a "?" or "#" in a password as %3F or %23');
  const [, database = '0'] = /^\/?(\d{1,5})?$/.exec(parsed.pathname) ?? [undefined, undefined];
  if (!/^\/?(\d{1,5})?$/.test(parsed.pathname)) throw refused('the database behind the port is a number');
  const { protocol, hostname } = parsed;
  const port = parsed.port === '' ? 6379 : Number(parsed.port);
  return {
    label: `${protocol}//${hostname}:${port}/${database}`,
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port,
    database: Number(database),
    username: decode(parsed.username),
    password: decode(parsed.password),
    tls: protocol === 'rediss:',
  };
}

function decode(part: string): string | undefined {
  if (part === '') return undefined;
  try {
    return decodeURIComponent(part);
  } catch {
    throw refused('a "%" in the name or password must be written as %25');
  }
}

function refused(reason: string): Error {
  return new Error(
    `The address of a Redis server cannot be used: ${reason}. Write redis://USER:PASSWORD@HOST:6379/0 (rediss:// for TLS) in storage.counters.url and storage.cache.url.`,
  );
}
