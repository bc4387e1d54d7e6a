import type { ClusterNode, ClusterOptions, RedisOptions } from 'ioredis';
import { isIP } from 'node:net';

/** Timeout of connecting to a server and of its greeting, milliseconds. */
const handshakeMs = 2000;

/** Reads an address, and connects to it. */
export const redisAddresses = { handshakeMs, parse: parseRedisUrl, backOffMs, serverOptions, clusterOptions };

const longestBackOffMs = 2000;
const maxServers = 100;

interface Endpoint {
  readonly host: string;
  readonly port: number;
}

interface Login {
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly tls: boolean;
}

/** Addresses and credentials of a Redis server, cluster, or primary known to sentinels. Holds secrets: log only `label`. */
export interface RedisAddress extends Login {
  readonly kind: 'server' | 'cluster' | 'sentinel';
  /** The address without its credentials, for logs and errors. */
  readonly label: string;
  /** The server; some of the cluster's; the sentinels. */
  readonly servers: readonly [Endpoint, ...Endpoint[]];
  readonly database: number;
  /** Present with the kind `sentinel`. */
  readonly sentinel?: Login & { readonly primary: string };
}

/**
 * Reads `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `redis+cluster://[USER:PASSWORD@]HOST[:PORT],…`, or
 * `redis+sentinel://[USER:PASSWORD@]HOST[:PORT],…/PRIMARY[/DATABASE][?sentinel_username=…&sentinel_password=…]`;
 * `rediss` for TLS. Default ports are 6379 and 26379, the default database is 0. Throws an Error with the fault that
 * never repeats the address, which may hold a password.
 */
function parseRedisUrl(url: string): RedisAddress {
  const several = /^(rediss?)\+(cluster|sentinel):\/\/([^/?#]*)([^?#]*)(\?[^#]*)?$/.exec(url);
  if (several === null) return parseServer(url);
  const [, protocol = '', kind = '', authority = '', place = '', query = ''] = several;
  const at = authority.indexOf('@');
  const tls = protocol === 'rediss';
  const login = { ...readLogin(authority.slice(0, Math.max(0, at))), tls };
  const names = authority.slice(at + 1).split(',');
  const defaultPort = kind === 'cluster' ? 6379 : 26_379;
  const [first, ...others] = names.map((name) => readEndpoint(name, defaultPort));
  if (first === undefined || names.length > maxServers)
    throw invalidAddressError(`at most ${maxServers} servers can be named`);
  const servers = [first, ...others] as const;
  const listed = servers.map(({ host, port }) => `${host}:${port}`).join(',');
  if (kind === 'cluster') {
    if (!/^\/?0?$/.test(place) || query !== '')
      throw invalidAddressError('nothing may follow the servers of a cluster; it has only the database 0');
    return { kind, label: `${protocol}+cluster://${listed}`, servers, database: 0, ...login };
  }
  // A number alone is a database: a primary with such a name needs one behind it.
  const [, named, database = '0'] = /^\/(?!\d+\/?$)([^/]+)(?:\/(\d{1,5})?)?$/.exec(place) ?? [];
  if (named === undefined)
    throw invalidAddressError('the name of the primary is missing behind the sentinels, as in "/mymaster/0"');
  const primary = decode(named);
  const sentinel = { ...readSentinelQuery(query, tls), primary };
  const label = `${protocol}+sentinel://${listed}/${primary}/${database}`;
  return { kind: 'sentinel', label, servers, database: Number(database), ...login, sentinel };
}

function parseServer(url: string): RedisAddress {
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
    kind: 'server',
    label: `${protocol}//${hostname}:${port}/${database}`,
    servers: [{ host: withoutBrackets(hostname), port }],
    database: Number(database),
    username: decodeOptional(parsed.username),
    password: decodeOptional(parsed.password),
    tls: protocol === 'rediss:',
  };
}

function readLogin(text: string): Omit<Login, 'tls'> {
  const colon = text.indexOf(':');
  const [username, password] = colon < 0 ? [text, ''] : [text.slice(0, colon), text.slice(colon + 1)];
  return { username: decodeOptional(username), password: decodeOptional(password) };
}

function readEndpoint(name: string, defaultPort: number): Endpoint {
  const [, host = '', port] = /^(\[[0-9a-fA-F:.]+\]|[^:@[\]\s]+)(?::(\d{1,5}))?$/.exec(name) ?? [];
  if (host === '' || Number(port ?? defaultPort) > 65_535)
    throw invalidAddressError(
      'each of its servers must be HOST or HOST:PORT, with the user and the password once before the first; write an "@" in a password as %40',
    );
  return { host: withoutBrackets(host), port: Number(port ?? defaultPort) };
}

function readSentinelQuery(query: string, tls: boolean): Login {
  const settings = new URLSearchParams(query);
  for (const [name, value] of settings) {
    const isTls = name === 'sentinel_tls';
    if (!isTls && name !== 'sentinel_username' && name !== 'sentinel_password')
      throw invalidAddressError(
        'behind the "?" may stand sentinel_username, sentinel_password and sentinel_tls; write a "?" or "#" in a password as %3F or %23',
      );
    if (isTls && !/^(true|false)$/.test(value)) throw invalidAddressError('sentinel_tls is true or false');
  }
  return {
    username: settings.get('sentinel_username') ?? undefined,
    password: settings.get('sentinel_password') ?? undefined,
    tls: (settings.get('sentinel_tls') ?? String(tls)) === 'true',
  };
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1');
}

function decodeOptional(part: string): string | undefined {
  return part === '' ? undefined : decode(part);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw invalidAddressError('a "%" in the name or password must be written as %25');
  }
}

function invalidAddressError(reason: string): Error {
  return new Error(
    `The address of a Redis server cannot be used: ${reason}. Write redis://USER:PASSWORD@HOST:6379/0, redis+cluster://USER:PASSWORD@HOST:6379,HOST:6379 or redis+sentinel://USER:PASSWORD@HOST:26379,HOST:26379/PRIMARY/0 (rediss for TLS) in storage.counters.url, storage.cache.url and storage.jobs.url.`,
  );
}

/** Delay before another attempt to connect: 50 ms to 2 s, without an end. */
function backOffMs(attempt: number): number {
  return Math.min(longestBackOffMs, 50 * 2 ** Math.min(attempt - 1, 10));
}

/** Connection settings of every server of an address. */
function sharedOptions({ username, password, tls }: RedisAddress): RedisOptions {
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls ? { tls: {} } : {}),
    connectionName: 'weir',
    disableClientInfo: true,
    connectTimeout: handshakeMs,
    disconnectTimeout: 100,
    keepAlive: 30_000,
  };
}

/** Connection settings of a server, or of the primary that sentinels name: retried without limit. */
function serverOptions(address: RedisAddress): RedisOptions {
  const { servers, database, tls, sentinel } = address;
  const [{ host, port }] = servers;
  const common = { ...sharedOptions(address), db: database, retryStrategy: backOffMs };
  if (sentinel === undefined) return { ...common, host, port, ...(tls ? { tls: serverName(host) } : {}) };
  const { primary, username, password } = sentinel;
  return {
    ...common,
    sentinels: servers.map((server) => ({ ...server })),
    name: primary,
    ...(username === undefined ? {} : { sentinelUsername: username }),
    ...(password === undefined ? {} : { sentinelPassword: password }),
    ...(sentinel.tls ? { sentinelTLS: {} } : {}),
    enableTLSForSentinelMode: tls,
    ...(tls ? { natMap: withServerName } : {}),
    sentinelCommandTimeout: handshakeMs,
    sentinelRetryStrategy: backOffMs,
    // Sentinels close the connections of a primary that they have replaced; this is for one that they cannot reach.
    reconnectOnError: ({ message }) => message.startsWith('READONLY'),
  };
}

/** Start nodes and connection settings with which ioredis finds the servers of a cluster; `node`: more of each server. */
function clusterOptions(
  address: RedisAddress,
  node: RedisOptions,
): { readonly nodes: ClusterNode[]; readonly options: ClusterOptions } {
  const { servers, tls } = address;
  const nodes = servers.map(({ host, port }) => ({ host, port, ...(tls ? { tls: serverName(host) } : {}) }));
  const options: ClusterOptions = {
    redisOptions: { ...sharedOptions(address), ...node },
    clusterRetryStrategy: backOffMs,
    // A server without all slots covered answers CLUSTERDOWN, and others may cover theirs.
    enableReadyCheck: false,
    // Names stay names, for certificates.
    dnsLookup: (host, done) => done(null, host),
    ...(tls ? { natMap: withServerName } : {}),
  };
  return { nodes, options };
}

/** A server's name is sent with the handshake; an address must not be. */
function serverName(host: string): { readonly servername?: string } {
  return isIP(host) === 0 ? { servername: host } : {};
}

/** The server `HOST:PORT` with its name for TLS: ioredis connects with what it gets. */
function withServerName(key: string) {
  const colon = key.lastIndexOf(':');
  const host = key.slice(0, colon);
  const name = serverName(host);
  return { host, port: Number(key.slice(colon + 1)), tls: name, ...name };
}
