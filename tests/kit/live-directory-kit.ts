/** The directory of a gateway in front of a real store, for tests. */
import { createDirectory } from '../../core/administration/directory/live-directory.ts';
import { RecordingMetrics } from '../../core/lifecycle/recording-services.test-support.ts';
import { withoutStore } from '../../core/organisation/without-store.ts';
import type { Directory } from '../../core/ports/directory.ts';
import type { Resources } from '../../core/ports/resources.ts';
import { systemClock } from '../../core/ports/clock.ts';
import { recordingLog } from '../../storage/embedded/chdb-fixture.ts';
import type { Closing } from './postgres-kit.ts';

/** What a gateway knows of a store, and the store with writes that it knows of when they resolve. */
export interface OpenedDirectory {
  readonly resources: Resources;
  readonly directory: Partial<Directory>;
}

/** Follows the store until the test ends. */
export async function openTestDirectory(closing: Closing, resources: Resources): Promise<OpenedDirectory> {
  const live = createDirectory({
    base: {
      ...withoutStore,
      keyByHash: () => undefined,
      defaultOrganisationId: 'live-org',
      defaultWorkspaceId: 'live-ws',
    },
    owner: { id: 'live-owner', email: 'owner@example.com' },
    resources,
    clock: systemClock,
    log: recordingLog(),
    metrics: new RecordingMetrics(),
  });
  await live.start();
  closing.after(() => {
    live.close();
    return Promise.resolve();
  });
  return {
    resources: live.resources,
    directory: {
      keyByHash: (hash) => live.keyByHash(hash),
      keyById: (id) => live.keyById(id),
      isArchived: (id) => live.isArchived(id),
      workspaceId: (organisationId, name) => live.workspaceId(organisationId, name),
      defaultsOf: (organisationId, workspaceId) => live.defaultsOf(organisationId, workspaceId),
      rateLimitsOf: (organisationId, workspaceId) => live.rateLimitsOf(organisationId, workspaceId),
      settingsIn: (organisationId, workspaceId) => live.settingsIn(organisationId, workspaceId),
      user: (organisationId, name) => live.user(organisationId, name),
      memberRole: (workspaceId, userId) => live.memberRole(workspaceId, userId),
      record: (kind, place, name) => live.record(kind, place, name),
      records: (kind, place) => live.records(kind, place),
    },
  };
}
