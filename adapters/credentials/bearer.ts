import type { Credentials } from '../../core/ports/credentials.ts';
import type { TokenCache } from './token-cache.ts';

/** `Authorization: Bearer` with a fixed secret. */
export function staticBearer(secret: string): Credentials {
  return { authorize: () => ['authorization', `Bearer ${secret}`] };
}

/** `Authorization: Bearer` with the token of a cache. */
export function cachedBearer(cache: TokenCache<string>): Credentials {
  return {
    authorize() {
      const token = cache.get();
      return typeof token === 'string' ? bearer(token) : token.then(bearer);
    },
  };
}

function bearer(token: string): string[] {
  return ['authorization', `Bearer ${token}`];
}
