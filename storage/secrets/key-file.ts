import { randomBytes, createHmac, createCipheriv, createDecipheriv } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import path from 'node:path';
import { writeDurably } from '../../core/base/durable-file.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { SecretBox } from '../../core/ports/secret-managers.ts';

/** A key of AES-256 and its id in sealed texts. */
interface SealingKey {
  /** 12 hexadecimal digits, derived from the key: equal keys have equal ids. Reveals nothing about it. */
  readonly id: string;
  /** 32 bytes. */
  readonly bytes: Buffer;
}

const keyBytes = 32;

/** Prints a valid key for `WEIR_SECRET_KEY`. */
const keyCommand = 'openssl rand -base64 32';

/** The key of these 32 bytes. */
export function sealingKey(bytes: Buffer): SealingKey {
  const id = createHmac('sha256', bytes).update('weir key id').digest('hex').slice(0, 12);
  return { id, bytes };
}

/**
 * Reads a key from `source`: exactly 32 bytes as base64 or as hexadecimal digits. Throws a sentence that names the
 * source, not the text.
 */
function readKey(text: string, source: string): SealingKey {
  const bytes = bytesOf(text.trim());
  if (bytes?.length === keyBytes) return sealingKey(bytes);
  throw new Error(
    `${source} is not 32 bytes as base64 or as 64 hexadecimal digits. Make a key with: ${keyCommand}`,
  );
}

function bytesOf(text: string): Buffer | undefined {
  if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, 'hex');
  return /^[A-Za-z0-9+/_-]+={0,2}$/.test(text) ? Buffer.from(text, 'base64') : undefined;
}

const algorithm = 'aes-256-gcm';
const format = 'v1';
/** 96 bits, the nonce size of GCM, random for every text. */
const nonceBytes = 12;
const tagBytes = 16;

/** The keys of a gateway: the sealing one, and those that only open earlier texts. */
export interface SealingKeys {
  readonly current: SealingKey;
  readonly previous: readonly SealingKey[];
}

/**
 * Seals with AES-256-GCM. A sealed text is `v1.<key id>.<nonce>.<ciphertext and tag>`, the last two as base64url; the
 * context is bound as additional data.
 */
export function createSecretBox({ current, previous }: SealingKeys): SecretBox {
  const keys = new Map([...previous, current].map((key) => [key.id, key.bytes]));
  const prefix = `${format}.${current.id}.`;
  return {
    keyId: current.id,
    seal(text, context) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(algorithm, current.bytes, nonce, { authTagLength: tagBytes });
      cipher.setAAD(additionalData(current.id, context));
      const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
      return `${prefix}${nonce.toString('base64url')}.${sealed.toString('base64url')}`;
    },
    open(sealed, context) {
      const { keyId, nonce, data } = partsOf(sealed);
      const key = keys.get(keyId);
      if (key === undefined) throw keyMissing(keyId);
      const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagBytes });
      decipher.setAAD(additionalData(keyId, context));
      decipher.setAuthTag(data.subarray(-tagBytes));
      try {
        return Buffer.concat([decipher.update(data.subarray(0, -tagBytes)), decipher.final()]).toString(
          'utf8',
        );
      } catch (cause) {
        throw tamperedSecretError(cause);
      }
    },
    isCurrent: (sealed) => sealed.startsWith(prefix),
  };
}

function additionalData(keyId: string, context: string): Buffer {
  return Buffer.from(`${format}.${keyId}.${context}`, 'utf8');
}

function partsOf(sealed: string): { readonly keyId: string; readonly nonce: Buffer; readonly data: Buffer } {
  const [version, keyId = '', nonceText = '', dataText = '', ...more] = sealed.split('.');
  const nonce = Buffer.from(nonceText, 'base64url');
  const data = Buffer.from(dataText, 'base64url');
  const isWhole = nonce.length === nonceBytes && data.length >= tagBytes && more.length === 0;
  if (version !== format || !isWhole) throw tamperedSecretError(undefined);
  return { keyId, nonce, data };
}

function keyMissing(keyId: string): GatewayError {
  return new GatewayError(
    'internal',
    `A stored secret was sealed with the key ${keyId.slice(0, 64)}, which this gateway does not have. Give it in WEIR_SECRET_KEY_PREVIOUS, or restore the file secret.key of the data folder, and restart; or store the secret again.`,
  );
}

function tamperedSecretError(cause: unknown): GatewayError {
  return new GatewayError(
    'internal',
    'A stored secret is not as it was sealed: it was changed, or moved from another record. Store it again.',
    { cause },
  );
}

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
