/** A session as the gateway shows it to its page. */
export interface PageSession {
  /** Sent with each request; pages of other origins do not know it. */
  readonly csrf: string;
  readonly expires_at: string;
}

/** What the gateway says in the page itself, so that the first request is one for data. */
interface Facts {
  /** Prefix of the gateway's own headers: `x-service`. */
  readonly prefix: string;
  /** Prefix of service keys: `wk_`. */
  readonly keyPrefix: string;
  /** Where the administration API begins: `/v1`, or `/`. */
  readonly basePath: string;
  /** Text of the button for the identity provider; null without one. */
  readonly signIn: string | null;
  readonly session: PageSession | null;
}

function read(): Facts {
  const text = document.getElementById('facts')?.textContent ?? '';
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value as Facts;
  } catch {
    // The page of the development server has none.
  }
  return { prefix: 'x-service', keyPrefix: 'wk_', basePath: '/v1', signIn: null, session: null };
}

export const facts = read();
