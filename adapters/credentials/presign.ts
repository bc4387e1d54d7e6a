import { createHmac } from 'node:crypto';
import { canonicalHeaders, canonicalRequest, hashOf } from './canonical-request.ts';
import type { AwsKeys } from './sigv4.ts';

/** What a presigned address is for. */
export interface PresignedRequest {
  readonly method: string;
  /** Scheme, host and port. */
  readonly origin: string;
  /** Path with its query, encoded as it is sent. */
  readonly path: string;
  /** How long it opens: 1 to 604,800 seconds. */
  readonly seconds: number;
}

/** The longest time that AWS takes. */
const mostSeconds = 604_800;

/** An address with which anybody may do this one request to S3 for a while (Signature Version 4 in the query). */
export function presign(
  { method, origin, path, seconds }: PresignedRequest,
  { keys, region }: { readonly keys: AwsKeys; readonly region: string },
  nowMs: number,
): string {
  const time = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  const scope = `${time.slice(0, 8)}/${region}/s3/aws4_request`;
  const added = new URLSearchParams({
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': `${keys.accessKeyId}/${scope}`,
    'X-Amz-Date': time,
    'X-Amz-Expires': String(Math.min(mostSeconds, Math.max(1, Math.floor(seconds)))),
    'X-Amz-SignedHeaders': 'host',
    ...(keys.sessionToken !== undefined && { 'X-Amz-Security-Token': keys.sessionToken }),
  });
  const whole = `${path}${path.includes('?') ? '&' : '?'}${added.toString()}`;
  const signed = canonicalHeaders(['host', new URL(origin).host]);
  const canonical = canonicalRequest(
    { method, origin, path: whole, headers: [], body: null },
    ...([signed, 'UNSIGNED-PAYLOAD', false] as const),
  );
  const toSign = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${hashOf(canonical)}`;
  const dayKey = [time.slice(0, 8), region, 's3', 'aws4_request'].reduce<string | Buffer>(
    (key, part) => createHmac('sha256', key).update(part).digest(),
    `AWS4${keys.secretAccessKey}`,
  );
  const signature = createHmac('sha256', dayKey).update(toSign).digest('hex');
  return `${origin}${whole}&X-Amz-Signature=${signature}`;
}
