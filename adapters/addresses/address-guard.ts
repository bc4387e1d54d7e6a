import { lookup as systemLookup } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { isPublicAddress, hostRefusalReason } from '../../core/base/host-rules.ts';

/** One address of a name; `family` is 4 or 6. */
export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

/** All addresses of a name. Rejects like `dns.lookup` when there are none. */
export type Resolve = (hostname: string) => Promise<readonly ResolvedAddress[]>;

/** Lets sockets go to public addresses only. */
export interface AddressGuard {
  /**
   * Error for a host that must not be connected to, or undefined. Call it first: `lookup` never sees literal addresses.
   */
  refusal(host: string): GatewayError | undefined;
  /**
   * For `net.connect`: resolves a name and fails with `address_refused` unless all of its addresses are public. The
   * socket gets the checked addresses; the name is not resolved a second time.
   */
  readonly lookup: LookupFunction;
  /** Final check, of the address to which a socket is connected. */
  remoteRefusal(host: string, remoteAddress: string): GatewayError | undefined;
}

/** A guard over the system's resolver, or over `resolve`. */
export function createAddressGuard(resolve: Resolve = resolveBySystem): AddressGuard {
  return {
    refusal(host) {
      const reason = hostRefusalReason(host);
      return reason === undefined ? undefined : addressRefused(host, reason);
    },
    lookup(hostname, { all, family }, callback) {
      resolveChecked(hostname, resolve).then(
        (addresses) => {
          const wanted = addresses.filter(
            (one) => family === undefined || family === 0 || isOfFamily(one, family),
          );
          const [first] = wanted;
          if (first === undefined) callback(unknownName(hostname), '');
          else if (all === true) callback(null, wanted);
          else callback(null, first.address, first.family);
        },
        (error: NodeJS.ErrnoException) => callback(error, ''),
      );
    },
    remoteRefusal: (host, remoteAddress) =>
      isPublicAddress(remoteAddress) ? undefined : addressRefused(host, leadsInside),
  };
}

const leadsInside = 'its name leads to an address that is not public';

/**
 * The message names the host as the caller wrote it, a general reason and the remedy, but never the resolved address.
 */
export function addressRefused(host: string, reason: string): GatewayError {
  return new GatewayError(
    'address_refused',
    `"${host.slice(0, 255)}" may not be called: ${reason}. Use a public address, or have it listed in security.trusted_hosts.`,
  );
}

async function resolveChecked(hostname: string, resolve: Resolve): Promise<ResolvedAddress[]> {
  // A copy of plain values, so that the socket gets exactly the addresses that are checked.
  const addresses = (await resolve(hostname)).map(({ address, family }) => ({ address, family }));
  if (addresses.length === 0) throw unknownName(hostname);
  if (!addresses.every(({ address }) => isPublicAddress(address))) {
    throw addressRefused(hostname, leadsInside);
  }
  return addresses;
}

function isOfFamily({ family }: ResolvedAddress, wanted: number | 'IPv4' | 'IPv6'): boolean {
  return family === (wanted === 'IPv4' ? 4 : wanted === 'IPv6' ? 6 : wanted);
}

function unknownName(hostname: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`no address for ${hostname}`), { code: 'ENOTFOUND' });
}

function resolveBySystem(hostname: string): Promise<readonly ResolvedAddress[]> {
  return systemLookup(hostname, { all: true });
}
