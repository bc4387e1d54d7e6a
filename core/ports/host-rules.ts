import { isIPv4, isIPv6 } from 'node:net';
import { isPublicAddress } from './public-address.ts';

/** Top-level labels that are never handed out, or that name machines of a private network by custom. */
const privateEndings = new Set([
  ...['localhost', 'localdomain', 'local', 'internal', 'intranet', 'private', 'corp', 'home', 'lan', 'mail'],
  ...['arpa', 'svc', 'cluster', 'test', 'example', 'invalid', 'onion', 'alt', 'domain', 'workgroup'],
]);
/** Public spellings of metadata services. */
const metadataNames = new Set(['metadata.goog', 'metadata.tencentyun.com']);

/**
 * Why a request may not name this host, in words for the caller; undefined when it may be tried. Takes
 * `URL.hostname`, in which every spelling of an address has become one. A name that passes may still lead to
 * a private address: that is seen when it is resolved.
 */
export function refusedHost(hostname: string): string | undefined {
  const address = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
  if (isIPv4(address) || isIPv6(address)) {
    return isPublicAddress(address)
      ? undefined
      : 'it is a private, reserved or otherwise special address, not a public one';
  }
  const name = hostname.toLowerCase().replace(/\.+$/, '');
  const labels = name.split('.');
  const ending = labels.at(-1) ?? '';
  if (labels.length < 2 || privateEndings.has(ending) || metadataNames.has(name)) {
    return 'its name belongs to a private network or to no network at all';
  }
  return undefined;
}

/**
 * `security.trusted_hosts`: the hosts that a request may name although they are private. An entry is `host` (every
 * port) or `host:port`, exact; IPv6 addresses stand in brackets when a port follows.
 */
export class TrustedHosts {
  private readonly entries: ReadonlySet<string>;

  constructor(entries: readonly string[]) {
    this.entries = new Set(entries.map((entry) => canonicalEntry(entry.trim().toLowerCase())));
  }

  has(url: URL): boolean {
    if (this.entries.size === 0) return false;
    const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port;
    return this.entries.has(url.hostname) || this.entries.has(`${url.hostname}:${port}`);
  }
}

/** The entry as `URL.hostname` spells hosts. One that is no host stays as it is, and matches nothing. */
function canonicalEntry(entry: string): string {
  if (isIPv6(entry)) return hostnameOf(`[${entry}]`);
  const [, host = entry, port] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(entry) ?? [];
  return port === undefined ? hostnameOf(host) : `${hostnameOf(host)}:${port}`;
}

function hostnameOf(host: string): string {
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : host;
}
