// Composition root: dependencies of `weir export`, `weir import`, `weir audit verify` and `weir rotate-secrets`.
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { AdministrationTools } from '../core/administration/cli/administration-command.ts';
import { chainStart } from '../storage/postgres/stored-records.ts';
import { type ToolParts, useConfiguration } from './command-tools.ts';
import { openResources, resourcePlaces } from './open-resources.ts';
import { keyVariables } from './open-secret-box.ts';
import { DataFolderInUse, lockData } from '../storage/embedded/data-lock.ts';
import { auditStore } from '../storage/postgres/audit-store.ts';
import { createResources } from '../storage/postgres/resources.ts';
import {
  type KeyVariables,
  openKeys,
  withNewKey,
  withoutPreviousKeys,
  createSecretBox,
  type SealingKeys,
} from '../storage/secrets/key-file.ts';
import { mkdir } from 'node:fs/promises';
import type { Clock } from '../core/ports/clock.ts';

/** Keys for one rotation. */
interface RotationKeys extends SealingKeys {
  /** Removes the previous keys from the key file; returns a note for the operator. */
  finish(): Promise<string>;
  release(): Promise<void>;
}

/**
 * The key from a variable, or a new one in the key file; a file with several keys belongs to an interrupted rotation,
 * which continues with its newest key. Throws one sentence when a running gateway uses the key file, because it would
 * not have the new key. `ownsData` is true when this process holds the data folder's lock already.
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

/** The tools of `runAdministrationCommand`; `configFile` resolves the named file, or the default one. */
export function administrationTools(
  parts: ToolParts & { readonly environment: Readonly<Record<string, string | undefined>> },
): AdministrationTools {
  const { clock, print, complain, environment } = parts;
  let locked = false;
  const tools: AdministrationTools = {
    chainStart,
    verifyChain: auditStore.verifyChain,
    clock,
    print,
    complain,
    atStore({ config: named, data: folder, mayBeNew = false }, use) {
      const data = path.resolve(folder);
      return useConfiguration(parts, named, async ({ config, file, log, opened }) => {
        // A server accepts several processes, the embedded engine one.
        const { url } = config.storage.resources;
        if (url.startsWith('pglite:')) {
          const store = resourcePlaces.embeddedFolder(url, data);
          if (!mayBeNew && !existsSync(store))
            throw new Error(`There is no store at ${store}. Name its data folder (--data, WEIR_DATA).`);
          const lock = await lockData(data, { clock });
          opened.push(() => lock.release());
          locked = true;
        }
        const database = await openResources({ config, file, data, log, clock, opened });
        if (database === undefined)
          throw new Error('There is no store: storage.resources.url is "none:". Name one there.');
        return use(createResources({ database, clock, log }));
      });
    },
    async secretBox({ data }) {
      return createSecretBox(await openKeys(path.resolve(data), keyVariables(environment)));
    },
    atKeys(place, use) {
      const data = path.resolve(place.data);
      return tools.atStore(place, async (resources) => {
        // An embedded store requires the lock of the data folder.
        const ownsData = locked;
        const keys = await rotationKeys(data, { variables: keyVariables(environment), clock, ownsData });
        try {
          return await use({ resources, box: createSecretBox(keys), finish: () => keys.finish() });
        } finally {
          await keys.release();
        }
      });
    },
  };
  return tools;
}
