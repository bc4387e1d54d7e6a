import { randomBytes } from 'node:crypto';
import { open, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { writeDurably } from '../../core/base/durable-file.ts';
import { readKey, sealingKey, type SealingKey } from './sealing-key.ts';

/** Name of the key file within the data folder. */
const fileName = 'secret.key';
/** A key is one line; a rotation that was cut short leaves one more. */
const maxFileBytes = 65_536;

/** The keys of a data folder. */
export interface KeyFile {
  /** Where it is, for messages. */
  readonly path: string;
  /** The key that seals comes first; those behind it only open what they sealed. At least one. */
  readonly keys: readonly [SealingKey, ...SealingKey[]];
}

/**
 * Reads the key file of a data folder; undefined when there is none. Throws one sentence when others may read it, or
 * when it holds anything but keys.
 */
export async function readKeyFile(dataFolder: string): Promise<KeyFile | undefined> {
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
export function createKeyFile(dataFolder: string): Promise<KeyFile> {
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
