import { BlockList, isIPv4, isIPv6 } from 'node:net';
import type { HeaderList } from '../ports/header-list.ts';

/** Bound of proxies in a header; a longer list is ignored. */
const maxHops = 32;

/** Ranges for the words of `server.trusted_proxies`. */
const namedRanges: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.0/8', '::1'],
  private: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
};

/**
 * Client address of a request behind trusted proxies (`server.trusted_proxies`: addresses, ranges, `loopback`,
 * `private`). The constructor throws for an invalid entry.
 */
export class ClientAddresses {
  private readonly trusted: BlockList | undefined;

  constructor(trustedProxies: readonly string[]) {
    if (trustedProxies.length === 0) return;
    this.trusted = new BlockList();
    for (const entry of trustedProxies) {
      for (const range of namedRanges[entry] ?? [entry]) addRange(this.trusted, range);
    }
  }

  /**
   * Address of the client: that of the connection (`peer`), unless that is a trusted proxy. Then it is the last one in
   * `X-Forwarded-For` (or, without that header, in `Forwarded`) that is not a trusted proxy; when all are, the first
   * one. Earlier entries come from the client itself. An invalid header, or one with more than 32 proxies, leaves the
   * address of the connection.
   */
  of(peer: string, headers: HeaderList): string {
    const address = withoutMapping(peer);
    if (this.trusted === undefined || !this.isTrusted(address)) return address;
    return this.behind(headers) ?? address;
  }

  /** Whether the peer of a connection is a trusted proxy. */
  trusts(peer: string): boolean {
    return this.isTrusted(withoutMapping(peer));
  }

  private behind(headers: HeaderList): string | undefined {
    const name = has(headers, 'x-forwarded-for') ? 'x-forwarded-for' : 'forwarded';
    let furthest: string | undefined;
    let hops = 0;
    for (let at = headers.length - 2; at >= 0; at -= 2) {
      if ((headers[at] as string).toLowerCase() !== name) continue;
      const value = headers[at + 1] as string;
      // From the right and regardless of quotes: the client's own text cannot change how the rest is read.
      for (let end = value.length; end >= 0;) {
        const comma = end === 0 ? -1 : value.lastIndexOf(',', end - 1);
        const element = value.slice(comma + 1, end).trim();
        end = comma;
        if (element === '') continue;
        hops += 1;
        const address = hops > maxHops ? undefined : addressIn(element, name);
        if (address === undefined || !this.isTrusted(address)) return address;
        furthest = address;
      }
    }
    return furthest;
  }

  private isTrusted(address: string): boolean {
    if (isIPv4(address)) return this.trusted?.check(address, 'ipv4') ?? false;
    const zone = address.indexOf('%');
    const plain = zone === -1 ? address : address.slice(0, zone);
    return isIPv6(plain) && (this.trusted?.check(plain, 'ipv6') ?? false);
  }
}

function has(headers: HeaderList, name: string): boolean {
  for (let at = 0; at < headers.length; at += 2) {
    if ((headers[at] as string).toLowerCase() === name) return true;
  }
  return false;
}

function addressIn(element: string, name: 'x-forwarded-for' | 'forwarded'): string | undefined {
  if (name === 'x-forwarded-for') return addressOf(unquoted(element));
  let found: string | undefined;
  for (const pair of element.split(';')) {
    const [, value] = /^\s*for\s*=\s*(.*?)\s*$/i.exec(pair) ?? [];
    if (value === undefined) continue;
    if (found !== undefined) return undefined;
    found = value;
  }
  return found === undefined ? undefined : addressOf(unquoted(found));
}

function unquoted(text: string): string {
  return text.length > 1 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1).trim() : text;
}

const withBrackets = /^\[([0-9A-Fa-f:.]+)\](?::\d{1,5})?$/;
const withPort = /^([0-9.]+):\d{1,5}$/;

/** Address of a node, with or without a port; undefined for an obfuscated or invalid one. */
function addressOf(node: string): string | undefined {
  const bracketed = withBrackets.exec(node)?.[1];
  if (bracketed !== undefined) return isIPv6(bracketed) ? canonical(bracketed) : undefined;
  const text = withPort.exec(node)?.[1] ?? node;
  if (isIPv4(text)) return text;
  return isIPv6(text) && !text.includes('%') ? canonical(text) : undefined;
}

/** Canonical spelling: IPv6 in lower case and compressed, IPv4 never as IPv6. */
function canonical(ipv6: string): string {
  const short = new URL(`http://[${ipv6}]`).hostname.slice(1, -1);
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(short) ?? [];
  if (high === undefined || low === undefined) return short;
  const bits = [high, low].map((part) => Number.parseInt(part, 16));
  return bits.flatMap((part) => [part >> 8, part & 255]).join('.');
}

/** Systems that listen on IPv6 report IPv4 clients in this form. */
function withoutMapping(peer: string): string {
  return peer.startsWith('::ffff:') && peer.includes('.') ? peer.slice('::ffff:'.length) : peer;
}

function addRange(list: BlockList, entry: string): void {
  const [given = '', length, ...rest] = entry.split('/');
  const address = isIPv6(given) && !given.includes('%') ? canonical(given) : given;
  const family = isIPv4(address) ? 'ipv4' : 'ipv6';
  // The prefix length of an IPv4 address within IPv6 includes the 96 bits before it.
  const mapped = family === 'ipv4' && !isIPv4(given) ? 96 : 0;
  const bits = length === undefined ? Number.NaN : Number(length) - mapped;
  const isRange = length !== undefined && /^\d{1,3}$/.test(length);
  const isSound = isIPv4(address) || (isIPv6(address) && !address.includes('%'));
  if (!isSound || rest.length > 0 || (length !== undefined && !isRange) || bits < 0 || bits > most(family)) {
    throw new Error(
      `server.trusted_proxies: "${entry.slice(0, 64)}" is no address and no range such as 10.0.0.0/8. Use one, or "loopback" or "private".`,
    );
  }
  if (length === undefined) list.addAddress(address, family);
  else list.addSubnet(address, bits, family);
}

function most(family: 'ipv4' | 'ipv6'): number {
  return family === 'ipv4' ? 32 : 128;
}
