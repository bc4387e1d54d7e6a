import { timingSafeEqual } from 'node:crypto';
import type { Answer, RequestContext } from '../../core/pipeline/plugin.ts';

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

/** Compares in a time that does not tell where the texts differ. */
export function isEqual(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}

/** Other hosts of the domain cannot set a cookie of this name where there is TLS. */
export function cookieName(origin: string, name: string): string {
  const plain = `weir-mcp-${name}`;
  return origin.startsWith('https:') ? `__Host-${plain}` : plain;
}

/** A cookie of the gateway. `lifetimeMs` 0 removes it. */
interface Cookie {
  readonly origin: string;
  /** `cookieName`. */
  readonly name: string;
  readonly value: string;
  readonly sameSite: 'Lax' | 'Strict';
  readonly lifetimeMs: number;
}

/** The header that sets a cookie. */
export function setCookie({ origin, name, value, sameSite, lifetimeMs }: Cookie): readonly string[] {
  const secure = origin.startsWith('https:') ? '; Secure' : '';
  return [
    'set-cookie',
    `${name}=${value}; Path=/; Max-Age=${lifetimeMs / 1000}; HttpOnly; SameSite=${sameSite}${secure}`,
  ];
}

/** Value of a cookie of the request; undefined for none. */
export function cookieOf(context: RequestContext, name: string): string | undefined {
  for (const one of (context.header('cookie') ?? '').slice(0, 65_536).split(';')) {
    const at = one.indexOf('=');
    if (one.slice(0, at).trim() === name) return one.slice(at + 1).trim();
  }
  return undefined;
}
