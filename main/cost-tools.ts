// A part of the composition root: what `weir reconcile` and `weir reprice` work with.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { pricedModelName } from '../adapters/pricing/genai-prices.ts';
import { createLog } from '../adapters/telemetry/line-log.ts';
import type { CostTools } from '../core/administration/cli/reconcile-command.ts';
import type { LoadResult } from '../core/config/load-config.ts';
import { formatProblem } from '../core/config/problem.ts';
import { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Clock } from '../core/ports/clock.ts';
import { lockData } from '../storage/embedded/data-lock.ts';
import { isServer, openAnalytics } from './open-analytics.ts';

/** The tools of the commands about costs; `configFile` gives the file that is named, or the usual one. */
export function costTools(parts: {
  readonly configFile: (named: string | undefined) => string;
  readonly load: (file: string) => Promise<LoadResult>;
  readonly clock: Clock;
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
}): CostTools {
  const { configFile, load, clock, print, complain } = parts;
  return {
    clock,
    print,
    complain,
    async atCosts({ config: named, data: folder }, use) {
      const file = configFile(named);
      const loaded = await load(file);
      if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
      const { config } = loaded;
      if (config.storage.analytics.url === 'none:')
        throw new Error('Nothing is recorded: storage.analytics.url is "none:". Name a store there.');
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
        if (!isServer(config)) {
          if (!existsSync(data))
            throw new Error(`There is no data folder ${data}. Name it (--data, WEIR_DATA).`);
          const lock = await lockData(data, { clock });
          opened.push(() => lock.release());
        }
        const analytics = await openAnalytics({ config, file, data, log, clock, opened });
        return await use({ analytics, nameModel: pricedModelName });
      } finally {
        await opened.dispose();
      }
    },
  };
}
