import { createHash } from 'node:crypto';

/** A page that is served as it stands. */
export interface StaticPage {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A page with its tag: clients keep it and ask each time whether it is still the one. */
export function staticPage(body: string, headers: Readonly<Record<string, string>>): StaticPage {
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 32)}"`;
  return {
    body,
    headers: { ...headers, etag, 'cache-control': 'no-cache', 'x-content-type-options': 'nosniff' },
  };
}

/** Whether the client has this very page already (`If-None-Match`). */
export function isPresent(ifNoneMatch: string | undefined, etag: string | undefined): boolean {
  if (ifNoneMatch === undefined || etag === undefined) return false;
  const known = ifNoneMatch.split(',').map((one) => one.trim().replace(/^W\//, ''));
  return known.includes('*') || known.includes(etag);
}
