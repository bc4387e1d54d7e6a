import { refusedHost, type TrustedHosts } from '../../core/base/host-rules.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { addressRefused } from '../addresses/address-guard.ts';

/** Longest URL, in characters. */
const maxUrlLength = 8192;

/** A URL that may be tried. */
export interface AdmittedUrl {
  readonly url: URL;
  /** Listed in `security.trusted_hosts`: it may lead anywhere. */
  readonly trusted: boolean;
}

/**
 * Judges everything of a URL that can be seen without the network, after normalisation, so that all spellings of a
 * host are one. Throws `address_refused`. `base` is where a relative redirect came from.
 */
export function admitUrl(text: string, trustedHosts: TrustedHosts, base?: URL): AdmittedUrl {
  if (text.length > maxUrlLength) throw refused(`it is longer than ${maxUrlLength} characters`);
  if (!URL.canParse(text, base?.href)) throw refused('it is no URL; send https://host/path');
  const url = new URL(text, base?.href);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refused('only http and https are fetched');
  if (url.username !== '' || url.password !== '') throw refused('it carries credentials; leave them out');
  url.hash = '';
  const trusted = trustedHosts.has(url);
  const reason = trusted ? undefined : refusedHost(url.hostname);
  if (reason !== undefined) throw addressRefused(url.host, reason);
  return { url, trusted };
}

function refused(reason: string): GatewayError {
  return new GatewayError('address_refused', `The URL is refused: ${reason}.`);
}
