// A part of the composition root: what `weir export`, `weir import`, `weir audit verify` and `weir
// rotate-secrets` work with.
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { AdministrationTools } from '../core/administration/cli/administration-tools.ts';
import type { LoadResult } from '../core/config/load-config.ts';
import { formatProblem } from '../core/config/problem.ts';
import { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Clock } from '../core/ports/clock.ts';
import { createLog } from '../adapters/telemetry/line-log.ts';
import { embeddedFolder, openResources } from './open-resources.ts';
import { keyVariables } from './open-secret-box.ts';
import { rotationKeys } from './rotation-keys.ts';
import { lockData } from '../storage/embedded/data-lock.ts';
import { chainStart, verifyChain } from '../storage/postgres/audit-store.ts';
import { createResources } from '../storage/postgres/resources.ts';
import { openKeys } from '../storage/secrets/key-file.ts';
import { createSecretBox } from '../storage/secrets/secret-box.ts';

/** The tools of `runAdministrationCommand`; `configFile` gives the file that is named, or the usual one. */
export function administrationTools(parts: {
  readonly configFile: (named: string | undefined) => string;
  readonly load: (file: string) => Promise<LoadResult>;
  readonly clock: Clock;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
}): AdministrationTools {
  const { configFile, load, clock, print, complain, environment } = parts;
  let locked = false;
  const tools: AdministrationTools = {
    chainStart,
    verifyChain,
    clock,
    print,
    complain,
    async atStore({ config: named, data: folder, mayBeNew = false }, use) {
      const file = configFile(named);
      const loaded = await load(file);
      if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
      const { config } = loaded;
      const data = path.resolve(folder);
      const write = (line: string): void => void process.stderr.write(line);
      const log = createLog({ level: 'warn', format: 'text', write, clock });
      const opened = new UndoStack({
        clock,
        timeoutMs: 20_000,
        onError: (error) => log.error('A part could not be closed', { error }),
      });
      try {
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
        return await use(createResources({ database, clock, log }));
      } finally {
        await opened.dispose();
      }
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
