import type { Redis, RedisOptions } from 'ioredis';
import type { EncodedCommand, RedisReply } from './encoded-command.ts';
import { isIP } from 'node:net';

/** Timeout of connecting to a server and of its greeting, milliseconds. */
export const handshakeMs = 2000;
const longestBackOffMs = 2000;

/** Connection settings for a server: retried without limit, with delays of 50 ms to 2 s. */
export function serverOptions({ host, port, database, username, password, tls }: RedisAddress): RedisOptions {
  return {
    host,
    port,
    db: database,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    // A server's name is sent with the handshake; an address must not be.
    ...(tls ? { tls: isIP(host) === 0 ? { servername: host } : {} } : {}),
    connectionName: 'weir',
    disableClientInfo: true,
    retryStrategy: (attempt) => Math.min(longestBackOffMs, 50 * 2 ** Math.min(attempt - 1, 10)),
    connectTimeout: handshakeMs,
    disconnectTimeout: 100,
    keepAlive: 30_000,
  };
}

/** Default timeout of a call in milliseconds. */
export const defaultBudgetMs = 50;

/** Options of one call. */
export interface RedisCallOptions {
  /** Timeout of the call in milliseconds. Default: that of the connection. */
  readonly budgetMs?: number;
  /** True to send it also to a slow server: no caller waits for the answer. Default false. */
  readonly unhurried?: boolean;
}

/** Handling of an answer, or of its absence. */
export interface ReplyHandling<Result> extends RedisCallOptions {
  read(reply: RedisReply): Result;
  /** Called without an answer in time. */
  without(error: Error): Result | Promise<Result>;
  /** Gets the answer to a call that had timed out. */
  readonly late?: (reply: RedisReply) => void;
}

/** One connection to one server, shared by all users of that server. */
export interface RedisConnection {
  /** False while a call would fail at once: not connected, or not answering in time. */
  readonly available: boolean;
  /**
   * The number of the connection; undefined without one. Commands in flight on an earlier one may or may not have run.
   */
  readonly session: number | undefined;
  /** Default timeout of a call in milliseconds. */
  readonly budgetMs: number;
  /** Sends or rejects at once; rejects without an answer in time. Commands are never repeated. */
  call<Reply>(send: (client: Redis) => Promise<Reply>, options?: RedisCallOptions): Promise<Reply>;
  /**
   * Same for an encoded command, the form of the commands of every request. Resolves with the handling's result for the
   * answer or its absence; rejects only when the handling does.
   */
  send<Result>(command: EncodedCommand, handling: ReplyHandling<Result>): Promise<Result>;
  /** Resolves when the server answers in time; rejects with the reason otherwise. */
  ping(): Promise<void>;
  /** Ends the connection for good. */
  close(): Promise<void>;
}

/** Address and credentials of a Redis server. Holds a secret: log only `label`. */
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
 * Reads `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or `rediss://` for TLS; defaults are port 6379 and database
 * 0. Throws an Error with the fault that never repeats the address, which may hold a password.
 */
export function parseRedisUrl(url: string): RedisAddress {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || !/^rediss?:$/.test(parsed.protocol) || parsed.hostname === '')
    throw invalidAddressError('it is no address');
  if (parsed.search !== '' || parsed.hash !== '')
    throw invalidAddressError(
      'nothing may follow the database; write a "?" or "#" in a password as %3F or %23',
    );
  const [, database = '0'] = /^\/?(\d{1,5})?$/.exec(parsed.pathname) ?? [undefined, undefined];
  if (!/^\/?(\d{1,5})?$/.test(parsed.pathname))
    throw invalidAddressError('the database behind the port is a number');
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
    throw invalidAddressError('a "%" in the name or password must be written as %25');
  }
}

function invalidAddressError(reason: string): Error {
  return new Error(
    `The address of a Redis server cannot be used: ${reason}. Write redis://USER:PASSWORD@HOST:6379/0 (rediss:// for TLS) in storage.counters.url and storage.cache.url.`,
  );
}
