// A part of the composition root: a gateway that is new on a server whose store has an organisation already.
import { sql } from 'drizzle-orm';
import { ensureDefaultRecords } from '../core/directory/default-records.ts';
import { defaultWorkspaceSlug } from '../core/directory/default-workspace.ts';
import { GatewayError } from '../core/errors/gateway-error.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Log } from '../core/ports/log.ts';
import type { Resources } from '../core/ports/resources.ts';
import type { Identity, JoinedIds } from '../storage/identity/open-identity.ts';
import type { Database } from '../storage/postgres/database.ts';

/** What joining needs. */
export interface JoinParts {
  readonly identity: Identity;
  readonly database: Database;
  /** Of the database. */
  readonly store: Resources;
  readonly clock: Clock;
  readonly log: Log;
}

/** Of all gateways that start for the first time on one server, one at a time looks, and makes what is not there. */
const lockNumber = '7310579625114302';
const owners = { offset: 0, limit: 100 };

/**
 * The identity that a gateway serves with: where the store has one organisation, a data folder that was made just now
 * joins it, as replicas on one server are meant to, and a gateway after an import; everywhere else it is its own. A server
 * that is away leaves it its own.
 */
export async function joinOrganisation(parts: JoinParts): Promise<Identity> {
  const { identity, database, log } = parts;
  if (!identity.isNew) return identity;
  try {
    // The embedded engine has nobody beside us, and one connection.
    const found = database.embedded
      ? await organisationToJoin(parts)
      : await database.transaction(async (statements) => {
          await statements.execute(sql`select pg_advisory_xact_lock(${sql.raw(lockNumber)})`);
          return organisationToJoin(parts);
        });
    if (found === undefined) return identity;
    const joined = await identity.join(found);
    log.info('This gateway joins the organisation of its store', { organisation_id: found.organisationId });
    return joined;
  } catch (error) {
    if (GatewayError.is(error) && error.code === 'store_unavailable') return identity;
    throw error;
  }
}

/** Undefined when there is none, or more than one; where there is none, ours is made. */
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
