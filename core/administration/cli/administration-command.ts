import type { AdministrationCommand, StorePlace } from './command-arguments.ts';
import type {
  AuditEntry,
  OrganisationRecord,
  Resources,
  ResourcesWriter,
  AuditRecord,
} from '../../ports/resources.ts';
import { randomUUID } from 'node:crypto';
import { GatewayError, messageOf } from '../../errors/gateway-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { StoredRecord } from '../../ports/records.ts';
import { type SecretBox, secretContext } from '../../ports/secret-managers.ts';
import { open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { exportText, readOrganisation, type StoredOrganisation } from '../transfer/stored-organisation.ts';
import { importLimits, readImport } from '../transfer/import-text.ts';
import type { ConfigSource } from '../../config/config-source.ts';
import { formatProblem } from '../../config/problem.ts';
import type { ExportedOrganisationData } from '../transfer/export-schema.ts';
import {
  indexRecords,
  type LinePlace,
  readHead,
  type RecordSection,
  recordsFrom,
  takeRecordLines,
} from '../transfer/export-file.ts';
import { importOrganisation, UnknownMember } from '../transfer/import-organisation.ts';
import { type ImportedRecords, RecordMistake, requireOpenable } from '../transfer/import-records.ts';
import type { ImportReport } from '../transfer/import-tally.ts';
import { endFault } from '../../organisation/audit-chain.ts';

/** A store, and the keys of its secrets. */
export interface KeyRotation {
  readonly resources: Resources;
  /** Seals with the present key; opens what older keys sealed. */
  readonly box: SecretBox;
  /** Ends the use of older keys once no secret is sealed with them. Resolves to a sentence about it. */
  finish(): Promise<string>;
}

/** Outside dependencies of `weir rotate-secrets`. */
interface RotationTools {
  /**
   * Opens the store and its keys; a key file gets a new key, unless the previous rotation was cut short. Rejects with a
   * sentence for the operator.
   */
  atKeys(place: StorePlace, use: (rotation: KeyRotation) => Promise<number>): Promise<number>;
  readonly clock: Pick<Clock, 'now'>;
  print(text: string): void;
  complain(text: string): void;
}

/** A place in an audit chain: number 0 before its first record. */
interface ChainPlace {
  readonly number: number;
  readonly hash: string;
}

/** Outside dependencies of these commands. Everything rejects with an error whose message is for the operator. */
export interface AdministrationTools extends Pick<RotationTools, 'atKeys'> {
  /**
   * Opens the store of the configuration and closes it when `use` has settled. Rejects when an embedded store does not
   * exist, unless `mayBeNew`.
   */
  atStore(
    place: StorePlace & { readonly mayBeNew?: boolean },
    use: (resources: Resources) => Promise<number>,
  ): Promise<number>;
  /** The keys of a gateway with this data folder, for the secrets of imported records. */
  secretBox(place: StorePlace): Promise<SecretBox>;
  /** The place before the first record of every chain. */
  readonly chainStart: ChainPlace;
  /** Checks that these records were appended after `previous`; gives the first one that was not, and why. */
  verifyChain(
    records: readonly AuditRecord[],
    previous: ChainPlace,
  ): { readonly ok: true } | { readonly ok: false; readonly number: number; readonly reason: string };
  readonly clock: Pick<Clock, 'now'>;
  print(text: string): void;
  complain(text: string): void;
}

const actor = 'weir rotate-secrets';

/** Passes over the store: a running gateway may still seal secrets with the previous key meanwhile. */
const maxPasses = 5;

const maxNamed = 20;

interface Tally {
  /** Secrets that were sealed anew, and those that no key opens, each by its record. */
  resealed: number;
  readonly failed: Map<string, string>;
}

/** Runs `weir rotate-secrets`: 1 when a secret could not be opened. Rejects with a sentence for the operator. */
function runRotateSecretsCommand(
  place: StorePlace,
  { atKeys, clock, print, complain }: RotationTools,
): Promise<number> {
  return atKeys(place, async (rotation) => {
    const tally: Tally = { resealed: 0, failed: new Map() };
    let isDone = false;
    for (let pass = 1; pass <= maxPasses && !isDone; pass++) {
      const before = tally.resealed;
      await resealAll(rotation, clock, tally);
      isDone = tally.resealed === before;
    }
    print(`${tally.resealed} secrets were sealed anew, with the key ${rotation.box.keyId}.`);
    if (tally.failed.size === 0 && isDone) {
      print(await rotation.finish());
      return 0;
    }
    for (const text of [...tally.failed.values()].slice(0, maxNamed)) complain(text);
    complain(
      tally.failed.size === 0
        ? 'Something goes on storing secrets with an older key: give every gateway the present one, then repeat this. Older keys are kept.'
        : `${tally.failed.size} secrets could not be opened. Older keys are kept: give the missing ones in WEIR_SECRET_KEY_PREVIOUS, or store the secrets again, then repeat this.`,
    );
    return 1;
  });
}

async function resealAll({ resources, box }: KeyRotation, clock: Pick<Clock, 'now'>, tally: Tally) {
  for (let afterId = ''; ;) {
    const page = await resources.read(({ records }) => records.withSecrets(afterId));
    const last = page.at(-1);
    if (last === undefined) return;
    afterId = last.id;
    const stale = page.filter((record) => isStale(box, record));
    for (const [organisationId, records] of byOrganisation(stale)) {
      tally.resealed += await resources.write(organisationId, async (writer) => {
        let resealed = 0;
        for (const record of records) resealed += await resealOne(writer, record, { box, clock, tally });
        const entry = { organisationId, at: clock.now(), resealed, keyId: box.keyId };
        if (resealed > 0) await writer.audit.append(auditEntry(entry));
        return resealed;
      });
    }
  }
}

function byOrganisation(records: readonly StoredRecord[]): ReadonlyMap<string, StoredRecord[]> {
  const groups = new Map<string, StoredRecord[]>();
  for (const record of records) {
    const group = groups.get(record.organisationId);
    if (group === undefined) groups.set(record.organisationId, [record]);
    else group.push(record);
  }
  return groups;
}

function isStale(box: SecretBox, { secrets }: StoredRecord): boolean {
  return Object.values(secrets).some((sealed) => !box.isCurrent(sealed));
}

interface Resealing {
  readonly box: SecretBox;
  readonly clock: Pick<Clock, 'now'>;
  readonly tally: Tally;
}

/** Seals the record anew; resolves to its number of resealed secrets. */
async function resealOne(
  { records }: Pick<ResourcesWriter, 'records'>,
  found: StoredRecord,
  { box, clock, tally }: Resealing,
): Promise<number> {
  // The record may have changed since the page was read; it cannot change within this transaction.
  const record = await records.find(found.kind, { organisationId: found.organisationId }, found.id);
  if (record === undefined) return 0;
  const secrets: Record<string, string> = { ...record.secrets };
  let resealed = 0;
  for (const [field, sealed] of Object.entries(record.secrets)) {
    if (box.isCurrent(sealed)) continue;
    const context = secretContext(record.id, field);
    try {
      secrets[field] = box.seal(box.open(sealed, context), context);
      resealed += 1;
    } catch (error) {
      if (!GatewayError.is(error)) throw error;
      const { kind, slug, organisationId } = record;
      tally.failed.set(context, `${kind} "${slug}" of ${organisationId}, ${field}: ${error.message}`);
    }
  }
  if (resealed === 0) return 0;
  const change = { secrets, updatedAt: clock.now(), updatedBy: actor, version: record.version + 1 };
  const isStored = await records.replace({ ...record, ...change });
  return isStored ? resealed : 0;
}

interface Resealed {
  readonly organisationId: string;
  readonly at: number;
  readonly resealed: number;
  readonly keyId: string;
}

function auditEntry({ organisationId, at, resealed, keyId }: Resealed): AuditEntry {
  return {
    id: randomUUID(),
    organisationId,
    workspaceId: '',
    at,
    actorType: 'system',
    actorId: actor,
    actorName: actor,
    action: 'rotate',
    resourceType: 'secrets',
    resourceId: '',
    // It was not asked for over HTTP: there is no request to name.
    method: '',
    uri: '',
    requestId: '',
    status: 200,
    clientIp: '',
    details: JSON.stringify({ secrets: resealed, key_id: keyId }),
  };
}

/**
 * Runs `weir export`, `weir import`, `weir audit verify` or `weir rotate-secrets`. Resolves to its exit code: 0, or 1
 * when something is wrong.
 */
export async function runAdministrationCommand(
  command: AdministrationCommand,
  tools: AdministrationTools,
): Promise<number> {
  try {
    if (command.name === 'export') return await runExportCommand(command, tools);
    if (command.name === 'import') return await runImportCommand(command, tools);
    if (command.name === 'rotate-secrets') return await runRotateSecretsCommand(command, tools);
    return await runAuditCommand(command, tools);
  } catch (error) {
    tools.complain(messageOf(error));
    return 1;
  }
}

type Tools = Pick<AdministrationTools, 'atStore' | 'chainStart' | 'verifyChain' | 'print' | 'complain'>;

/** Runs `weir audit verify`: 1 when a chain was altered. Rejects with a sentence for the operator. */
function runAuditCommand(
  command: Extract<AdministrationCommand, { name: 'audit' }>,
  tools: Tools,
): Promise<number> {
  return tools.atStore(command, async (resources) => {
    const known = await chains(resources);
    const chosen = [...known].filter(([id]) => id === (command.organisation ?? id));
    if (command.organisation !== undefined && chosen.length === 0)
      throw new Error(`The store has no organisation "${command.organisation}".`);
    let code = 0;
    for (const [id, name] of chosen) {
      const verdict = await verify(resources, id, tools);
      const title = name === undefined ? id : `${id} (${name})`;
      if (verdict.fault === undefined) tools.print(`${title}: ${verdict.records} records, ok`);
      else {
        code = 1;
        tools.complain(`${title}: ${verdict.fault}`);
      }
    }
    if (chosen.length === 0) tools.print('The store has no organisation, and no audit trail.');
    return code;
  });
}

/** Every organisation with its name; includes those that have changes but no record of their own. */
async function chains(
  resources: Pick<Resources, 'read' | 'changes'>,
): Promise<ReadonlyMap<string, string | undefined>> {
  const organisations = await resources.read((reader) => reader.organisations.list());
  const names = new Map<string, string | undefined>(organisations.map(({ id, name }) => [id, name]));
  for (const id of (await resources.changes()).keys()) if (!names.has(id)) names.set(id, undefined);
  return names;
}

interface Verdict {
  readonly records: number;
  /** Undefined when the chain is intact. */
  readonly fault: string | undefined;
}

async function verify(
  resources: Pick<Resources, 'read'>,
  organisationId: string,
  { chainStart, verifyChain }: Tools,
): Promise<Verdict> {
  let last = chainStart;
  for (;;) {
    const { number } = last;
    // The end is read on the same view as the records: a gateway may write meanwhile.
    const { records, head } = await resources.read(async ({ audit }) => ({
      records: await audit.chain(organisationId, number),
      head: await audit.head(organisationId),
    }));
    const verdict = verifyChain(records, last);
    if (!verdict.ok) return { records: number, fault: verdict.reason };
    const end = records.at(-1);
    if (end === undefined) return { records: number, fault: endFault(last, head) };
    last = { number: end.number, hash: end.hash };
  }
}

type ExportTools = Pick<AdministrationTools, 'atStore' | 'print' | 'complain'>;

/** Runs `weir export`. Rejects with a sentence for the operator. */
export function runExportCommand(
  command: Extract<AdministrationCommand, { name: 'export' }>,
  { atStore, print, complain }: ExportTools,
): Promise<number> {
  return atStore(command, async (resources) => {
    const organisations: StoredOrganisation[] = [];
    for (const one of await chosenOrganisations(resources, command.organisation))
      organisations.push(await resources.read((reader) => readOrganisation(reader, one)));
    const { text, values } = exportText(organisations);
    if (command.out === undefined) {
      print(text.trimEnd());
      await eachRecordLine(resources, organisations, print);
    } else {
      await writeWhole(path.resolve(command.out), async (write) => {
        await write(text);
        await eachRecordLine(resources, organisations, (line) => write(`${line}\n`));
      });
      print(`${command.out}: ${organisations.length} organisations`);
    }
    if (Buffer.byteLength(text) <= importLimits.bytes && values <= importLimits.values) return 0;
    complain(
      `This is more than weir import reads at once (${importLimits.values} values, ${importLimits.bytes} bytes): split the file, or export with --organisation.`,
    );
    return 1;
  });
}

/** Organisations of a command: one by its id, or all. Throws when none has this id. */
async function chosenOrganisations(
  resources: Pick<Resources, 'read'>,
  id: string | undefined,
): Promise<readonly OrganisationRecord[]> {
  const all = await resources.read(({ organisations }) => organisations.list());
  const chosen = id === undefined ? all : all.filter((one) => one.id === id);
  if (id === undefined || chosen.length > 0) return chosen;
  const known = all.slice(0, 20).map((one) => `${one.id} (${one.name})`);
  throw new Error(
    `The store has no organisation "${id}". It has: ${known.length === 0 ? 'none' : known.join(', ')}.`,
  );
}

/** Lines of the records of these organisations, each as soon as it is read; one transaction per page. */
async function eachRecordLine(
  resources: Pick<Resources, 'read'>,
  organisations: readonly StoredOrganisation[],
  take: (line: string) => void | Promise<void>,
): Promise<void> {
  for (const { organisation, workspaces } of organisations) {
    const owner = { organisationId: organisation.id, workspaces: new Set(workspaces.map(({ id }) => id)) };
    for (let next: string | undefined = ''; next !== undefined;) {
      const afterId: string = next;
      next = await resources.read((reader) => takeRecordLines(reader, owner, afterId, take));
    }
  }
}

/** Writes the file atomically, readable by this user only. */
async function writeWhole(
  file: string,
  content: (write: (text: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    const handle = await open(temporary, 'w', 0o600);
    try {
      // One write at a time: memory holds one line.
      await content(async (text) => void (await handle.appendFile(text)));
    } finally {
      await handle.close();
    }
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    if (!(error instanceof Error) || !('syscall' in error)) throw error;
    throw new Error(`${file} cannot be written: ${error.message}. Name another file (--out).`, {
      cause: error,
    });
  }
}

const maxDiffering = 50;

type ImportCommand = Extract<AdministrationCommand, { name: 'import' }>;

type ImportTools = Pick<AdministrationTools, 'atStore' | 'secretBox' | 'clock' | 'print' | 'complain'>;

/** Runs `weir import`: opens nothing before the whole file is valid. Rejects with a sentence for the operator. */
async function runImportCommand(command: ImportCommand, tools: ImportTools): Promise<number> {
  const file = path.resolve(command.file);
  const { head, lines } = await readHead(file, importLimits.bytes).catch((error: unknown) => {
    throw new Error(`${command.file} ${messageOf(error)}.`, { cause: error });
  });
  const parsed = readImport(head, command.file);
  const problems = parsed.ok ? [] : [...parsed.problems];
  const organisations = parsed.ok ? parsed.organisations : [];
  const known = new Set(organisations.map(({ id }) => id));
  const records = parsed.ok && lines !== undefined ? await indexRecords(file, lines, known) : undefined;
  for (const problem of records?.problems ?? []) problems.push({ ...problem, file: command.file });
  for (const problem of problems) tools.complain(formatProblem(problem));
  if (!parsed.ok || problems.length > 0) return 1;
  const work: ImportWork = { command, tools, file, source: parsed.source, sections: records?.sections };
  return tools.atStore({ ...command, mayBeNew: true }, async (resources) => {
    let code = 0;
    for (const [index, data] of organisations.entries()) {
      const report = await importOne(resources, data, `/organisations/${index}`, work);
      if (report === undefined || report.kept.length > 0) code = 1;
      if (report !== undefined) tools.print(reportText(report));
    }
    return code;
  });
}

interface ImportWork {
  readonly command: ImportCommand;
  readonly tools: ImportTools;
  /** Absolute path. */
  readonly file: string;
  readonly source: ConfigSource;
  /** By organisation id. */
  readonly sections: ReadonlyMap<string, RecordSection> | undefined;
}

async function importOne(
  resources: Pick<Resources, 'write'>,
  data: ExportedOrganisationData,
  pointer: string,
  work: ImportWork,
): Promise<ImportReport | undefined> {
  const { command, tools, source } = work;
  const { replace, file } = command;
  const start = work.sections?.get(data.id)?.start.number;
  try {
    const records = await recordsOf(data.id, work);
    const options = { replace, now: tools.clock.now(), file: path.basename(file) };
    return await importOrganisation(resources, data, options, records);
  } catch (error) {
    const at = error instanceof UnknownMember ? pointer + error.pointer : pointer;
    const isLine = error instanceof RecordMistake;
    const place = isLine ? { file, line: error.line, column: 1 } : source.locate(at);
    const outcome =
      isLine && error.first !== start
        ? `What stands before line ${error.first} was imported, and nothing from there on: correct it, and import the file again`
        : `Nothing of the organisation "${data.name}" was imported`;
    const message = `${messageOf(error).replace(/\.$/, '')}. ${outcome}`;
    tools.complain(formatProblem({ ...place, path: at, message }));
    return undefined;
  }
}

/** Records of an organisation. Rejects when their secrets cannot be opened here. */
async function recordsOf(
  organisationId: string,
  { command, tools, file, sections }: ImportWork,
): Promise<ImportedRecords | undefined> {
  const section = sections?.get(organisationId);
  if (section === undefined) return undefined;
  const { start, hasSecrets } = section;
  const lines = (from: LinePlace) => recordsFrom(file, organisationId, from);
  if (!hasSecrets) return { start, lines, box: undefined };
  const records = { start, lines, box: await tools.secretBox(command) };
  await requireOpenable(records);
  return records;
}

function reportText({ organisation, added, equal, replaced, kept }: ImportReport): string {
  const more = kept.length - maxDiffering;
  return [
    `${organisation.id} (${organisation.name}): ${added} added, ${equal} were there already, ${replaced} replaced, ${kept.length} differ and stay`,
    ...kept.slice(0, maxDiffering).map((one) => `  differs: ${one}`),
    ...(more > 0 ? [`  … and ${more} more`] : []),
  ].join('\n');
}
