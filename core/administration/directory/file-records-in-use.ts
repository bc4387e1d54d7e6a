import type { Clock } from '../../ports/clock.ts';
import { FileRecords, type FileRecordsPlace } from './file-records.ts';
import type { OwnedFile } from './owned-file.ts';
import type { Log } from '../../ports/log.ts';
import type { RecordKind } from '../../ports/records.ts';
import type { Resources } from '../../ports/resources.ts';
import { readAllKeys } from './read-changes.ts';

const maxWarnings = 20;

/**
 * Warns of store records that share a slug, name or secret with one that the file owns; at most 20 times. They stay: a
 * workspace or record remains reachable by id; of keys with one secret the file's wins. Never rejects; logs a failure
 * to ask the store.
 */
export async function warnOfTwins(
  resources: Pick<Resources, 'read'>,
  records: FileRecords,
  log: Log,
): Promise<void> {
  let warnings = 0;
  const warn = (message: string, id: string, ownId: string): void => {
    if (++warnings <= maxWarnings) log.warn(message, { id, place: records.placeOf(ownId) });
  };
  try {
    await warnOfWorkspaces(resources, records, warn);
    await warnOfKeys(resources, records, warn);
    await warnOfRecords(resources, records, warn);
  } catch (error) {
    log.warn('Whether the store has records of the same names as the configuration file is not known', {
      error,
    });
  }
}

type Warn = (message: string, id: string, ownId: string) => void;

async function warnOfWorkspaces(
  resources: Pick<Resources, 'read'>,
  { organisationId, workspaces: own }: FileRecords,
  warn: Warn,
): Promise<void> {
  if (own.length === 0) return;
  await resources.read(async ({ workspaces }) => {
    for (const { id, slug, name } of own) {
      const bySlug = await workspaces.find(organisationId, slug);
      if (bySlug !== undefined)
        warn(
          `A workspace of the store has the slug "${slug}" of one that the file owns: it is found by its id alone`,
          ...[bySlug.id, id],
        );
      const { data } = await workspaces.list(organisationId, { exactName: name }, { offset: 0, limit: 1 });
      const [byName] = data;
      if (byName !== undefined && byName.id !== bySlug?.id)
        warn(
          `A workspace of the store is named "${name}" like one that the file owns; rename one of them`,
          byName.id,
          id,
        );
    }
  });
}

async function warnOfKeys(
  resources: Pick<Resources, 'read'>,
  records: FileRecords,
  warn: Warn,
): Promise<void> {
  if (records.apiKeys.length === 0) return;
  const identity = (name: string, type: string, workspaceId: string | undefined): string =>
    JSON.stringify([name, type, workspaceId]);
  const own = new Map(
    records.apiKeys.map((key) => [identity(key.name, key.type, key.workspaceId), key] as const),
  );
  await readAllKeys(resources, (key) => {
    const twin = own.get(identity(key.name, key.type, key.workspaceId));
    if (twin !== undefined && key.organisationId === records.organisationId)
      warn(`A key of the store is named "${key.name}" like one that the file owns`, key.id, twin.id);
    for (const { hash } of key.secrets) {
      const same = records.keyByHash(hash);
      if (same !== undefined)
        warn(
          `A key of the store has the secret of "${same.name}", which the file owns: the file's is used`,
          key.id,
          same.id,
        );
    }
  });
}

const ownedKinds: readonly RecordKind[] = [
  ...(['integration', 'provider', 'config', 'guardrail', 'rate_limit_policy', 'usage_limit_policy'] as const),
];
/** Bound of stored records compared with one of the file. */
const alikePageSize = 100;

async function warnOfRecords(
  resources: Pick<Resources, 'read'>,
  { organisationId, resources: own }: FileRecords,
  warn: Warn,
): Promise<void> {
  for (const kind of ownedKinds) {
    for (const { id, slug, workspaceId } of own.list(kind)) {
      const filter = { search: slug, ...(workspaceId !== undefined && { workspaceId }) };
      const page = { offset: 0, limit: alikePageSize };
      const { data } = await resources.read(({ records }) =>
        records.list(kind, organisationId, filter, page),
      );
      for (const twin of data)
        if (twin.slug === slug)
          warn(
            `A ${kind.replaceAll('_', ' ')} of the store has the slug "${slug}" of one that the file owns: it is found by its id alone`,
            twin.id,
            id,
          );
    }
  }
}

/** Records of the serving configuration; follows reloads. */
export class FileRecordsInUse {
  readonly #recordsOf: (file: OwnedFile) => FileRecords;
  #serving: () => OwnedFile;
  #config: OwnedFile['config'];
  #records: FileRecords;
  #changed: (records: FileRecords) => void = () => undefined;

  /** `first` is the configuration at the start of the process. */
  constructor(first: OwnedFile, place: FileRecordsPlace, clock: Pick<Clock, 'now'>) {
    this.#recordsOf = fileRecordsOf(place, clock);
    this.#serving = () => first;
    this.#config = first.config;
    this.#records = this.#recordsOf(first);
  }

  // Passed on unbound.
  readonly current = (): FileRecords => {
    const file = this.#serving();
    if (file.config !== this.#config) {
      this.#config = file.config;
      this.#records = this.#recordsOf(file);
      this.#changed(this.#records);
    }
    return this.#records;
  };

  /** Switches to the configuration that `serving` gives. */
  follow(serving: () => OwnedFile): void {
    this.#serving = serving;
  }

  /** Computes the records of a configuration before it serves, so that no request waits for it. */
  prepare(file: OwnedFile): void {
    this.#recordsOf(file);
  }

  /** Calls `changed` with the present records, and with new ones at their first use. */
  onChange(changed: (records: FileRecords) => void): void {
    this.#changed = changed;
    changed(this.current());
  }
}

/** Makes the records of each configuration once. */
function fileRecordsOf(place: FileRecordsPlace, clock: Pick<Clock, 'now'>): (file: OwnedFile) => FileRecords {
  const made = new WeakMap<OwnedFile['config'], FileRecords>();
  return (file) => {
    let records = made.get(file.config);
    if (records === undefined) made.set(file.config, (records = new FileRecords(file, place, clock.now())));
    return records;
  };
}
