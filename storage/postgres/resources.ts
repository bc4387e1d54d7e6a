import {
  groupMappingsReader,
  groupMappingsWriter,
  invitesReader,
  invitesWriter,
  membersReader,
  membersWriter,
  usersReader,
  usersWriter,
} from './people-store.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Resources, ResourcesReader, ResourcesWriter } from '../../core/ports/resources.ts';
import { apiKeysReader, apiKeysWriter } from './api-keys-store.ts';
import { auditReader, auditWriter } from './audit-store.ts';
import type { Database, Statements } from './database.ts';
import { HeldCounters, marksOf } from './held-counters.ts';
import {
  organisationsReader,
  organisationsWriter,
  settingsReader,
  settingsWriter,
  workspacesReader,
  workspacesWriter,
} from './organisations-store.ts';
import { recordsReader, recordsWriter } from './records-store.ts';
import { organisationCounters } from './schema.ts';

const changesChannel = 'weir_changes';
const maxRetries = 3;
const retryPauseMs = 20;

/** Options of `createResources`. */
interface ResourcesOptions {
  /** Opened and migrated; closed with the resources. */
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * The administered resources in a relational database, embedded or on a server.
 *
 * After a writer method has rejected, its transaction is lost: `write` rejects too, even if `work` continues. A
 * deadlock or a conflict with another transaction is retried at most 3 times, so `work` may run again.
 */
export function createResources({ database, clock, log }: ResourcesOptions): Resources {
  const write = <T>(organisationId: string, work: (writer: ResourcesWriter) => Promise<T>): Promise<T> =>
    database.transaction(
      async (statements) => {
        const held = await HeldCounters.hold(statements, organisationId);
        const result = await work(writerOf(statements, held, clock));
        await held.release(statements);
        return result;
      },
      { notify: changesChannel },
    );

  return {
    async write(organisationId, work) {
      for (let tried = 0; ; tried++) {
        try {
          return await write(organisationId, work);
        } catch (error) {
          if (tried === maxRetries || !isConflict(error)) throw error;
          log.debug('two changes got in each other’s way; trying again', {
            organisationId,
            tried: tried + 1,
          });
          await new Promise<void>((resolve) => clock.after(retryPauseMs * (tried + 1), resolve));
        }
      }
    },
    read: (work) => database.transaction((statements) => work(readerOf(statements)), { readOnly: true }),
    async changes() {
      const rows = await database.query((statements) =>
        statements
          .select({ id: organisationCounters.organisationId, changes: organisationCounters.changes })
          .from(organisationCounters),
      );
      return new Map(rows.map(({ id, changes }) => [id, changes]));
    },
    onChange: (look) => database.listen(changesChannel, look),
    ping: () => database.ping(),
    close: () => database.close(),
  };
}

function readerOf(statements: Statements): ResourcesReader {
  return {
    organisations: organisationsReader(statements),
    workspaces: workspacesReader(statements),
    apiKeys: apiKeysReader(statements),
    users: usersReader(statements),
    members: membersReader(statements),
    invites: invitesReader(statements),
    groupMappings: groupMappingsReader(statements),
    settings: settingsReader(statements),
    records: recordsReader(statements),
    audit: auditReader(statements),
    marks: (organisationId) => marksOf(statements, organisationId),
  };
}

function writerOf(statements: Statements, held: HeldCounters, clock: Clock): ResourcesWriter {
  return {
    organisations: { ...organisationsReader(statements), ...organisationsWriter(statements, held) },
    workspaces: { ...workspacesReader(statements), ...workspacesWriter(statements, held) },
    apiKeys: { ...apiKeysReader(statements), ...apiKeysWriter(statements, held, clock) },
    users: { ...usersReader(statements), ...usersWriter(statements, held) },
    members: { ...membersReader(statements), ...membersWriter(statements, held) },
    invites: { ...invitesReader(statements), ...invitesWriter(statements, held) },
    groupMappings: { ...groupMappingsReader(statements), ...groupMappingsWriter(statements, held) },
    settings: { ...settingsReader(statements), ...settingsWriter(statements, held) },
    records: { ...recordsReader(statements), ...recordsWriter(statements, held, clock) },
    audit: { ...auditReader(statements), ...auditWriter(statements, held) },
  };
}

/** A serialisation failure or a deadlock: the same work may succeed on a retry. */
function isConflict(error: unknown): boolean {
  if (!GatewayError.is(error) || !(error.cause instanceof Error) || !('code' in error.cause)) return false;
  return error.cause.code === '40001' || error.cause.code === '40P01';
}
