import { randomBytes } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import path from 'node:path';
import { writeDurably } from '../../core/base/durable-file.ts';
import { readKey, sealingKey, type SealingKey, type SealingKeys } from './secret-box.ts';

/** The variables that keys are read from. */
export interface KeyVariables {
  /** `WEIR_SECRET_KEY`: the key that seals. Undefined or empty: the key file of the data folder. */
  readonly current: string | undefined;
  /** `WEIR_SECRET_KEY_PREVIOUS`: keys with commas between them, which only open. */
  readonly previous: string | undefined;
}

/** Where keys came from. */
interface OpenedKeys extends SealingKeys {
  /** True when a variable gave the key that seals. */
  readonly fromVariable: boolean;
  /** The key file, where there is one: its keys open, too, when a variable gives the one that seals. */
  readonly file: KeyFile | undefined;
  /** True when the file was made just now. */
  readonly isNew: boolean;
}

const maxPrevious = 20;

/**
 * The keys of a gateway: of the variables, else of the data folder, in which a key is made at the first start. Throws
 * one sentence with the remedy for a key that is none.
 */
export async function openKeys(dataFolder: string, variables: KeyVariables): Promise<OpenedKeys> {
  const previous = readPrevious(variables.previous ?? '');
  const file = await readKeyFile(dataFolder);
  const given = variables.current?.trim() ?? '';
  if (given !== '') {
    const current = readKey(given, 'WEIR_SECRET_KEY');
    return {
      current,
      previous: [...previous, ...(file?.keys ?? [])],
      fromVariable: true,
      file,
      isNew: false,
    };
  }
  const used = file ?? (await createKeyFile(dataFolder));
  const [current, ...older] = used.keys;
  return {
    current,
    previous: [...previous, ...older],
    fromVariable: false,
    file: used,
    isNew: file === undefined,
  };
}

function readPrevious(text: string): readonly SealingKey[] {
  const parts = text.split(',').filter((part) => part.trim() !== '');
  if (parts.length > maxPrevious) {
    throw new Error(
      `WEIR_SECRET_KEY_PREVIOUS names ${parts.length} keys; ${maxPrevious} are the most. Run weir rotate-secrets, then leave out the old ones.`,
    );
  }
  return parts.map((part, index) => readKey(part, `Key ${index + 1} of WEIR_SECRET_KEY_PREVIOUS`));
}

/** Name of the key file within the data folder. */
const fileName = 'secret.key';
/** A key is one line; a rotation that was cut short leaves one more. */
const maxFileBytes = 65_536;

/** The keys of a data folder. */
interface KeyFile {
  /** Where it is, for messages. */
  readonly path: string;
  /** The key that seals comes first; those behind it only open what they sealed. At least one. */
  readonly keys: readonly [SealingKey, ...SealingKey[]];
}

/**
 * Reads the key file of a data folder; undefined when there is none. Throws one sentence when others may read it, or
 * when it holds anything but keys.
 */
async function readKeyFile(dataFolder: string): Promise<KeyFile | undefined> {
  const file = path.join(dataFolder, fileName);
  let handle: FileHandle;
  try {
    handle = await open(file, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const { mode, size } = await handle.stat();
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
      throw new Error(
        `${file} can be read by others (mode ${(mode & 0o777).toString(8)}), and it opens every stored secret. Do: chmod 600 ${file}; and if somebody else could have read it: weir rotate-secrets`,
      );
    }
    if (size > maxFileBytes) throw damaged(file);
    const lines = (await handle.readFile('utf8')).split('\n').filter((line) => line.trim() !== '');
    const [first, ...rest] = lines.map((line, index) => readKey(line, `Line ${index + 1} of ${file}`));
    if (first === undefined) throw damaged(file);
    return { path: file, keys: [first, ...rest] };
  } finally {
    await handle.close();
  }
}

/** Makes a key file for a data folder that has none, with a new key and mode 0600. */
function createKeyFile(dataFolder: string): Promise<KeyFile> {
  return write(path.join(dataFolder, fileName), [sealingKey(randomBytes(32))]);
}

/** The same keys behind a new one, which seals from now on. */
export function withNewKey({ path: file, keys }: KeyFile): Promise<KeyFile> {
  return write(file, [sealingKey(randomBytes(32)), ...keys]);
}

/** Only the key that seals: nothing that the others sealed can be opened any more. */
export function withoutPreviousKeys({ path: file, keys }: KeyFile): Promise<KeyFile> {
  return write(file, [keys[0]]);
}

/** Whole or not at all, and on the disk before a secret is sealed with it: a lost key cannot be made again. */
async function write(file: string, keys: KeyFile['keys']): Promise<KeyFile> {
  await writeDurably(file, keys.map(({ bytes }) => `${bytes.toString('base64')}\n`).join(''));
  return { path: file, keys };
}

function damaged(file: string): Error {
  return new Error(
    `${file} is damaged. Restore it from a backup: without it no stored secret can be read. Moved away, a new key is made, and every secret has to be stored again.`,
  );
}
