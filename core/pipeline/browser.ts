import { cookieValue } from '../base/cookies.ts';
import { isLoopbackAddress, isLoopbackHost } from '../base/host-rules.ts';
import type { Answer } from './answer.ts';
import type { RequestContext } from './context.ts';

/** A walk of a browser that does not go on: the page says why. */
export class Stopped extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The body as text; undefined when its length is not announced, or beyond the bound. */
export async function shortBody(context: RequestContext, maxBytes: number): Promise<string | undefined> {
  const { body } = context;
  if (!body.loaded) {
    const announced = Number(context.header('content-length') ?? NaN);
    if (!(announced <= maxBytes)) return undefined;
    await body.load();
  }
  return body.text;
}

/** Whether a form was sent by a page of this origin, as far as the browser says. */
export function isOwnForm(context: RequestContext, origin: string): boolean {
  const from = context.header('origin');
  return from === undefined || from === origin;
}

/** On with GET, also behind a form. The address of the page stays here. */
export function redirect(url: URL, headers: readonly string[] = []): Answer {
  return {
    status: 303,
    headers: [
      ...['location', url.href, 'cache-control', 'no-store', 'referrer-policy', 'no-referrer'],
      ...headers,
    ],
    body: Buffer.alloc(0),
  };
}

/** Value of a cookie of the request; undefined for none. */
export function cookieOf(context: Pick<RequestContext, 'header'>, name: string): string | undefined {
  return cookieValue(context.header('cookie'), name);
}

/**
 * Origin of public addresses, without a slash at its end: `server.public_url`, else the `Host` header, which is believed
 * on loopback alone.
 */
export function publicOrigin(
  context: Pick<RequestContext, 'header' | 'remoteAddress'>,
  publicUrl: string | undefined,
): string | undefined {
  if (publicUrl !== undefined) return publicUrl.replace(/\/+$/, '');
  const host = context.header('host') ?? '';
  return isLoopbackHost(host) && isLoopbackAddress(context.remoteAddress) ? `http://${host}` : undefined;
}

/** Origin that the caller sees: `server.public_url` where the request names its host, else as the request says. */
export function seenOrigin(context: Pick<RequestContext, 'header'>, publicUrl: string | undefined): string {
  const host = context.header('host') ?? 'localhost';
  const known = publicUrl === undefined ? undefined : new URL(publicUrl);
  return known?.host === host ? known.origin : `http://${host}`;
}

/** Origin of links that a caller with a key is given: the public one, else the one that the caller sees. */
export function linkOrigin(
  context: Pick<RequestContext, 'header' | 'remoteAddress'>,
  publicUrl: string | undefined,
): string {
  return publicOrigin(context, publicUrl) ?? seenOrigin(context, publicUrl);
}
