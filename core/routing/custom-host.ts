import { GatewayError } from '../errors/gateway-error.ts';
import { refusedHost } from '../base/host-rules.ts';

/** Longest custom host, in characters. */
const maxCustomHost = 2048;

/** How an address is judged that did not come from the operator. */
export interface HostJudgement {
  /** Whether the host may be private: it is listed, or the operator wrote it. */
  readonly isTrusted: (url: URL) => boolean;
  /** What named it, for the error. */
  readonly param: string;
}

/**
 * Whether a host that was named beside the configuration has to be guarded: it is none that is trusted. What a name leads
 * to is seen when it is connected to. Throws `custom_host_refused` for what is no address, or no public one.
 */
export function mustBeGuarded(customHost: string, { isTrusted, param }: HostJudgement): boolean {
  const refusal = (reason: string): GatewayError =>
    new GatewayError('custom_host_refused', `The custom host is refused: ${reason}`, { param });
  if (customHost.length > maxCustomHost) throw refusal(`it is longer than ${maxCustomHost} characters.`);
  if (!URL.canParse(customHost)) throw refusal('it is no URL. Send https://host/path.');
  const url = new URL(customHost);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refusal('only http and https are served.');
  if (url.username !== '' || url.password !== '')
    throw refusal('it carries credentials. Send them in Authorization.');
  if (url.search !== '' || url.hash !== '')
    throw refusal('it has a query or a fragment. Send only scheme, host and path.');
  if (isTrusted(url)) return false;
  const reason = refusedHost(url.hostname);
  if (reason === undefined) return true;
  throw refusal(`${reason}, and "${url.host}" is not listed in security.trusted_hosts.`);
}
