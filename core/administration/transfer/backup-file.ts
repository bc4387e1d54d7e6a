import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  randomBytes,
  scrypt,
  timingSafeEqual,
} from 'node:crypto';
import { createReadStream } from 'node:fs';
import { Type, type Static } from 'typebox';
import { Value } from 'typebox/value';

/** Version of the written format; higher ones are refused. */
const backupVersion = 1;
export const minPassphraseLength = 12;
const longestLine = 64 * 1024 * 1024;
/** `scrypt` parameters: the work per guess of the passphrase. */
interface PassphraseCost {
  readonly N: number;
  readonly r: number;
  readonly p: number;
}

/** 64 MiB of memory and about a quarter of a second per guess. */
const defaultCost: PassphraseCost = { N: 65_536, r: 8, p: 1 };
const maxCost = { N: 1_048_576, r: 32, p: 16 };
const base64 = Type.String({ pattern: '^[A-Za-z0-9+/]+={0,2}$', maxLength: 1_000_000 });

const Head = Type.Object({
  format: Type.Literal('weir-backup'),
  version: Type.Integer({ minimum: 1 }),
  /** Version of the program that wrote it. */
  weir: Type.String({ maxLength: 100 }),
  created_at: Type.String({ maxLength: 40 }),
  /** Migrations of the schema that the rows conform to. */
  migrations: Type.Array(Type.Object({ name: Type.String(), sha256: Type.String() }), { maxItems: 10_000 }),
  sealed: Type.Object({
    kdf: Type.Literal('scrypt'),
    N: Type.Integer({ minimum: 16_384, maximum: maxCost.N }),
    r: Type.Integer({ minimum: 1, maximum: maxCost.r }),
    p: Type.Integer({ minimum: 1, maximum: maxCost.p }),
    salt: base64,
    cipher: Type.Literal('aes-256-gcm'),
    iv: base64,
    tag: base64,
    text: base64,
  }),
});
/** The first line of a backup. */
export type BackupHead = Static<typeof Head>;

const AnyHead = Type.Object({
  format: Type.Literal('weir-backup'),
  version: Type.Number(),
  weir: Type.String(),
});

/** Files of the data folder by name, as text; encrypted with the passphrase. */
type SealedFiles = Readonly<Record<string, string>>;
const Sealed = Type.Record(Type.String(), Type.String());

interface Keys {
  readonly seal: Buffer;
  readonly check: Buffer;
}

function deriveKeys(passphrase: string, salt: Buffer, { N, r, p }: PassphraseCost): Promise<Keys> {
  return new Promise((resolve, reject) => {
    const options = { N, r, p, maxmem: 256 * N * r };
    scrypt(passphrase.normalize('NFC'), salt, 64, options, (error, key) => {
      if (error === null) resolve({ seal: key.subarray(0, 32), check: key.subarray(32) });
      else reject(error);
    });
  });
}

/** One row, or the table of the following rows. */
type BackupLine = { readonly table: string } | { readonly row: string };

/**
 * The lines of a backup: its head, `{"table":…}` before the rows of each table, one row per line, and an end that
 * counts the rows and authenticates every byte before it. `write` gets each line with its line break.
 */
export class BackupWriter {
  rows = 0;
  readonly #check: ReturnType<typeof createHmac>;
  readonly #write: (text: string) => Promise<void>;

  private constructor(keys: Keys, write: (text: string) => Promise<void>) {
    this.#check = createHmac('sha256', keys.check);
    this.#write = write;
  }

  /** Seals the files and writes the head. */
  static async begin(
    about: Pick<BackupHead, 'weir' | 'created_at'> & {
      readonly migrations: readonly BackupHead['migrations'][number][];
    },
    {
      files,
      passphrase,
      cost = defaultCost,
    }: { readonly files: SealedFiles; readonly passphrase: string; readonly cost?: PassphraseCost },
    write: (text: string) => Promise<void>,
  ): Promise<BackupWriter> {
    const salt = randomBytes(16);
    const iv = randomBytes(12);
    const keys = await deriveKeys(passphrase, salt, cost);
    const cipher = createCipheriv('aes-256-gcm', keys.seal, iv);
    const text = Buffer.concat([cipher.update(JSON.stringify(files), 'utf8'), cipher.final()]);
    const writer = new BackupWriter(keys, write);
    const head: BackupHead = {
      format: 'weir-backup',
      version: backupVersion,
      ...about,
      migrations: [...about.migrations],
      sealed: {
        kdf: 'scrypt',
        ...cost,
        salt: salt.toString('base64'),
        cipher: 'aes-256-gcm',
        iv: iv.toString('base64'),
        tag: cipher.getAuthTag().toString('base64'),
        text: text.toString('base64'),
      },
    };
    await writer.#line(JSON.stringify(head));
    return writer;
  }

  async table(name: string): Promise<void> {
    await this.#line(JSON.stringify({ table: name }));
  }

  /** JSON objects, each on one line. */
  async addRows(rows: readonly string[]): Promise<void> {
    if (rows.length === 0) return;
    this.rows += rows.length;
    await this.#line(rows.join('\n'));
  }

  async end(): Promise<void> {
    const end = { end: true, rows: this.rows, hmac_sha256: this.#check.digest('base64') };
    await this.#write(`${JSON.stringify(end)}\n`);
  }

  async #line(text: string): Promise<void> {
    this.#check.update(`${text}\n`);
    await this.#write(`${text}\n`);
  }
}

/** A backup read to its end and found intact. */
interface VerifiedBackup {
  readonly head: BackupHead;
  readonly files: SealedFiles;
  readonly rows: number;
}

/**
 * Reads a backup to its end. Throws one sentence when it is no backup, too new, truncated or altered, or the passphrase
 * is wrong.
 */
export async function verifyBackup(file: string, passphrase: string): Promise<VerifiedBackup> {
  const lines = linesOf(file);
  const first = (await lines.next()).value;
  const head = readHead(file, first);
  const keys = await deriveKeys(passphrase, Buffer.from(head.sealed.salt, 'base64'), head.sealed);
  const files = openFiles(file, head, keys);
  const check = createHmac('sha256', keys.check).update(first ?? '');
  let rows = 0;
  for await (const line of lines) {
    const end = readEnd(line);
    if (end === undefined) {
      check.update(line);
      if (!line.subarray(0, 9).equals(tableMark)) rows += 1;
      continue;
    }
    // As texts: base64 leaves bits unused, which would count for nothing.
    const said = Buffer.from(end.hmac_sha256);
    const found = Buffer.from(check.digest('base64'));
    if (end.rows !== rows || said.length !== found.length || !timingSafeEqual(said, found))
      throw new Error(`${file} is damaged: its checksum is not that of what it holds. Take another copy.`);
    if ((await lines.next()).done !== true)
      throw new Error(`${file} is damaged: something follows its end. Take another copy.`);
    return { head, files, rows };
  }
  throw new Error(`${file} is cut short: it has no end (${rows} rows were found). Take a whole copy.`);
}

/** Tables and rows of a verified backup. */
export async function* backupLines(file: string): AsyncGenerator<BackupLine> {
  let isHead = true;
  for await (const line of linesOf(file)) {
    if (isHead) isHead = false;
    else if (readEnd(line) !== undefined) return;
    else if (line.subarray(0, 9).equals(tableMark))
      yield JSON.parse(line.toString('utf8')) as { readonly table: string };
    else yield { row: line.toString('utf8').trimEnd() };
  }
}

/** No table has this name as its first column. */
const tableMark = Buffer.from('{"table":');
const endMark = Buffer.from('{"end":true,');

function readHead(file: string, line: Buffer | undefined): BackupHead {
  const value = parse(line);
  if (Value.Check(AnyHead, value) && value.version > backupVersion) {
    throw new Error(
      `${file} was made by a newer version (weir ${value.weir.slice(0, 40)}, format ${value.version}; this one reads ${backupVersion}). Restore it with that version.`,
    );
  }
  if (Value.Check(Head, value)) return value;
  throw new Error(`${file} is no backup of Weir, or its first line is damaged.`);
}

function openFiles(file: string, { sealed }: BackupHead, keys: Keys): SealedFiles {
  try {
    const decipher = createDecipheriv('aes-256-gcm', keys.seal, Buffer.from(sealed.iv, 'base64'), {
      authTagLength: 16,
    });
    decipher.setAuthTag(Buffer.from(sealed.tag, 'base64'));
    const text = Buffer.concat([decipher.update(Buffer.from(sealed.text, 'base64')), decipher.final()]);
    const value: unknown = JSON.parse(text.toString('utf8'));
    if (Value.Check(Sealed, value)) return value;
  } catch {
    // The two cases are indistinguishable.
  }
  throw new Error(`${file} cannot be opened: the passphrase is another one, or its first line was changed.`);
}

function readEnd(line: Buffer): { readonly rows: number; readonly hmac_sha256: string } | undefined {
  if (!line.subarray(0, endMark.length).equals(endMark)) return undefined;
  const value = parse(line);
  return Value.Check(
    Type.Object({ end: Type.Literal(true), rows: Type.Integer(), hmac_sha256: base64 }),
    value,
  )
    ? value
    : undefined;
}

function parse(line: Buffer | undefined): unknown {
  try {
    return JSON.parse(line?.toString('utf8') ?? '');
  } catch {
    return undefined;
  }
}

/** Lines with their line breaks; an unterminated last line is left out. */
async function* linesOf(file: string): AsyncGenerator<Buffer, undefined> {
  const parts: Buffer[] = [];
  let held = 0;
  for await (const chunk of createReadStream(file, { highWaterMark: 1024 * 1024 }) as AsyncIterable<Buffer>) {
    let from = 0;
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      yield Buffer.concat([...parts.splice(0), chunk.subarray(from, at + 1)]);
      held = 0;
      from = at + 1;
    }
    parts.push(chunk.subarray(from));
    held += chunk.length - from;
    if (held > longestLine)
      throw new Error(`${file} is no backup of Weir: a line is longer than ${longestLine} bytes.`);
  }
  return undefined;
}
