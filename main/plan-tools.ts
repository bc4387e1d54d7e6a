// Composition root: dependencies of `weir plan`.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { createLog } from '../adapters/telemetry/line-log.ts';
import type { Sides } from '../core/administration/changes/compare-requests.ts';
import { type RecordedRequest, recordedRequest } from '../core/administration/changes/recorded-request.ts';
import type { PlanCommand } from '../core/administration/cli/change-arguments.ts';
import type { PlanTools } from '../core/administration/cli/plan-command.ts';
import { readDirectory } from '../core/administration/directory/file-records-directory.ts';
import { isJsonObject } from '../core/base/json.ts';
import { messageOf } from '../core/errors/gateway-error.ts';
import { UndoStack } from '../core/lifecycle/undo-stack.ts';
import { withoutStore } from '../core/organisation/without-store.ts';
import type { LogCursor } from '../core/ports/analytics.ts';
import type { Directory } from '../core/ports/directory.ts';
import type { JournalTable } from '../core/ports/journal.ts';
import { dataFolderHolder } from '../storage/embedded/data-lock.ts';
import { readStoredIds } from '../storage/identity/open-identity.ts';
import { journalFiles } from '../storage/journal/inventory.ts';
import { segmentRows } from '../storage/journal/recover.ts';
import { openDatabase } from '../storage/postgres/open-database.ts';
import { createResources } from '../storage/postgres/resources.ts';
import { type ToolParts, useAnalytics } from './command-tools.ts';
import { askGateway, type GatewayAddress, gatewayAddress } from './ask-gateway.ts';
import { isServer } from './open-analytics.ts';
import { resourcePlaces } from './open-resources.ts';
import { keysOf, openReplay, type ReplayPlace } from './replay-gateway.ts';
import { workerFolders } from './workers/worker-journals.ts';

const pageRows = 500;
/** Of the administration API, with bodies. */
const pageEntries = 50;

/** The tools of `runPlanCommand`. */
export function planTools(
  parts: ToolParts & { readonly environment: Readonly<Record<string, string | undefined>> },
): PlanTools {
  const { clock, print, complain, configFile, load, environment } = parts;
  return {
    ...{ clock, print, complain },
    async requests(command, since) {
      const data = path.resolve(command.data);
      const found = new Map<string, RecordedRequest>();
      for (const one of await recorded(command, since, data)) found.set(one.id, one);
      // The journal has the headers, too.
      for (const one of await journalRequests(data, since, command.limit)) found.set(one.id, one);
      return [...found.values()].sort((one, other) => one.at - other.at).slice(-command.limit);
    },
    async atSides(command, requests, use) {
      const opened = new UndoStack({ clock, timeoutMs: 20_000, onError: (error) => complain(String(error)) });
      try {
        const files = { before: configFile(command.current), after: path.resolve(command.config) };
        const [before, after] = [await load(files.before), await load(files.after)];
        if (!before.ok) return { problems: before.problems };
        if (!after.ok) return { problems: after.problems };
        const ids = [before, after].flatMap(({ config }) => keysOf(config).map(({ id }) => id));
        const saved = await savedRecords(requests, command.url, {
          ...{ config: before.config, file: files.before, data: path.resolve(command.data), clock },
        });
        const { directory, place } = saved;
        const shared = { environment, opened, definedKeys: new Set(ids), place, saved: directory };
        const sides: Partial<Record<'before' | 'probe' | 'after', Sides['before']>> = {};
        for (const [name, loaded] of [
          ['before', before],
          ['probe', before],
          ['after', after],
        ] as const) {
          const file = name === 'after' ? files.after : files.before;
          const side = await openReplay({ ...shared, file, loaded });
          if (!('judge' in side)) return { problems: side };
          sides[name] = side;
        }
        return { result: await use({ ...(sides as Sides), recordsUnread: saved.unread }) };
      } finally {
        await opened.dispose();
      }
    },
  };

  /** Requests of the analytics store, which a running gateway with an embedded engine alone can read. */
  async function recorded(command: PlanCommand, since: number, data: string): Promise<RecordedRequest[]> {
    const loaded = await load(configFile(command.current));
    if (!loaded.ok) return [];
    const { config } = loaded;
    if (config.storage.analytics.url === 'none:') return [];
    const isHeld = (await dataFolderHolder(data)) !== undefined;
    if (command.url !== undefined || (isHeld && !isServer(config)))
      return askedRequests(gatewayAddress(command, config), command, since);
    if (!isServer(config) && !existsSync(data)) return [];
    const ids = await readStoredIds(data);
    if (ids === undefined) return [];
    const place = { config: command.current, data, needsLock: () => !isServer(config) };
    return useAnalytics(parts, place, async (analytics) => {
      const found: RecordedRequest[] = [];
      const room = new BodyRoom();
      const window = { from: since, to: clock.now() + 60_000 };
      let after: LogCursor | undefined;
      while (found.length < command.limit) {
        const records = await analytics.logs({
          ...{ window, order: 'newest', limit: pageRows, bodies: true },
          visibility: { organisationId: ids.defaultOrganisationId },
          ...(after && { after }),
        });
        for (const { request: row, body } of records) {
          const one = recordedRequest.ofRow({ ...row });
          if (one === undefined) continue;
          found.push(body === undefined ? one : room.keep(recordedRequest.withBody(one, { ...body })));
          after = { createdAt: one.at, id: one.id };
        }
        if (records.length < pageRows) break;
      }
      return found;
    });
  }
}

/** The records in the store of the gateway that served the requests. */
interface SavedRecords {
  readonly directory: Directory | undefined;
  /** Organisation and workspace of the gateway, as far as they are known. */
  readonly place: ReplayPlace | undefined;
  /** Why it is not known, in a sentence. */
  readonly unread: string | undefined;
}

const storePatienceMs = 5000;

/** Reads the records that the store holds now: keys, workspaces with their defaults, configs, providers, guardrails. */
async function savedRecords(
  requests: readonly RecordedRequest[],
  url: string | undefined,
  work: Omit<Parameters<typeof resourcePlaces.storePlace>[0], 'log' | 'opened'>,
): Promise<SavedRecords> {
  const { config, data, clock } = work;
  const organisations = new Set(
    requests.map(({ organisationId }) => organisationId).filter((id) => id !== ''),
  );
  const place = await placeOf(requests, data);
  if (place === undefined || config.storage.resources.url === 'none:')
    return { directory: undefined, place, unread: undefined };
  const isEmbedded = config.storage.resources.url.startsWith('pglite:');
  const elsewhere =
    url === undefined || !isEmbedded
      ? undefined
      : `The gateway at ${url} keeps them in its data folder, and ${data} is not that folder. Run the command where the folder is, and name it (--data, WEIR_DATA).`;
  const log = createLog({ level: 'error', format: 'text', write: () => undefined, clock });
  const own = new UndoStack({ clock, timeoutMs: 20_000, onError: () => undefined });
  try {
    const { place: at } = await resourcePlaces.storePlace({ ...work, log, opened: own });
    const options = { place: at, log, clock, patienceMs: storePatienceMs, onlyReads: true };
    const database = await openDatabase(options);
    own.push(() => database.close());
    const store = createResources({ database, clock, log });
    const directory = await readDirectory({ ...withoutKeys, ...place }, store, organisations);
    const none =
      'The store has no organisation of the recorded requests. Name the data folder of their gateway (--data, WEIR_DATA).';
    return { directory, place, unread: directory === undefined ? (elsewhere ?? none) : undefined };
  } catch (error) {
    return { directory: undefined, place, unread: elsewhere ?? messageOf(error) };
  } finally {
    await own.dispose();
  }
}

const withoutKeys = { ...withoutStore, keyByHash: () => undefined };

/** The default organisation and workspace of the data folder when the requests are its own, else those of the newest one. */
async function placeOf(requests: readonly RecordedRequest[], data: string): Promise<ReplayPlace | undefined> {
  const ids = await readStoredIds(data);
  if (
    ids !== undefined &&
    requests.some(({ organisationId }) => organisationId === ids.defaultOrganisationId)
  )
    return ids;
  const newestOne = requests.findLast(
    ({ organisationId, workspaceId }) => organisationId !== '' && workspaceId !== '',
  );
  return (
    newestOne && {
      defaultOrganisationId: newestOne.organisationId,
      defaultWorkspaceId: newestOne.workspaceId,
    }
  );
}

/** Requests of the log of a running gateway. */
async function askedRequests(
  at: GatewayAddress,
  { limit }: PlanCommand,
  since: number,
): Promise<RecordedRequest[]> {
  const found: RecordedRequest[] = [];
  const room = new BodyRoom();
  const from = encodeURIComponent(new Date(since).toISOString());
  let query = `time_of_generation_min=${from}`;
  while (found.length < limit) {
    const page = await askGateway(at, 'GET', `/logs?include=bodies&page_size=${pageEntries}&${query}`);
    if (!isJsonObject(page) || !Array.isArray(page['data'])) break;
    for (const entry of page['data'] as unknown[]) {
      const one = recordedRequest.ofEntry(entry);
      if (one !== undefined) found.push(room.keep(one));
    }
    const { next_cursor: next } = page;
    if (typeof next !== 'string') break;
    query = `cursor=${encodeURIComponent(next)}`;
  }
  return found;
}

/** Most bytes of bodies that are held at once. */
const maxBodyBytes = 512 * 1024 * 1024;

/** Keeps bodies within the bound: requests beyond it are judged without theirs. */
class BodyRoom {
  #bytes = 0;

  keep(request: RecordedRequest): RecordedRequest {
    const { length = 0 } = request.body ?? '';
    if (this.#bytes + length > maxBodyBytes) return { ...request, body: undefined };
    this.#bytes += length;
    return request;
  }
}

/** The newest requests that wait in the journals of the data folder. */
async function journalRequests(data: string, since: number, limit: number): Promise<RecordedRequest[]> {
  const rows: RecordedRequest[] = [];
  await eachRow(data, 'requests', (row) => {
    const request = recordedRequest.ofRow(row);
    if (request !== undefined && request.at >= since) rows.push(request);
    // Twice as many, so that few sorts are needed.
    if (rows.length >= 2 * limit) newest(rows, limit);
  });
  newest(rows, limit);
  const found = new Map(rows.map((request) => [request.id, request]));
  const room = new BodyRoom();
  await eachRow(data, 'bodies', (row) => {
    const request = found.get(String(row['id']));
    if (request !== undefined) found.set(request.id, room.keep(recordedRequest.withBody(request, row)));
  });
  return [...found.values()];
}

/** Leaves only the newest requests. */
function newest(requests: RecordedRequest[], limit: number): void {
  requests.sort((one, other) => other.at - one.at);
  requests.length = Math.min(requests.length, limit);
}

async function eachRow(
  data: string,
  table: JournalTable,
  use: (row: Readonly<Record<string, unknown>>) => void,
): Promise<void> {
  for (const home of [data, ...(existsSync(data) ? await workerFolders(data) : [])]) {
    const folder = path.join(home, 'journal');
    if (!existsSync(folder)) continue;
    for (const { name, path: file, from, end } of await journalFiles.standing(folder)) {
      if (name.table !== table) continue;
      await journalFiles.ifPresent(async () => {
        for await (const line of segmentRows.lines(file, from, end)) {
          const row = segmentRows.read(line);
          if ('value' in row) use(row.value);
        }
      });
    }
  }
}
