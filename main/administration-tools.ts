// A part of the composition root: what `weir export`, `weir import`, `weir audit verify` and `weir
// rotate-secrets` work with.
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { AdministrationTools } from '../core/administration/cli/administration-tools.ts';
import { type ToolParts, useConfiguration } from './command-tools.ts';
import { embeddedFolder, openResources } from './open-resources.ts';
import { keyVariables } from './open-secret-box.ts';
import { rotationKeys } from './rotation-keys.ts';
import { lockData } from '../storage/embedded/data-lock.ts';
import { chainStart, verifyChain } from '../storage/postgres/audit-store.ts';
import { createResources } from '../storage/postgres/resources.ts';
import { openKeys } from '../storage/secrets/key-file.ts';
import { createSecretBox } from '../storage/secrets/secret-box.ts';

/** The tools of `runAdministrationCommand`; `configFile` gives the file that is named, or the usual one. */
export function administrationTools(
  parts: ToolParts & { readonly environment: Readonly<Record<string, string | undefined>> },
): AdministrationTools {
  const { clock, print, complain, environment } = parts;
  let locked = false;
  const tools: AdministrationTools = {
    chainStart,
    verifyChain,
    clock,
    print,
    complain,
    atStore({ config: named, data: folder, mayBeNew = false }, use) {
      const data = path.resolve(folder);
      return useConfiguration(parts, named, async ({ config, file, log, opened }) => {
        // A server takes several processes, the embedded engine one.
        const { url } = config.storage.resources;
        if (url.startsWith('pglite:')) {
          const store = embeddedFolder(url, data);
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
        // An embedded store is opened with the lock of the data folder.
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
