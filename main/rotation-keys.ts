// A part of the composition root: the keys that `weir rotate-secrets` seals with, and what becomes of those before.
import { mkdir } from 'node:fs/promises';
import type { Clock } from '../core/ports/clock.ts';
import { DataFolderInUse, lockData } from '../storage/embedded/data-lock.ts';
import { type KeyVariables, openKeys, withNewKey, withoutPreviousKeys } from '../storage/secrets/key-file.ts';
import type { SealingKeys } from '../storage/secrets/secret-box.ts';

/** Keys for one rotation. */
interface RotationKeys extends SealingKeys {
  /** Drops the keys before from the key file; says what the operator can drop. */
  finish(): Promise<string>;
  release(): Promise<void>;
}

/**
 * The key that a variable gives, or a new one in the key file; a file with several keys is that of a rotation that was
 * cut short, and goes on with its newest. Throws one sentence when the key file is in use by a gateway, which would not
 * know the new key. `ownsData` says that this process has the data folder's lock already.
 */
export async function rotationKeys(
  data: string,
  { variables, clock, ownsData }: { variables: KeyVariables; clock: Clock; ownsData: boolean },
): Promise<RotationKeys> {
  if ((variables.current?.trim() ?? '') !== '') {
    const { current, previous, file } = await openKeys(data, variables);
    const rest = file === undefined ? '' : ` Neither is ${file.path}.`;
    return {
      current,
      previous,
      finish: () => Promise.resolve(`WEIR_SECRET_KEY_PREVIOUS is not needed any more.${rest}`),
      release: () => Promise.resolve(),
    };
  }
  await mkdir(data, { recursive: true });
  const lock = ownsData ? undefined : await lockOf(data, clock);
  try {
    const { file: before, previous } = await openKeys(data, variables);
    if (before === undefined) throw new Error(`There is no key file in ${data}.`);
    const file = before.keys.length > 1 ? before : await withNewKey(before);
    const [current, ...older] = file.keys;
    return {
      current,
      previous: [...previous, ...older],
      async finish() {
        await withoutPreviousKeys(file);
        return `${file.path} holds the new key alone. Keep a copy of it apart from those of the store.`;
      },
      release: async () => lock?.release(),
    };
  } catch (error) {
    await lock?.release();
    throw error;
  }
}

async function lockOf(data: string, clock: Clock) {
  try {
    return await lockData(data, { clock });
  } catch (error) {
    if (!(error instanceof DataFolderInUse)) throw error;
    throw new Error(
      `${error.message}. A gateway does not notice a new key in its data folder; to rotate while gateways run, use WEIR_SECRET_KEY.`,
      { cause: error },
    );
  }
}
