import type { GuardedFetch } from '../../core/ports/guarded-fetch.ts';
import type { TokenFetch } from '../credentials/token-fetch.ts';

/** Longest answer of a manager: 1 MiB. */
const maxAnswerBytes = 1_048_576;

/** Asks hosts that people of an organisation named: public ones and `security.trusted_hosts`; follows no redirect. */
export function guardedTokenFetch(guardedFetch: GuardedFetch): TokenFetch {
  return async ({ url, method, headers, body, timeoutMs }) => {
    const { answer } = guardedFetch.fetch({
      ...{ url, method, headers: Object.entries(headers).flat(), timeoutMs },
      ...{ maxBytes: maxAnswerBytes, maxRedirects: 0 },
      ...(body !== undefined && { body: Buffer.from(body) }),
    });
    const { status, body: bytes } = await answer;
    return { status, body: bytes.toString('utf8') };
  };
}
