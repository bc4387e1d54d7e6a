import type { RecordVersion, StoredRecord } from '../../ports/records.ts';
import type { ResourcesReader } from '../../ports/resources.ts';
import { recordKinds } from './record-data-schema.ts';
import { recordLine, versionLine } from './record-lines.ts';

type Reader = Pick<ResourcesReader, 'records'>;

/** Each may have 1 MiB. */
const versionsAPage = 16;

/** Whose records are read. */
interface RecordOwner {
  readonly organisationId: string;
  /** Records of other workspaces were made since these were read, and are left out. */
  readonly workspaces: ReadonlySet<string>;
}

/**
 * Hands on the lines of a page of records by id, those after `afterId`, each with its versions behind it, oldest first.
 * Resolves to the id that the next page begins after; undefined when there are no more.
 */
export async function takeRecordLines(
  reader: Reader,
  { organisationId, workspaces }: RecordOwner,
  afterId: string,
  take: (line: string) => void | Promise<void>,
): Promise<string | undefined> {
  const page = await reader.records.changedSince(organisationId, 0, recordKinds, afterId);
  for (const record of page) {
    if (record.workspaceId !== undefined && !workspaces.has(record.workspaceId)) continue;
    await take(recordLine(record));
    for await (const version of versionsOf(reader, record)) await take(versionLine(record, version));
  }
  return page.at(-1)?.id;
}

/** The store lists the newest first. */
async function* versionsOf(
  { records }: Reader,
  { kind, organisationId, id }: StoredRecord,
): AsyncGenerator<RecordVersion> {
  const { total } = await records.versions(kind, organisationId, id, { offset: 0, limit: 1 });
  for (let end = total; end > 0; end -= versionsAPage) {
    const offset = Math.max(0, end - versionsAPage);
    const { data } = await records.versions(kind, organisationId, id, { offset, limit: end - offset });
    yield* data.toReversed();
  }
}
