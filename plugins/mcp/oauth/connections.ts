import { randomUUID } from 'node:crypto';
import { sha256 } from '../../../core/base/bytes.ts';
import {
  clientOfConnection,
  connectionSecret,
  connectionSlug,
  revokeConnection,
  sealedConnection,
} from '../../../core/organisation/mcp-connection.ts';
import { GatewayError, type Scope } from '../../../core/pipeline/plugin.ts';
import {
  type OauthClient,
  oauthErrorOf,
  type OauthRegistration,
  type OauthTokens,
} from '../../../core/ports/oauth.ts';
import type { McpClientData, McpConnectionData } from '../../../core/ports/record-kinds.ts';
import type { RecordKind, StoredRecord } from '../../../core/ports/records.ts';
import type { Resources } from '../../../core/ports/resources.ts';
import { bindingOf, joinedScopes, type ServerIdentity } from './server-identity.ts';
import { freshUntil } from './upstream-credentials.ts';

/** The account of a user at a server. */
export interface Account {
  readonly server: ServerIdentity;
  readonly organisationId: string;
  readonly userId: string;
}

/** A token of a user. */
interface UserToken {
  readonly accessToken: string;
  readonly obtainedAt: number;
  readonly expiresAt: number | undefined;
  readonly scope: string;
}

/** Tokens of a user who has agreed. */
interface NewConnection extends Pick<
  McpConnectionData,
  'issuer' | 'tokenEndpoint' | 'revocationEndpoint' | 'isRegistered' | 'resource' | 'audience'
> {
  readonly client: OauthClient;
  readonly tokens: OauthTokens;
  /** That was asked for. */
  readonly scope: string;
}

/** Of a refresh: longer than the bounds of a request for a token. */
const leaseMs = 20_000;
/** Pause before another look at a connection that another gateway refreshes. */
const pauseMs = 200;
/** Looks until the lease of a gateway that has died is over. */
const maxLooks = leaseMs / pauseMs + 10;

type ConnectionScope = Pick<Scope, 'resources' | 'secrets' | 'clock' | 'mcp' | 'log'>;

/** Connections of users to servers, and the clients that they are made with, as records of the store. */
export class Connections {
  readonly #scope: ConnectionScope;

  constructor(scope: ConnectionScope) {
    this.#scope = scope;
  }

  /** Whether there is a store for them. */
  get areKept(): boolean {
    return this.#scope.resources !== undefined;
  }

  /**
   * The user's token, which is replaced shortly before its end, or when it is `refused`; undefined when the user has to
   * connect. One gateway at a time replaces it: a refresh token is used once. Rejects with `store_unavailable`, and with
   * `credentials_failed` while the authorization server does not answer.
   */
  async token(account: Account, refused?: string): Promise<UserToken | undefined> {
    if (!this.areKept) return undefined;
    const { secrets, clock } = this.#scope;
    for (let look = 0; look < maxLooks; look++) {
      const record = await this.#find(account);
      if (record === undefined) return undefined;
      const { data } = record;
      const token = tokenOf(data, connectionSecret(record, 'access_token', secrets));
      const now = clock.now();
      const isGood = token.accessToken !== refused;
      if (isGood && now < freshUntil(data.obtainedAt, data.expiresAt)) return token;
      const isAlive = isGood && (data.expiresAt === undefined || now < data.expiresAt);
      const refreshToken = connectionSecret(record, 'refresh_token', secrets);
      if (refreshToken === '') return isAlive ? token : undefined;
      if (data.leasedUntil > now) {
        if (isAlive) return token;
        await new Promise<void>((resolve) => void clock.after(pauseMs, resolve));
        continue;
      }
      const leased = await this.#replace(record, { data: { ...data, leasedUntil: now + leaseMs } });
      if (leased === undefined) continue;
      try {
        return await this.#refresh(account, leased, refreshToken);
      } catch (error) {
        if (oauthErrorOf(error) === 'invalid_grant') {
          await this.#remove(leased);
          return undefined;
        }
        await this.#replace(leased, { data: { ...data, leasedUntil: 0 } });
        if (isAlive) return token;
        throw error;
      }
    }
    throw new GatewayError(
      'credentials_failed',
      `The connection to the MCP server "${account.server.slug}" is being renewed for too long. Try again shortly.`,
    );
  }

  /**
   * Keeps the tokens of a user, in place of earlier ones. Those of another client are revoked; those of the same client
   * are forgotten alone, since many authorization servers would end the new grant with them.
   */
  async save(account: Account, made: NewConnection): Promise<void> {
    const { server, organisationId, userId } = account;
    const { client, tokens, scope, ...told } = made;
    const now = this.#scope.clock.now();
    const data: McpConnectionData = {
      ...told,
      userId,
      server: server.id,
      binding: bindingOf(server),
      clientId: client.id,
      clientMethod: client.method,
      scope: tokens.scope ?? scope,
      obtainedAt: now,
      expiresAt: tokens.expiresAt,
      isRefreshed: tokens.refreshToken !== '',
      leasedUntil: 0,
    };
    const plain = {
      access_token: tokens.accessToken,
      refresh_token: tokens.refreshToken,
      client_secret: made.isRegistered ? client.secret : '',
    };
    const slug = connectionSlug(server.id, userId);
    const before = await this.#put({ kind: 'mcp_connection', slug, data }, account, plain);
    if (before !== undefined && (before.data.clientId !== client.id || before.data.issuer !== told.issuer))
      await this.#revoke(before);
    this.#scope.log.info('A user has connected an account at an MCP server', {
      server: server.slug,
      organisation: organisationId,
      user: userId,
    });
  }

  /** The client that was registered for this server and redirect URI; undefined for none that is still valid. */
  async client(account: Account, redirectUri: string, issuer: string): Promise<OauthClient | undefined> {
    const { secrets, clock } = this.#scope;
    const found = await this.#bySlug(
      'mcp_client',
      clientSlug(account.server.id, redirectUri, issuer),
      account,
    );
    if (found === undefined) return undefined;
    const { clientId: id, clientMethod: method, expiresAt = Infinity } = found.data;
    if (found.data.issuer !== issuer || found.data.redirectUri !== redirectUri) return undefined;
    if (expiresAt <= clock.now() + 60_000) return undefined;
    return { id, method, secret: connectionSecret(found, 'client_secret', secrets) };
  }

  /** Keeps a client that has been registered. */
  async keepClient(
    account: Account,
    { client, expiresAt }: OauthRegistration,
    { redirectUri, issuer }: Pick<McpClientData, 'redirectUri' | 'issuer'>,
  ): Promise<void> {
    const { server } = account;
    const known = { clientId: client.id, clientMethod: client.method, expiresAt };
    const data = { server: server.id, redirectUri, issuer, ...known };
    const slug = clientSlug(server.id, redirectUri, issuer);
    await this.#put({ kind: 'mcp_client', slug, data }, account, { client_secret: client.secret });
  }

  /** The user's e-mail address; undefined where the store knows none. */
  async emailOf({ organisationId, userId }: Account): Promise<string | undefined> {
    const found = await this.#resources.read(({ users }) => users.find(organisationId, userId));
    return found?.email;
  }

  get #resources(): Resources {
    const { resources } = this.#scope;
    if (resources !== undefined) return resources;
    throw new GatewayError(
      'feature_disabled',
      'Accounts of users at MCP servers are kept in storage.resources, which this gateway does not have.',
    );
  }

  async #refresh(
    account: Account,
    record: StoredRecord<'mcp_connection'>,
    refreshToken: string,
  ): Promise<UserToken | undefined> {
    const { mcp, secrets } = this.#scope;
    const { data } = record;
    const secret = data.isRegistered ? undefined : await account.server.oauthSecret();
    const client = clientOfConnection(record, secret?.value ?? '', secrets);
    const { resource, audience } = data;
    const tokens = await mcp.oauth.token(data, client, {
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
      ...(resource !== '' && { resource }),
      ...(audience !== '' && { audience }),
    });
    const after: McpConnectionData = {
      ...data,
      scope: tokens.scope ?? data.scope,
      obtainedAt: this.#scope.clock.now(),
      expiresAt: tokens.expiresAt,
      leasedUntil: 0,
    };
    const plain = {
      access_token: tokens.accessToken,
      // Without another one the old one stays valid (RFC 6749, section 6).
      refresh_token: tokens.refreshToken === '' ? refreshToken : tokens.refreshToken,
    };
    const kept = { ...record.secrets, ...sealedConnection(record.id, plain, secrets) };
    // The connection may have been ended meanwhile: then its tokens are not used any more.
    const stored = await this.#replace(record, { data: after, secrets: kept });
    if (stored !== undefined) return tokenOf(after, tokens.accessToken);
    await this.#revoke({ ...record, secrets: kept }, client);
    return undefined;
  }

  /** Without a `client`: the one that the connection was made with, where its secret is known; not that of new settings. */
  async #revoke(record: StoredRecord<'mcp_connection'>, client?: OauthClient): Promise<void> {
    const { mcp, secrets, log } = this.#scope;
    const { isRegistered, clientMethod } = record.data;
    if (client === undefined && !isRegistered && clientMethod !== 'none') return;
    try {
      const by = client ?? clientOfConnection(record, '', secrets);
      await revokeConnection(mcp.oauth, record, by, secrets);
    } catch (error) {
      log.warn('The tokens of an earlier connection to an MCP server are not revoked', {
        server: record.name,
        error: GatewayError.is(error) ? error.message : 'internal',
      });
    }
  }

  async #find(account: Account): Promise<StoredRecord<'mcp_connection'> | undefined> {
    const { server, userId } = account;
    const found = await this.#bySlug('mcp_connection', connectionSlug(server.id, userId), account);
    return found?.data.userId === userId && found.data.binding === bindingOf(server) ? found : undefined;
  }

  async #bySlug<K extends RecordKind>(
    kind: K,
    slug: string,
    { server: { workspaceId }, organisationId }: Account,
  ): Promise<StoredRecord<K> | undefined> {
    const place = { organisationId, workspaceId };
    const found = await this.#resources.read(({ records }) => records.find(kind, place, slug));
    return found?.slug === slug && found.workspaceId === workspaceId ? found : undefined;
  }

  /** Undefined when the record has been changed or removed meanwhile. */
  async #replace<K extends RecordKind>(
    record: StoredRecord<K>,
    change: Partial<Pick<StoredRecord<K>, 'data' | 'secrets'>>,
  ): Promise<StoredRecord<K> | undefined> {
    const next = { ...record, ...change, version: record.version + 1, updatedAt: this.#scope.clock.now() };
    const isStored = await this.#resources.write(record.organisationId, ({ records }) =>
      records.replace(next),
    );
    return isStored ? next : undefined;
  }

  async #remove({ kind, organisationId, id }: StoredRecord<'mcp_connection'>): Promise<void> {
    await this.#resources.write(organisationId, ({ records }) => records.remove(kind, organisationId, id));
  }

  /** Resolves with the record that was there before. */
  async #put<K extends 'mcp_connection' | 'mcp_client'>(
    { kind, slug, data }: Pick<StoredRecord<K>, 'kind' | 'slug' | 'data'> & { readonly kind: K },
    { server, organisationId, userId }: Account,
    plain: Parameters<typeof sealedConnection>[1],
  ): Promise<StoredRecord<K> | undefined> {
    const { workspaceId } = server;
    const { secrets, clock } = this.#scope;
    const now = clock.now();
    return this.#resources.write(organisationId, async ({ records }) => {
      const found = await records.find(kind, { organisationId, workspaceId }, slug);
      const before = found?.slug === slug && found.workspaceId === workspaceId ? found : undefined;
      const id = before?.id ?? randomUUID();
      const record: StoredRecord<K> = {
        ...{ kind, id, organisationId, workspaceId, slug, data },
        name: server.slug,
        status: 'active',
        parentId: workspaceId === undefined ? '' : server.id,
        secrets: sealedConnection(id, plain, secrets),
        createdBy: before?.createdBy ?? userId,
        updatedBy: userId,
        createdAt: before?.createdAt ?? now,
        updatedAt: now,
        version: (before?.version ?? 0) + 1,
      };
      if (before === undefined) await records.insert(record);
      else await records.replace(record);
      return before;
    });
  }
}

function clientSlug(server: string, redirectUri: string, issuer: string): string {
  return `k-${sha256(JSON.stringify([server, redirectUri, issuer]), 'base64url')}`;
}

function tokenOf({ obtainedAt, expiresAt, scope }: McpConnectionData, accessToken: string): UserToken {
  return { accessToken, obtainedAt, expiresAt, scope: joinedScopes(scope) };
}
