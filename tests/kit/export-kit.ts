/** What tests of exports need: a store of records in memory, logs to read, a run's place. */
import { readFeatures } from '../../core/access/features.ts';
import type { ExportPlace } from '../../core/administration/exports/export-rights.ts';
import type { LogQuery, LogRecord } from '../../core/ports/analytics.ts';
import type { Blobs, LogExports } from '../../core/ports/exports.ts';
import type { Directory } from '../../core/ports/directory.ts';
import { withoutStore } from '../../core/organisation/without-store.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { JobDefinition, JobRun } from '../../core/ports/jobs.ts';
import type { LogExportData } from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { Resources } from '../../core/ports/resources.ts';
import { fileFormats } from '../../adapters/file-formats/index.ts';
import { dataVisibility } from '../../plugins/management/shared/data-visibility.ts';
import { bodyRow, requestRow, storedTime } from '../conformance/analytics-rows.ts';
import { testKey, testScope } from './plugin-kit.ts';
import { testSecrets } from './test-secrets.ts';

type ExportRecord = StoredRecord<'log_export'>;

const exportFrom = Date.UTC(2026, 4, 17);
const exportTo = exportFrom + 86_400_000;

/** A record of an export that was started; give what matters. */
export function exportRecord(data: Partial<LogExportData> = {}, id = 'export-1'): ExportRecord {
  return {
    kind: 'log_export',
    id,
    organisationId: 'org-1',
    workspaceId: 'ws-1',
    slug: id,
    name: id,
    status: 'active',
    parentId: '',
    secrets: {},
    createdBy: 'key-1',
    updatedBy: 'key-1',
    createdAt: exportTo,
    updatedAt: exportTo,
    version: 1,
    data: {
      description: '',
      format: 'jsonl',
      requestedData: ['id', 'request', 'cost'],
      filters: {},
      from: exportFrom,
      to: exportTo,
      filter: {},
      skip: 0,
      limit: 10_000_000,
      total: 0,
      rows: 0,
      visibleUserId: undefined,
      visibleKeyId: undefined,
      state: 'in_progress',
      run: 1,
      bytes: 0,
      error: '',
      startedAt: exportTo,
      finishedAt: undefined,
      expiresAt: undefined,
      creator: {
        keyId: 'key-1',
        keyName: 'first key',
        kind: 'workspace-service',
        workspaceId: 'ws-1',
        userId: '',
        isKnownKey: true,
        isKnownUser: false,
      },
      ...data,
    },
  };
}

/** Exports whose work never begins, and whose makers keep their rights. */
export const idleExports: LogExports = {
  rules: { deniedFields: [], maxRows: 1000 },
  requireRights: () => undefined,
  enqueue: () => Promise.resolve(),
  discard: () => Promise.resolve(),
  link: (_, origin) => Promise.resolve({ url: origin, expiresAt: exportTo }),
  readToken() {
    throw new GatewayError('key_invalid', 'This is no link to an export.');
  },
  open: () => Promise.resolve(undefined),
};

/** The records of exports, and nothing else, in memory. */
export class ExportRecords {
  readonly records = new Map<string, ExportRecord>();
  writes = 0;

  constructor(...records: readonly ExportRecord[]) {
    for (const record of records) this.records.set(record.id, record);
  }

  get resources(): Resources {
    const { records } = this;
    const reader = {
      organisations: { list: () => Promise.resolve([{ id: 'org-1', name: 'one', createdAt: 0 }]) },
      records: {
        find: (_: string, __: unknown, id: string) => Promise.resolve(records.get(id)),
        list: (_: string, __: string, ___: unknown, { offset, limit }: { offset: number; limit: number }) =>
          Promise.resolve({
            total: records.size,
            data: [...records.values()].slice(offset, offset + limit),
          }),
        replace: (record: ExportRecord) => {
          if (records.get(record.id)?.version !== record.version - 1) return Promise.resolve(false);
          records.set(record.id, record);
          this.writes += 1;
          return Promise.resolve(true);
        },
      },
    };
    return {
      read: (work: (reader: unknown) => unknown) => work(reader),
      write: (_: string, work: (writer: unknown) => unknown) => work(reader),
    } as Partial<Resources> as Resources;
  }

  data(id = 'export-1'): LogExportData {
    const record = this.records.get(id);
    if (record === undefined) throw new Error(`There is no export ${id}.`);
    return record.data;
  }

  change(data: Partial<LogExportData>, id = 'export-1'): void {
    const record = this.records.get(id);
    if (record === undefined) throw new Error(`There is no export ${id}.`);
    this.records.set(id, { ...record, version: record.version + 1, data: { ...record.data, ...data } });
  }
}

/** Log entry number `index` of many: the same whenever it is asked for. Several share a time. */
export function logEntry(index: number, bodyBytes = 100): LogRecord {
  const request = requestRow({
    id: `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`,
    created_at: storedTime(exportFrom + Math.floor(index / 7)),
    organisation_id: 'org-1',
    workspace_id: 'ws-1',
    api_key_id: 'key-1',
    cost: `0.${String(index).padStart(12, '0')}`,
  });
  const filling = 'x'.repeat(bodyBytes);
  return { request, body: bodyRow(request, { request: `{"index":${index},"text":"${filling}"}` }) };
}

/** A store with so many entries, made when they are asked for. */
export class ManyLogs {
  readonly queries: LogQuery[] = [];
  readonly counted: Pick<LogQuery, 'window' | 'visibility' | 'filter'>[] = [];
  readonly #count: number;
  readonly #bodyBytes: number;
  /** Asked before every page. */
  onPage: (page: number) => void | Promise<void> = () => undefined;

  constructor(count: number, bodyBytes = 100) {
    this.#count = count;
    this.#bodyBytes = bodyBytes;
  }

  countLogs(query: Pick<LogQuery, 'window' | 'visibility' | 'filter'>): Promise<number> {
    this.counted.push(query);
    return Promise.resolve(this.#count);
  }

  async logs(query: LogQuery): Promise<readonly LogRecord[]> {
    this.queries.push(query);
    await this.onPage(this.queries.length);
    const { after, limit, bodies } = query;
    const first = after === undefined ? 0 : Number(after.id.slice(-12)) + 1;
    const count = Math.max(0, Math.min(limit, this.#count - first));
    return Array.from({ length: count }, (_, at) => {
      const entry = logEntry(first + at, this.#bodyBytes);
      return bodies === true ? entry : { request: entry.request, body: undefined };
    });
  }
}

/** Jobs that are run when the test says so. */
class HandJobs {
  readonly added: { readonly id: string; readonly data: unknown; readonly delayMs: number }[] = [];
  readonly #definitions = new Map<string, JobDefinition<never>>();

  define<T>(definition: JobDefinition<T>): void {
    this.#definitions.set(definition.name, definition);
  }

  repeat(): void {
    // Nothing comes by itself here.
  }

  add(
    name: string,
    id: string,
    data: unknown,
    { delayMs = 0 }: { readonly delayMs?: number } = {},
  ): Promise<void> {
    if (!this.#definitions.has(name)) throw new TypeError(`No job ${name} is defined.`);
    this.added.push({ id, data, delayMs });
    return Promise.resolve();
  }

  run(name: string, data: unknown, run: Partial<JobRun<unknown>> = {}): Promise<void> {
    const job = { id: name, attempt: 1, signal: new AbortController().signal, ...run, data };
    return this.#definitions.get(name)?.handle(job as JobRun<never>) ?? Promise.reject(new Error(name));
  }

  /** Runs what was added, and what that adds, until nothing is left. */
  async drain(): Promise<number> {
    let count = 0;
    for (let next = this.added.shift(); next !== undefined; next = this.added.shift()) {
      await this.run('exports.run', next.data);
      count += 1;
    }
    return count;
  }
}

/** A directory that knows `key-1`, which may export. */
export function exportDirectory(changes: Partial<Directory> = {}): Directory {
  return {
    ...withoutStore,
    keyByHash: () => undefined,
    keyById: (id) => (id === 'key-1' ? testKey({ scopes: ['logs.export'] }) : undefined),
    defaultOrganisationId: 'org-1',
    defaultWorkspaceId: 'ws-1',
    ...changes,
  };
}

/** Everything that a run needs. */
export function exportPlace(
  parts: Pick<ExportPlace, 'analytics' | 'resources'> & { readonly blobs: Blobs } & Partial<ExportPlace>,
): ExportPlace & { readonly jobs: HandJobs } {
  const { scope } = testScope();
  return {
    directory: exportDirectory(),
    formats: fileFormats,
    secrets: testSecrets,
    features: readFeatures({}),
    rule: dataVisibility,
    clock: scope.clock,
    log: scope.log,
    settings: { expires_days: 7, max_rows: 10_000_000, link_minutes: 60, denied_fields: [] },
    ...parts,
    jobs: new HandJobs(),
  };
}
