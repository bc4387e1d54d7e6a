import { createHmac } from 'node:crypto';
import { retryAfterMs } from '../../base/retry-after.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { GuardedFetch } from '../../ports/transport.ts';

const timeoutMs = 15_000;
/** Bytes read of an answer. */
const maxBytes = 1_048_576;
/** The receiver refuses this message, or the address has been abandoned: a retry would fail too. */
const finalStatuses = new Set([400, 405, 410, 413, 415, 422]);

/** One event for one receiver. */
interface WebhookPost {
  readonly url: string;
  /** `whsec_` and base64. */
  readonly secret: string;
  /** Same for every attempt at an event. */
  readonly id: string;
  /** JSON. */
  readonly body: string;
}

/** Result of a post: taken, refused for ever, or to be retried, with the reason. */
type WebhookResult =
  | { readonly outcome: 'taken' }
  | {
      readonly outcome: 'refused' | 'failed';
      readonly reason: string;
      /** Back-off that the receiver asks for; undefined for none. */
      readonly retryAfterMs?: number;
    };

/**
 * Posts an event, signed as in Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`). Follows no
 * redirect. Never rejects; a reason names only the host.
 */
export async function postWebhook(
  { url, secret, id, body }: WebhookPost,
  {
    fetch,
    now,
    signal,
  }: { readonly fetch: GuardedFetch; readonly now: number; readonly signal: AbortSignal },
): Promise<WebhookResult> {
  const timestamp = String(Math.floor(now / 1000));
  let status: number | undefined;
  let retryAfter: number | undefined;
  const fetching = fetch.fetch({
    url,
    method: 'POST',
    headers: [
      ...['content-type', 'application/json', 'user-agent', 'weir'],
      ...['webhook-id', id, 'webhook-timestamp', timestamp],
      ...['webhook-signature', signatureOf({ secret, id, timestamp, body })],
    ],
    body: Buffer.from(body),
    timeoutMs,
    maxBytes,
    maxRedirects: 0,
    accept(answered, headers) {
      status = answered;
      retryAfter = retryAfterMs(headers, now);
    },
  });
  signal.addEventListener('abort', fetching.abort, { once: true });
  try {
    await fetching.answer;
  } catch (error) {
    // Its head says how the answer is meant; the rest may be too long or never end.
    if (status === undefined)
      return { outcome: 'failed', reason: GatewayError.is(error) ? error.message : 'it could not be called' };
  } finally {
    signal.removeEventListener('abort', fetching.abort);
  }
  if (status !== undefined && status >= 200 && status < 300) return { outcome: 'taken' };
  const reason = `"${new URL(url).host}" answered ${status}`;
  if (finalStatuses.has(status ?? 0)) return { outcome: 'refused', reason };
  return { outcome: 'failed', reason, ...(retryAfter !== undefined && { retryAfterMs: retryAfter }) };
}

/** HMAC-SHA256 over id, time and body, as `webhook-signature` carries it. */
function signatureOf({
  secret,
  id,
  timestamp,
  body,
}: Pick<WebhookPost, 'secret' | 'id' | 'body'> & { readonly timestamp: string }): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
}
