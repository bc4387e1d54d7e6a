/** Longest header that is read: browsers keep about 180 cookies of 4 KiB a domain, and send few. */
const longestHeader = 65_536;

/** Browsers drop larger cookies. */
export const maxCookie = 3_800;

/** Other hosts of the domain cannot set a cookie of this name where there is TLS. */
export function cookieName(origin: string, name: string): string {
  const plain = `weir-${name}`;
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
    `${name}=${value}; Path=/; Max-Age=${Math.floor(lifetimeMs / 1000)}; HttpOnly; SameSite=${sameSite}${secure}`,
  ];
}

/** Value of a cookie in the header `cookie`; undefined for none. */
export function cookieValue(header: string | undefined, name: string): string | undefined {
  for (const one of (header ?? '').slice(0, longestHeader).split(';')) {
    const at = one.indexOf('=');
    if (one.slice(0, at).trim() === name) return one.slice(at + 1).trim();
  }
  return undefined;
}
