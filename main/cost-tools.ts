// A part of the composition root: what `weir reconcile` and `weir reprice` work with.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { createPrices, pricedModelName } from '../adapters/pricing/genai-prices.ts';
import { usePriceCopy } from '../adapters/pricing/price-data.ts';
import { createLog } from '../adapters/telemetry/line-log.ts';
import type { CostTools } from '../core/administration/cli/reconcile-command.ts';
import { isServer } from './open-analytics.ts';
import { type ToolParts, useAnalytics } from './command-tools.ts';

/** The tools of the commands about costs. */
export function costTools(parts: ToolParts): CostTools {
  const { clock, print, complain } = parts;
  const write = (line: string): void => void process.stderr.write(line);
  const log = createLog({ level: 'warn', format: 'text', write, clock });
  return {
    clock,
    print,
    complain,
    untilInterrupted,
    atCosts({ config, data: folder }, use) {
      const data = path.resolve(folder);
      return useAnalytics(
        parts,
        {
          config,
          data,
          needsLock(configuration) {
            if (configuration.storage.analytics.url === 'none:')
              throw new Error('Nothing is recorded: storage.analytics.url is "none:". Name a store there.');
            // A server takes several processes, the embedded engine one.
            if (isServer(configuration)) return false;
            if (existsSync(data)) return true;
            throw new Error(`There is no data folder ${data}. Name it (--data, WEIR_DATA).`);
          },
        },
        async (analytics, { prices: { url, models } }) => {
          const prices = createPrices({ log, own: models });
          const edition = url === undefined ? undefined : await usePriceCopy(path.join(data, 'prices.json'));
          if (edition !== undefined) prices.dataChanged(edition);
          return use({ analytics, nameModel: pricedModelName, prices });
        },
      );
    },
  };
}

async function untilInterrupted<T>(use: (stop: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const end = (): void => stop.abort();
  process.once('SIGINT', end).once('SIGTERM', end);
  try {
    return await use(stop.signal);
  } finally {
    process.off('SIGINT', end).off('SIGTERM', end);
  }
}
