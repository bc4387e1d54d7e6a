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
