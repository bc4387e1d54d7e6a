import { BlockList, isIPv4, isIPv6 } from 'node:net';

/** Leading bits that a range of addresses shares. */
interface Range {
  readonly bits: number;
  readonly first: number;
}

/** IPv4 ranges of the special-purpose registry, and the fixed addresses at which clouds serve credentials. */
const closedIPv4: readonly Range[] = [
  range([0, 0, 0, 0], 8), // this network; 0.0.0.0 reaches the machine itself
  range([10, 0, 0, 0], 8), // private
  range([100, 64, 0, 0], 10), // carrier-grade NAT, with the metadata service of Alibaba Cloud
  range([127, 0, 0, 0], 8), // loopback
  range([168, 63, 129, 16], 32), // the platform service of Azure
  range([169, 254, 0, 0], 16), // link-local, with most metadata services
  range([172, 16, 0, 0], 12), // private
  range([192, 0, 0, 0], 24), // protocol assignments, with the metadata service of Oracle Cloud
  range([192, 0, 2, 0], 24), // documentation
  range([192, 31, 196, 0], 24), // AS112
  range([192, 52, 193, 0], 24), // multicast tunnels
  range([192, 88, 99, 0], 24), // 6to4 relays
  range([192, 168, 0, 0], 16), // private
  range([192, 175, 48, 0], 24), // AS112
  range([198, 18, 0, 0], 15), // benchmarks
  range([198, 51, 100, 0], 24), // documentation
  range([203, 0, 113, 0], 24), // documentation
  range([224, 0, 0, 0], 4), // multicast
  range([240, 0, 0, 0], 4), // reserved, and broadcast
];

/** Within 2000::/3, the only allocated block; everything outside is closed anyway. */
const closedIPv6: readonly Range[] = [
  range([0x20, 0x01, 0, 0], 23), // protocol assignments: Teredo, benchmarks, ORCHID
  range([0x20, 0x01, 0x0d, 0xb8], 32), // documentation
  range([0x20, 0x02, 0, 0], 16), // 6to4: holds an IPv4 address
  range([0x3f, 0xfe, 0, 0], 16), // the former 6bone
  range([0x3f, 0xff, 0, 0], 20), // documentation
];

/**
 * True for a publicly allocated address. False for private, loopback, link-local, multicast, reserved, documentation,
 * benchmark and metadata addresses, for IPv6 addresses that embed an IPv4 one (mapped, compatible, NAT64, 6to4, Teredo,
 * ISATAP) or name a zone, and for anything else.
 */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) {
    const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number);
    return !isInRanges(closedIPv4, word([a, b, c, d]));
  }
  if (!isIPv6(address) || address.includes('%')) return false;
  const groups = groupsOf(address);
  const [g0 = 0, g1 = 0, , , g4 = 0, g5 = 0] = groups;
  if ((g0 & 0xe000) !== 0x2000) return false;
  if (isInRanges(closedIPv6, ((g0 << 16) | g1) >>> 0)) return false;
  const isatap = (g4 & 0xfdff) === 0 && g5 === 0x5efe;
  return !isatap;
}

const loopback = new BlockList();
loopback.addAddress('::1', 'ipv6');

/** True for an address of this machine itself, also one that is mapped into IPv6; false for anything else. */
export function isLoopbackAddress(address: string): boolean {
  const plain = address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
  if (isIPv4(plain)) return plain.startsWith('127.');
  return isIPv6(plain) && loopback.check(plain, 'ipv6');
}

/** Whether a `Host` names this machine: `localhost`, `status.localhost`, `127.0.0.1`, `[::1]`, with a port or without. */
export function isLoopbackHost(host: string): boolean {
  const name = /^(\[[^\]]*\]|[^:]*)(?::\d*)?$/.exec(host)?.[1]?.toLowerCase() ?? '';
  return /(?:^|\.)localhost\.?$/.test(name) || isLoopbackAddress(name.replace(/^\[|\]$/g, ''));
}

/** The eight groups of a valid IPv6 address without a zone. */
function groupsOf(address: string): number[] {
  const [head = '', tail] = address.split('::');
  const before = numbersOf(head);
  if (tail === undefined) return before;
  const after = numbersOf(tail);
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after];
}

function numbersOf(text: string): number[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [Number.parseInt(group, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number);
    return [(a << 8) | b, (c << 8) | d];
  });
}

type Bytes = readonly [number, number, number, number];

function word([a, b, c, d]: Bytes): number {
  return ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;
}

function range(bytes: Bytes, bits: number): Range {
  return { bits, first: word(bytes) >>> (32 - bits) };
}

function isInRanges(ranges: readonly Range[], value: number): boolean {
  return ranges.some(({ bits, first }) => value >>> (32 - bits) === first);
}

/** Top-level labels that are never delegated, or that name machines of a private network by custom. */
const privateEndings = new Set([
  ...['localhost', 'localdomain', 'local', 'internal', 'intranet', 'private', 'corp', 'home', 'lan', 'mail'],
  ...['arpa', 'svc', 'cluster', 'test', 'example', 'invalid', 'onion', 'alt', 'domain', 'workgroup'],
]);
/** Public names of metadata services. */
const metadataNames = new Set(['metadata.goog', 'metadata.tencentyun.com']);

/**
 * Reason why a request may not name this host, in words for the caller; undefined for an acceptable one. Takes
 * `URL.hostname`, which normalises every spelling of an address. An accepted name may still resolve to a private
 * address: that is checked at resolution.
 */
export function hostRefusalReason(hostname: string): string | undefined {
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
 * `security.trusted_hosts`: private hosts that a request may name nevertheless. An entry is `host` (every port) or
 * `host:port`, exact; IPv6 addresses with a port stand in brackets.
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

/** The entry as `URL.hostname` spells hosts. An invalid one stays unchanged and matches nothing. */
function canonicalEntry(entry: string): string {
  if (isIPv6(entry)) return hostnameOf(`[${entry}]`);
  const [, host = entry, port] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(entry) ?? [];
  return port === undefined ? hostnameOf(host) : `${hostnameOf(host)}:${port}`;
}

function hostnameOf(host: string): string {
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : host;
}
