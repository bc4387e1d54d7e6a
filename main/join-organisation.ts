// Composition root: a new gateway on a server whose store already has an organisation.
import { sql } from 'drizzle-orm';
import { ensureDefaultRecords } from '../core/administration/directory/default-records.ts';
import { defaultWorkspaceSlug } from '../core/organisation/organisation-block.ts';
import { GatewayError } from '../core/errors/gateway-error.ts';
import { restartExitCode } from '../core/lifecycle/process-guards.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Log } from '../core/ports/log.ts';
import type { Resources } from '../core/ports/resources.ts';
import type { Identity, JoinedIds } from '../storage/identity/open-identity.ts';
import type { Database } from '../storage/postgres/database.ts';

/** Options of joining. */
interface JoinParts {
  readonly identity: Identity;
  readonly database: Database;
  /** Resources in the database. */
  readonly store: Resources;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Advisory lock: of all gateways that start for the first time on one server, one at a time looks for an organisation
 * and creates a missing one.
 */
const lockNumber = '7310579625114302';
const owners = { offset: 0, limit: 100 };

/** The initial identity of a gateway. */
interface Joining {
  readonly identity: Identity;
  /** Undefined when the store has answered. Otherwise to be called when it does: see `joinOrganisation`. */
  readonly joinLater: (() => Promise<void>) | undefined;
}

/**
 * The identity that a gateway serves with: a new data folder joins the single organisation of its store, like replicas
 * on one server, or a gateway after an import; otherwise the gateway keeps its own. While the server is unavailable the
 * gateway serves with its own; when the server answers and has an organisation, the gateway joins that and ends with
 * the exit code for a restart, before anything is written to the store.
 */
export async function joinOrganisation(parts: JoinParts): Promise<Joining> {
  const { identity } = parts;
  if (!identity.isNew) return { identity, joinLater: undefined };
  try {
    return { identity: await joinedIdentity(parts), joinLater: undefined };
  } catch (error) {
    if (!GatewayError.is(error) || error.code !== 'store_unavailable') throw error;
    return { identity, joinLater: joinLater(parts) };
  }
}

/** Joins once the store answers. The directory calls it repeatedly: a second signal would interrupt running work. */
function joinLater(parts: JoinParts): () => Promise<void> {
  let isEnding = false;
  return async () => {
    // Before that, a signal would end the process without closing open resources.
    if (process.listenerCount('SIGTERM') === 0)
      throw new GatewayError('store_unavailable', 'The gateway is still starting.');
    if (!isEnding && (await joinedIdentity(parts)) === parts.identity) return;
    if (!isEnding) {
      isEnding = true;
      parts.log.error(
        'The store has an organisation, which this new data folder joins: the gateway ends, and its next start serves it',
      );
      process.exitCode = restartExitCode;
      process.kill(process.pid, 'SIGTERM');
    }
    throw new GatewayError(
      'store_unavailable',
      'The gateway starts again, to join the organisation of its store.',
    );
  };
}

/** Rejects with `store_unavailable` while the server is unavailable. */
async function joinedIdentity(parts: JoinParts): Promise<Identity> {
  const { identity, database, log } = parts;
  // The embedded engine serves one process, on one connection.
  const found = database.embedded
    ? await organisationToJoin(parts)
    : await database.transaction(async (statements) => {
        await statements.execute(sql`select pg_advisory_xact_lock(${sql.raw(lockNumber)})`);
        return organisationToJoin(parts);
      });
  if (found === undefined) {
    await identity.keepOwn();
    return identity;
  }
  const joined = await identity.join(found);
  log.info('This gateway joins the organisation of its store', { organisation_id: found.organisationId });
  return joined;
}

/** Undefined when there is none, or more than one; when there is none, this gateway's own is created. */
async function organisationToJoin({
  identity,
  store,
  clock,
  log,
}: JoinParts): Promise<JoinedIds | undefined> {
  const [only, ...others] = await store.read(({ organisations }) => organisations.list());
  if (only === undefined) {
    await ensureDefaultRecords(store, { base: identity.directory, owner: identity.owner, clock, log });
    return undefined;
  }
  if (others.length > 0) return undefined;
  return store.read(async ({ workspaces, users }) => {
    const workspace = await workspaces.find(only.id, defaultWorkspaceSlug);
    const { data } = await users.list(only.id, {}, owners);
    const owner =
      (await users.byEmail(only.id, identity.owner.email)) ?? data.find(({ role }) => role === 'owner');
    if (workspace === undefined || owner === undefined) return undefined;
    return { organisationId: only.id, workspaceId: workspace.id, ownerId: owner.id, ownerEmail: owner.email };
  });
}
