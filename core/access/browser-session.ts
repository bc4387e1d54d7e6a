import { Type } from 'typebox';
import { isEqual } from '../base/bytes.ts';
import { cookieName, cookieValue, maxCookie, setCookie } from '../base/cookies.ts';
import { Envelopes } from '../base/envelope.ts';
import type { Clock } from '../ports/clock.ts';
import type { SecretBox } from '../ports/secret-managers.ts';
import { GatewayError } from '../errors/gateway-error.ts';

/** The cookie's name, without what `cookieName` adds. */
const name = 'console';
const sealedFor = 'browser-session';

/** The sealed content of the cookie. */
const Session = Type.Object({ credential: Type.String() });

/** A session of a browser. */
export interface BrowserSession {
  /** A service key or a token, as the caller would send it in `Authorization`. Never log it. */
  readonly credential: string;
  /** The page sends it in the header `{prefix}-csrf`; pages of other origins cannot. */
  readonly csrf: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
}

/** A session that begins. */
interface Begun {
  /** The headers that set its cookie. */
  readonly headers: readonly string[];
  readonly session: BrowserSession;
}

/**
 * Sessions of browsers. Nothing is kept in the gateway: the cookie holds the caller's credential, sealed, and any gateway
 * with the same secret key opens it. The cookie counts only together with the header `{prefix}-csrf`, which makes every
 * such request one that a page of another origin cannot send. The credential is judged at each request as if the caller
 * had sent it, so a session ends with its key.
 */
export class BrowserSessions {
  readonly #envelopes: Envelopes;

  constructor(parts: { readonly secrets: SecretBox; readonly clock: Clock }) {
    this.#envelopes = new Envelopes(parts, { longest: maxCookie });
  }

  /** Throws `invalid_request` for a credential that does not fit into a cookie. */
  begin(credential: string, origin: string, lifetimeMs: number): Begun {
    const { id: csrf, until, text } = this.#envelopes.seal(sealedFor, { credential }, lifetimeMs);
    if (text.length > maxCookie)
      throw new GatewayError(
        'invalid_request',
        `The credential has ${credential.length} characters, and with them the session does not fit into a cookie (${maxCookie} bytes). Use a service key, or have the identity provider issue shorter tokens.`,
      );
    return { headers: sessionCookie(origin, text, lifetimeMs), session: { credential, csrf, until } };
  }

  /** The headers that end the session of a browser. */
  end(origin: string): readonly string[] {
    return sessionCookie(origin, '', 0);
  }

  /**
   * The session in the header `cookie`; undefined for none, for one that is over, and for one of another secret key.
   * `origin` is the one that the caller sees: with TLS the cookie of the name that other hosts of the domain can set too
   * does not count, or they could sign a browser in as somebody else.
   */
  read(cookies: string | undefined, origin: string): BrowserSession | undefined {
    if (cookies?.includes(`weir-${name}=`) !== true) return undefined;
    const opened = this.#envelopes.open(sealedFor, cookieValue(cookies, cookieName(origin, name)), Session);
    return opened && { credential: opened.value.credential, csrf: opened.id, until: opened.until };
  }

  /** The credential of the caller's session; undefined without a session, or without its `csrf`. */
  credential(cookies: string | undefined, csrf: string | undefined, origin: string): string | undefined {
    if (csrf === undefined) return undefined;
    const session = this.read(cookies, origin);
    return session !== undefined && isEqual(session.csrf, csrf) ? session.credential : undefined;
  }
}

function sessionCookie(origin: string, value: string, lifetimeMs: number): readonly string[] {
  return setCookie({ origin, name: cookieName(origin, name), value, sameSite: 'Strict', lifetimeMs });
}
