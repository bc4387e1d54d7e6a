import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { ConnectionConfig } from 'pg';
import type { ResourcesStoreSettings } from '../../core/ports/resources.ts';

/** Address and credentials of a database. Holds a secret: log only `label`. */
export interface PostgresPlace {
  /** The address without its credentials, for logs and errors. */
  readonly label: string;
  readonly connection: Readonly<ConnectionConfig>;
}

const protocols = /^postgres(ql)?:$/;
const modes = new Set(['disable', 'require', 'verify-full']);

/**
 * Reads `postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?sslmode=disable|require|verify-full]`; defaults are port
 * 5432, no TLS and the database `weir`. `folder` is the folder of the configuration. Throws an Error with the fault
 * that never repeats the address, which may hold a password.
 */
export async function postgresPlace(
  settings: ResourcesStoreSettings,
  folder: string,
): Promise<PostgresPlace> {
  const parsed = URL.canParse(settings.url) ? new URL(settings.url) : undefined;
  if (parsed === undefined || !protocols.test(parsed.protocol) || parsed.hostname === '')
    throw invalidAddressError(
      'it is no address; write "?", "#", "/" or "@" in a password as %3F, %23, %2F or %40',
    );
  const host = parsed.hostname.replace(/^\[(.*)\]$/, '$1');
  const user = decode(parsed.username);
  const password = settings.password ?? decode(parsed.password);
  if (user === '') throw invalidAddressError('it names no user');
  if (settings.password !== undefined && parsed.password !== '')
    throw invalidAddressError('the password stands in it and in storage.resources.password; keep one');
  const database = decode(parsed.pathname.slice(1)) || 'weir';
  if (database.includes('/')) throw invalidAddressError('only the database follows the port');
  const port = parsed.port === '' ? 5432 : Number(parsed.port);
  const mode = sslMode(parsed);
  if (settings.ca_file !== undefined && mode !== 'verify-full')
    throw invalidAddressError('storage.resources.ca_file needs ?sslmode=verify-full');
  const tls = await tlsOptions(mode, settings.ca_file, folder);
  return {
    label: `${parsed.hostname}:${port}/${database}`,
    connection: { host, port, user, database, ssl: tls, ...(password !== '' && { password }) },
  };
}

function sslMode(url: URL): string {
  const { sslmode = 'disable', ...others } = Object.fromEntries(url.searchParams);
  const [other] = Object.keys(others);
  if (other !== undefined || url.hash !== '')
    throw invalidAddressError(
      'only sslmode may follow the database; write "?" or "#" in a password as %3F or %23',
    );
  if (!modes.has(sslmode)) throw invalidAddressError('sslmode is disable, require or verify-full');
  return sslmode;
}

async function tlsOptions(
  mode: string,
  authorities: string | undefined,
  folder: string,
): Promise<Exclude<ConnectionConfig['ssl'], undefined>> {
  if (mode === 'disable') return false;
  if (mode === 'require') return { rejectUnauthorized: false };
  if (authorities === undefined) return { rejectUnauthorized: true };
  const file = path.resolve(folder, authorities);
  const ca = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Error(`storage.resources.ca_file cannot be read (${error.code ?? error.message}): ${file}`);
  });
  return { rejectUnauthorized: true, ca };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw invalidAddressError('a "%" in it must be written as %25');
  }
}

function invalidAddressError(reason: string): Error {
  return new Error(
    `The address of the PostgreSQL server cannot be used: ${reason}. Write postgres://USER:PASSWORD@HOST:5432/DATABASE (?sslmode=verify-full for TLS) in storage.resources.url.`,
  );
}
