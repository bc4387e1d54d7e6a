import { callerToken } from '../../../core/pipeline/keys.ts';
import { GatewayError } from '../../../core/pipeline/plugin.ts';
import type { HeaderList } from '../../../core/ports/header-list.ts';
import type { Caller, ServerIdentity } from './server-identity.ts';

const none: HeaderList = [];
const longestValue = 4096;

/**
 * Headers that tell the server who calls, of claims that `auth` has verified; none for callers with a service key. Throws
 * `token_invalid` when a claim is too long for a header.
 */
export function identityHeaders(
  { identityHeaders: wanted }: ServerIdentity,
  { request }: Caller,
): HeaderList {
  const token = request.get(callerToken);
  if (token === undefined) return none;
  const headers: string[] = [];
  for (const [name, claim] of Object.entries(wanted)) {
    const value = Object.hasOwn(token.claims, claim) ? textOf(token.claims[claim]) : '';
    if (value.length > longestValue)
      throw new GatewayError(
        'token_invalid',
        `The token has a claim "${claim}" that is too long for the header ${name}: at most ${longestValue} bytes.`,
      );
    if (value !== '') headers.push(name, value);
  }
  return headers;
}

/**
 * A claim as a header: a list has commas between its texts. Whatever a header cannot hold, `%`, and commas within a list
 * are percent-encoded, so that no claim looks like another one.
 */
function textOf(claim: unknown): string {
  if (typeof claim === 'string') return encoded(claim, /[^\x20-\x24\x26-\x7e]+/g);
  if (typeof claim === 'number' || typeof claim === 'boolean') return String(claim);
  if (!Array.isArray(claim)) return '';
  return claim
    .filter((one): one is string => typeof one === 'string')
    .map((one) => encoded(one, /[^\x20-\x24\x26-\x2b\x2d-\x7e]+/g))
    .join(',');
}

function encoded(text: string, closed: RegExp): string {
  return text
    .trim()
    .replace(/\p{Surrogate}/gu, '\ufffd')
    .replace(closed, (part) => encodeURIComponent(part));
}
