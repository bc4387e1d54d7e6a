import { randomBytes } from 'node:crypto';
import { RecentMap } from '../../core/base/recent-map.ts';
import { isJsonObject, parseJson } from '../../core/base/json.ts';
import { sha256 } from '../../core/base/bytes.ts';
import { GatewayError, type JsonObject } from '../../core/pipeline/plugin.ts';
import type { Cache } from '../../core/ports/cache.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { SecretBox } from '../../core/ports/secret-managers.ts';

/**
 * A session of a client. Its id is this, sealed: each gateway that holds the key of the secrets can go on with it, and
 * nothing is kept for a session that is idle.
 */
export interface Session {
  /** Random: the key of all that is kept elsewhere for the session. */
  readonly key: string;
  /** Slug of the server; empty for all servers together. */
  readonly slug: string;
  /** `params` of the client's `initialize`, for another handshake with a server that does not know the session. */
  readonly greeting: JsonObject;
  /** Agreed version of the protocol. */
  readonly version: string;
  /** Session that the server opened; undefined at a server without sessions. */
  readonly upstream: string | undefined;
  /** Milliseconds since the epoch. */
  readonly endsAt: number;
}

/** A session before it has an id. */
type NewSession = Pick<Session, 'slug' | 'greeting' | 'version' | 'upstream'>;

/** Parts of the scope that sessions need. */
interface SessionParts {
  readonly secrets: SecretBox;
  readonly cache: Cache;
  readonly clock: Pick<Clock, 'now'>;
  readonly hours: number;
}

const sealContext = 'mcp/session';
const maxKnown = 20_000;
/** A greeting beyond it is reduced to what the protocol demands. */
const maxGreetingBytes = 2_048;
/** Longest id that is opened: a header of 16 KiB is the most that the server takes. */
const longestId = 12_288;
const hourMs = 3_600_000;

/** Seals sessions into their ids, opens them, and remembers which session of a server goes on for another one. */
export class Sessions {
  readonly #parts: SessionParts;
  /** Opened sessions by id: opening costs microseconds, and most ids come again. */
  readonly #known = new RecentMap<{ readonly session: Session; readonly owner: string }>(maxKnown);
  /** By session and slug: the server's session that replaces an earlier one. */
  readonly #successors = new RecentMap<string>(maxKnown);
  readonly #ended = new RecentMap<true>(maxKnown);

  constructor(parts: SessionParts) {
    this.#parts = parts;
  }

  /** The id of a new session of this caller. */
  begin({ slug, greeting, version, upstream }: NewSession, caller: KeyRecord): string {
    const { secrets, clock, hours } = this.#parts;
    const sealed = secrets.seal(
      JSON.stringify({
        o: ownerOf(caller),
        s: slug,
        i: boundedGreeting(greeting),
        v: version,
        ...(upstream !== undefined && { x: upstream }),
        e: clock.now() + hours * hourMs,
        n: randomBytes(16).toString('base64url'),
      }),
      sealContext,
    );
    return sealed;
  }

  /** Throws `mcp_session_unknown` for an id of another caller or server, and for one that is over or was changed. */
  open(id: string, slug: string, caller: KeyRecord): Session {
    let known = this.#known.touch(id);
    if (known === undefined) {
      known = this.#read(id);
      this.#known.set(id, known);
    }
    const { session, owner } = known;
    const isOver = session.endsAt <= this.#parts.clock.now() || this.#ended.get(session.key) === true;
    if (owner !== ownerOf(caller) || session.slug !== slug || isOver) throw unknownSession();
    return session;
  }

  /** The server's session for a session of a client, as far as this process knows; else that of the handshake. */
  upstreamOf(session: Session, slug: string): string | undefined {
    return this.#successors.touch(`${session.key}/${slug}`) ?? session.upstream;
  }

  /** This process has begun a session at that server for it. */
  hasSuccessor(session: Session, slug: string): boolean {
    return this.#successors.get(`${session.key}/${slug}`) !== undefined;
  }

  /**
   * Another gateway's successor of the server's session `before`. Throws `mcp_session_unknown` when the client has ended
   * the session there.
   */
  async sharedSuccessor(
    session: Session,
    slug: string,
    before: string | undefined,
  ): Promise<string | undefined> {
    const kept = await this.#parts.cache.get(successorKey(session, slug));
    if (kept === undefined) return undefined;
    const text = Buffer.from(kept.bytes).toString('utf8');
    if (text === '') {
      this.#ended.set(session.key, true);
      throw unknownSession();
    }
    if (text === before) return undefined;
    this.#successors.set(`${session.key}/${slug}`, text);
    return text;
  }

  /** From now on `upstream` goes on for the session. */
  async succeed(session: Session, slug: string, upstream: string): Promise<void> {
    this.#successors.set(`${session.key}/${slug}`, upstream);
    await this.#keep(session, slug, upstream);
  }

  /** The client has ended it. */
  async end(session: Session): Promise<void> {
    this.#ended.set(session.key, true);
    await this.#keep(session, session.slug, '');
  }

  async #keep(session: Session, slug: string, text: string): Promise<void> {
    const { cache, clock } = this.#parts;
    const ttlMs = Math.max(1, session.endsAt - clock.now());
    await cache.set(successorKey(session, slug), Buffer.from(text), ttlMs);
  }

  #read(id: string): { readonly session: Session; readonly owner: string } {
    if (id.length > longestId) throw unknownSession();
    let text: string;
    try {
      text = this.#parts.secrets.open(id, sealContext);
    } catch {
      throw unknownSession();
    }
    const read = parseJson(text);
    if (!isJsonObject(read)) throw unknownSession();
    const { o, s, i, v, x, e, n } = read;
    if (typeof o !== 'string' || typeof s !== 'string' || typeof v !== 'string') throw unknownSession();
    if (typeof e !== 'number' || typeof n !== 'string') throw unknownSession();
    const session: Session = {
      key: n,
      slug: s,
      greeting: isJsonObject(i) ? i : {},
      version: v,
      upstream: typeof x === 'string' ? x : undefined,
      endsAt: e,
    };
    return { session, owner: o };
  }
}

function successorKey(session: Session, slug: string): string {
  return `mcp-session:${session.key}:${slug}`;
}

/** Of the keys that are in use: each request asks for it, and the directory keeps its records. */
const owners = new WeakMap<KeyRecord, string>();

function ownerOf(key: KeyRecord): string {
  let owner = owners.get(key);
  if (owner === undefined) {
    const { organisationId, workspaceId, id, userId } = key;
    owner = sha256(JSON.stringify([organisationId, workspaceId, id, userId]), 'base64url');
    owners.set(key, owner);
  }
  return owner;
}

/** Beyond the bound only the members that the protocol demands are kept, with their own bounds. */
function boundedGreeting(greeting: JsonObject): JsonObject {
  const { protocolVersion = '', capabilities = {}, clientInfo = {} } = greeting;
  const whole = { protocolVersion, capabilities, clientInfo };
  if (Buffer.byteLength(JSON.stringify(whole)) <= maxGreetingBytes) return whole;
  const info = isJsonObject(clientInfo) ? clientInfo : {};
  const short = (value: unknown) => (typeof value === 'string' ? value.slice(0, 64) : '');
  const names = isJsonObject(capabilities)
    ? Object.keys(capabilities).filter((name) => name.length <= 32)
    : [];
  return {
    protocolVersion: short(protocolVersion),
    capabilities: Object.fromEntries(names.slice(0, 16).map((name) => [name, {}])),
    clientInfo: { name: short(info['name']), version: short(info['version']) },
  };
}

function unknownSession(): GatewayError {
  return new GatewayError(
    'mcp_session_unknown',
    'The session is not known: it is over, or belongs to another key or server. Send "initialize" without Mcp-Session-Id.',
  );
}
