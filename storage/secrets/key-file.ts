import { randomBytes } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import path from 'node:path';
import { writeDurably } from '../../core/base/durable-file.ts';
import { readKey, sealingKey, type SealingKey, type SealingKeys } from './secret-box.ts';

/** Variables with keys. */
export interface KeyVariables {
  /** `WEIR_SECRET_KEY`: the sealing key. Undefined or empty: the key file of the data folder. */
  readonly current: string | undefined;
  /** `WEIR_SECRET_KEY_PREVIOUS`: comma-separated keys that only open. */
  readonly previous: string | undefined;
}

/** Keys with their source. */
interface OpenedKeys extends SealingKeys {
  /** True when a variable provided the sealing key. */
  readonly fromVariable: boolean;
  /** The key file, if any: its keys also open when a variable provides the sealing key. */
  readonly file: KeyFile | undefined;
  /** True when the file was just created. */
  readonly isNew: boolean;
}

const maxPrevious = 20;

/**
 * The keys of a gateway: from the variables, else from the data folder, in which the first start creates a key. Throws
 * one sentence with the remedy for an invalid key.
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
export const keyFileName = 'secret.key';
/** A key is one line; an interrupted rotation leaves one more. */
const maxFileBytes = 65_536;

/** The keys of a data folder. */
interface KeyFile {
  /** Path for messages. */
  readonly path: string;
  /** The sealing key comes first; the others only open texts that they sealed. At least one. */
  readonly keys: readonly [SealingKey, ...SealingKey[]];
}

/**
 * Reads the key file of a data folder; undefined when there is none. Throws one sentence when other users may read it,
 * or when it holds anything but keys.
 */
async function readKeyFile(dataFolder: string): Promise<KeyFile | undefined> {
  const file = path.join(dataFolder, keyFileName);
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
        `${file} can be read by others (mode ${(mode & 0o777).toString(8)}), and it opens every stored secret. Do: chmod 600 ${file}; and if others may have read it: weir rotate-secrets`,
      );
    }
    if (size > maxFileBytes) throw damagedKeyFileError(file);
    const lines = (await handle.readFile('utf8')).split('\n').filter((line) => line.trim() !== '');
    const [first, ...rest] = lines.map((line, index) => readKey(line, `Line ${index + 1} of ${file}`));
    if (first === undefined) throw damagedKeyFileError(file);
    return { path: file, keys: [first, ...rest] };
  } finally {
    await handle.close();
  }
}

/** Creates a key file for a data folder without one, with a new key and mode 0600. */
function createKeyFile(dataFolder: string): Promise<KeyFile> {
  return write(path.join(dataFolder, keyFileName), [sealingKey(randomBytes(32))]);
}

/** Adds a new key in front of the present ones; it seals from now on. */
export function withNewKey({ path: file, keys }: KeyFile): Promise<KeyFile> {
  return write(file, [sealingKey(randomBytes(32)), ...keys]);
}

/** Keeps only the sealing key: texts sealed with the others can no longer be opened. */
export function withoutPreviousKeys({ path: file, keys }: KeyFile): Promise<KeyFile> {
  return write(file, [keys[0]]);
}

/** Atomic, and synced before a secret is sealed with it: a lost key cannot be recovered. */
async function write(file: string, keys: KeyFile['keys']): Promise<KeyFile> {
  await writeDurably(file, keys.map(({ bytes }) => `${bytes.toString('base64')}\n`).join(''));
  return { path: file, keys };
}

function damagedKeyFileError(file: string): Error {
  return new Error(
    `${file} is damaged. Restore it from a backup: without it no stored secret can be read. Moved away, a new key is made, and every secret has to be stored again.`,
  );
}
