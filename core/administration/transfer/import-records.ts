import { isDeepStrictEqual } from 'node:util';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { RecordVersion, StoredRecord } from '../../ports/records.ts';
import type { ResourcesWriter } from '../../ports/resources.ts';
import { type SecretBox, secretContext } from '../../ports/secret-managers.ts';
import { type LinePlace, type PlacedLine, shownRecord } from './export-file.ts';
import { type ImportOptions, type ImportTally, withoutDates } from './import-tally.ts';

/** Records of an organisation in a file. */
export interface ImportedRecords {
  /** Start of their lines. */
  readonly start: LinePlace;
  /** Lines from a place on, read anew with each call: a transaction may be retried. */
  readonly lines: (from: LinePlace) => AsyncIterable<PlacedLine>;
  /** Opens their secrets and the store's; undefined when they have none. */
  readonly box: SecretBox | undefined;
}

/** A mistake in a line that only the store can detect. */
export class RecordMistake extends Error {
  /** Number of the line, from 1. */
  readonly line: number;
  /** Number of the line at which its transaction began: earlier lines are stored. */
  readonly first: number;

  constructor(message: string, lines: { readonly line: number; readonly first: number }, cause?: unknown) {
    super(message, { cause });
    this.name = 'RecordMistake';
    this.line = lines.line;
    this.first = lines.first;
  }
}

const maxNamed = 50;

/**
 * Throws a sentence that names up to 50 records whose secrets the box cannot open: they were sealed with a key that is
 * absent here.
 */
export async function requireOpenable({ start, lines, box }: ImportedRecords): Promise<void> {
  const named: string[] = [];
  let count = 0;
  for await (const line of lines(start)) {
    if (!('record' in line) || canOpen(box, line.record)) continue;
    count += 1;
    const { kind, slug } = line.record;
    if (named.length < maxNamed)
      named.push(`${kind.replaceAll('_', ' ')} "${slug}" in line ${line.place.number}`);
  }
  if (count === 0) return;
  const more = count > named.length ? ` and ${count - named.length} more` : '';
  throw new Error(
    `the secrets of these records were sealed with a key that is not here: ${named.join(', ')}${more}; give the key of the gateway that they come from in WEIR_SECRET_KEY or WEIR_SECRET_KEY_PREVIOUS (without these it is in the key file of its data folder)`,
  );
}

function canOpen(box: SecretBox | undefined, record: StoredRecord): boolean {
  try {
    openSecrets(box, record);
    return true;
  } catch (error) {
    if (!GatewayError.is(error)) throw error;
    return false;
  }
}

/** Secrets in clear text, for comparison; two seals of one text always differ. */
function openSecrets(
  box: SecretBox | undefined,
  { id, secrets }: StoredRecord,
): Readonly<Record<string, string>> {
  const fields = Object.entries(secrets);
  if (fields.length === 0) return secrets;
  if (box === undefined) throw new GatewayError('internal', 'There is no key that opens secrets.');
  return Object.fromEntries(
    fields.map(([field, sealed]) => [field, box.open(sealed, secretContext(id, field))]),
  );
}

interface Setting extends ImportedRecords {
  /** Ids of existing workspaces. */
  readonly workspaces: ReadonlySet<string>;
  readonly options: ImportOptions;
}

/** Result for the record to which the following versions belong. */
interface Current {
  readonly isNew: boolean;
  /** It differs from the stored record, which stays; its versions are skipped. */
  readonly isKept: boolean;
}

/** Start of a transaction, and the last record of the previous one. */
export interface RecordsPlace {
  readonly from: LinePlace;
  readonly current: Current;
}

/** Lines per transaction, whose time limit is 30 seconds. */
const linesATransaction = 2000;

/** Puts records of one organisation and their versions into the store, line by line. */
export class RecordsImport {
  readonly #writer: Pick<ResourcesWriter, 'records'>;
  readonly #setting: Setting;
  readonly #tally: ImportTally;

  constructor(writer: Pick<ResourcesWriter, 'records'>, setting: Setting, tally: ImportTally) {
    this.#writer = writer;
    this.#setting = setting;
    this.#tally = tally;
  }

  /** Stores up to 2,000 lines; resolves to the start of the next transaction, if any. Rejects with `RecordMistake`. */
  async run({ from, current: before }: RecordsPlace): Promise<RecordsPlace | undefined> {
    let current = before;
    let count = 0;
    for await (const line of this.#setting.lines(from)) {
      if (count === linesATransaction) return { from: line.place, current };
      count += 1;
      try {
        if ('record' in line) current = await this.#putRecord(line.record);
        else if (!current.isKept) await this.#putVersion(line, current);
      } catch (error) {
        if (!GatewayError.is(error)) throw error;
        throw new RecordMistake(error.message, { line: line.place.number, first: from.number }, error);
      }
    }
    return undefined;
  }

  async #putRecord(record: StoredRecord): Promise<Current> {
    const { kind, id, organisationId, workspaceId } = record;
    const { workspaces, options } = this.#setting;
    if (workspaceId !== undefined && !workspaces.has(workspaceId)) {
      throw new GatewayError(
        'invalid_request',
        `There is no workspace "${workspaceId}", neither in this file nor in the store; add it, or remove the record.`,
      );
    }
    const found = await this.#writer.records.find(kind, { organisationId }, id);
    const before = found?.id === id ? found : undefined;
    const secrets = this.#sealedNow(record, before);
    if (before === undefined) {
      await this.#writer.records.insert({ ...record, secrets });
      this.#tally.note(kind, id, 'added');
      return { isNew: true, isKept: false };
    }
    if (this.#saysTheSame(record, before)) {
      this.#tally.note(kind, id, 'equal');
      return { isNew: false, isKept: false };
    }
    const { createdAt, createdBy, version } = before;
    const change = { createdAt, createdBy, updatedAt: options.now, updatedBy: 'weir import' };
    const next = { ...record, secrets, ...change, version: version + 1 };
    const isReplaced = options.replace && (await this.#writer.records.replace(next));
    this.#tally.note(kind, id, isReplaced ? 'replaced' : 'kept');
    return { isNew: false, isKept: !isReplaced };
  }

  #saysTheSame(record: StoredRecord, before: StoredRecord): boolean {
    const { box } = this.#setting;
    const shown = (one: StoredRecord) => withoutDates(shownRecord({ ...one, secrets: {} }));
    if (!isDeepStrictEqual(shown(record), shown(before))) return false;
    if (isDeepStrictEqual(record.secrets, before.secrets)) return true;
    return canOpen(box, before) && isDeepStrictEqual(openSecrets(box, record), openSecrets(box, before));
  }

  /** Secrets sealed with the present key. */
  #sealedNow(record: StoredRecord, before: StoredRecord | undefined): StoredRecord['secrets'] {
    const { box } = this.#setting;
    if (box === undefined || (before !== undefined && !this.#setting.options.replace)) return record.secrets;
    return Object.fromEntries(
      Object.entries(record.secrets).map(([field, sealed]) => {
        const context = secretContext(record.id, field);
        return [field, box.isCurrent(sealed) ? sealed : box.seal(box.open(sealed, context), context)];
      }),
    );
  }

  async #putVersion(
    { kind, organisationId, version }: Extract<PlacedLine, { readonly version: RecordVersion }>,
    { isNew }: Current,
  ): Promise<void> {
    const { records } = this.#writer;
    const { recordId, number, id, labelId } = version;
    const before = isNew ? undefined : await records.version(kind, organisationId, recordId, { number });
    if (before === undefined) {
      await records.addVersion(kind, organisationId, version);
      return this.#tally.note('version', id, 'added');
    }
    const isSame = before.id === id && isDeepStrictEqual(contentOf(before), contentOf(version));
    if (isSame && before.labelId === labelId) return this.#tally.note('version', id, 'equal');
    // The data of a version are immutable; its label may move.
    const isMoved =
      isSame && this.#setting.options.replace && (await records.label(kind, organisationId, id, labelId));
    this.#tally.note('version', id, isMoved ? 'replaced' : 'kept');
  }
}

function contentOf({ name, data, description }: RecordVersion): object {
  return { name, data, description };
}
