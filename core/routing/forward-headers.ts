import type { HeaderList } from '../ports/header-list.ts';
import { HeaderNames, type HeaderName } from '../ports/header-names.ts';

export interface ForwardOptions {
  /** The caller's credential headers go along. */
  readonly passCredentials: boolean;
  /** The authorization header held a service key: it never goes along. */
  readonly dropAuthorization: boolean;
  /** What service keys begin with: a credential header that holds one never goes along, wherever the caller put it. */
  readonly keyPrefix: string;
  /** Replaces the body: its description no longer holds. */
  readonly bodyChanged: boolean;
}

/**
 * The client's headers that go on to the provider, in their order and case; `names` describes them. Left out:
 * hop-by-hop headers and those that `Connection` names, everything under our prefixes, the service key wherever it
 * was, and headers that are set anew (host, length, accept-encoding).
 */
export function forwardRequestHeaders(
  headers: HeaderList,
  names: readonly HeaderName[],
  options: ForwardOptions,
): string[] {
  const forwarded: string[] = [];
  const named = connectionNames(headers, names);
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as HeaderName;
    if (name.hopByHop || name.ours || name.service !== undefined || named?.has(name.lower)) continue;
    const value = headers[2 * i + 1] as string;
    if (name.credential && !mayPassCredential(name.lower, value, options)) continue;
    if (options.bodyChanged && name.lower === 'content-encoding') continue;
    forwarded.push(headers[2 * i] as string, value);
  }
  return forwarded;
}

/** What decides over the caller's credential headers. */
export type CredentialRules = Pick<ForwardOptions, 'passCredentials' | 'dropAuthorization' | 'keyPrefix'>;

/** Whether a credential header of the caller, named in lower case, goes on to the provider. */
export function mayPassCredential(name: string, value: string, options: CredentialRules): boolean {
  if (!options.passCredentials || (name === 'authorization' && options.dropAuthorization)) return false;
  const secret = name === 'authorization' ? value.replace(/^\s*bearer\s+/i, '') : value;
  return !secret.startsWith(options.keyPrefix);
}

/** Providers' answers know none of our prefixes. */
const answerNames = new HeaderNames([]);

/** The provider's headers that go on to the client: all but hop-by-hop ones, and the length unless it is kept. */
export function forwardAnswerHeaders(headers: HeaderList, keepLength: boolean): string[] {
  const forwarded: string[] = [];
  const names = answerNames.ofList(headers);
  const named = connectionNames(headers, names);
  for (let i = 0; i < names.length; i++) {
    const { lower, hopByHop } = names[i] as HeaderName;
    if (hopByHop || named?.has(lower) || (!keepLength && lower === 'content-length')) continue;
    forwarded.push(headers[2 * i] as string, headers[2 * i + 1] as string);
  }
  return forwarded;
}

function connectionNames(headers: HeaderList, names: readonly HeaderName[]): Set<string> | undefined {
  for (let i = 0; i < names.length; i++) {
    if ((names[i] as HeaderName).lower !== 'connection') continue;
    const value = (headers[2 * i + 1] as string).toLowerCase();
    if (value !== 'keep-alive' && value !== 'close')
      return new Set(value.split(',').map((part) => part.trim()));
  }
  return undefined;
}
