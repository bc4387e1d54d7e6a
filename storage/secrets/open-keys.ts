import { createKeyFile, readKeyFile, type KeyFile } from './key-file.ts';
import { readKey, type SealingKey } from './sealing-key.ts';
import type { SealingKeys } from './secret-box.ts';

/** The variables that keys are read from. */
export interface KeyVariables {
  /** `WEIR_SECRET_KEY`: the key that seals. Undefined or empty: the key file of the data folder. */
  readonly current: string | undefined;
  /** `WEIR_SECRET_KEY_PREVIOUS`: keys with commas between them, which only open. */
  readonly previous: string | undefined;
}

/** Where keys came from. */
export interface OpenedKeys extends SealingKeys {
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
      ...{ current, previous: [...previous, ...(file?.keys ?? [])] },
      ...{ fromVariable: true, file, isNew: false },
    };
  }
  const used = file ?? (await createKeyFile(dataFolder));
  const [current, ...older] = used.keys;
  return {
    ...{ current, previous: [...previous, ...older] },
    ...{ fromVariable: false, file: used, isNew: file === undefined },
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
