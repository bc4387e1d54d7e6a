import type { TrustedHosts } from '../../core/base/host-rules.ts';
import { fieldProblem } from '../credentials/credential-errors.ts';

/**
 * The address of a manager, without a slash at its end: https, or http for a host of `security.trusted_hosts`. Throws
 * `invalid_request` for everything else.
 */
export function managerAddress(field: string, text: string, trustedHosts: TrustedHosts): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain =
    url !== undefined && url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!isPlain) throw fieldProblem(field, 'is no address such as "https://vault.example.com".');
  if (url.protocol === 'https:' || (url.protocol === 'http:' && trustedHosts.has(url))) return url;
  throw fieldProblem(
    field,
    'must begin with https://: a secret comes from there. Only hosts of security.trusted_hosts may be asked over http.',
  );
}

/** A path below it: segments are encoded one by one. */
export function below({ origin, pathname }: URL, path: string): string {
  const segments = path.split('/').map((segment) => encodeURIComponent(segment));
  return `${origin}${pathname.replace(/\/+$/, '')}/${segments.join('/')}`;
}
