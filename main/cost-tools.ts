// A part of the composition root: what `weir reconcile` and `weir reprice` work with.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { createPrices, pricedModelName } from '../adapters/pricing/genai-prices.ts';
import { usePriceCopy } from '../adapters/pricing/price-data.ts';
import { createLog } from '../adapters/telemetry/line-log.ts';
import type { CostTools } from '../core/administration/cli/reconcile-command.ts';
import { compareBudgets } from '../core/administration/costs/compare-budgets.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import { createResources } from '../storage/postgres/resources.ts';
import { createUsageLedger } from '../storage/postgres/usage-ledger.ts';
import { isServer } from './open-analytics.ts';
import { type ToolParts, useAnalytics } from './command-tools.ts';
import { ledgerLagMs, openOwnLedger, uncountedPipelines } from './open-budgets.ts';
import { openResources } from './open-resources.ts';

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
    async compareBudgets({ config, data: folder, isDryRun }) {
      const data = path.resolve(folder);
      const place = { config, data, needsLock: (one: GatewayConfig) => needsLock(one, data, true) };
      return useAnalytics(parts, place, async (analytics, at) => {
        const { config: configuration, opened } = at;
        const database = await openResources({ ...at, data, clock });
        const resources = database && createResources({ database, clock, log: at.log });
        const ledger =
          database === undefined ? await openOwnLedger({ ...at, data, opened }) : createUsageLedger(database);
        if (ledger === undefined)
          throw new Error(
            'Redis alone keeps what is used of usage limits: there is nothing to compare. Name a store in storage.resources.',
          );
        const endedBy = clock.now();
        if (ledger.isShared) await new Promise<void>((resolve) => clock.after(ledgerLagMs, resolve));
        const { rows } = await ledger.exchange([], '');
        const leavesOutKeys = uncountedPipelines(configuration);
        return compareBudgets({
          ledger,
          rows,
          endedBy,
          analytics,
          resources,
          leavesOutKeys,
          corrects: !isDryRun,
        });
      });
    },
    atCosts({ config, data: folder }, use) {
      const data = path.resolve(folder);
      return useAnalytics(
        parts,
        {
          config,
          data,
          needsLock: (configuration) => needsLock(configuration, data),
        },
        async (
          analytics,
          {
            config: {
              prices: { url, models },
            },
          },
        ) => {
          const prices = createPrices({ log, own: models });
          const edition = url === undefined ? undefined : await usePriceCopy(path.join(data, 'prices.json'));
          if (edition !== undefined) prices.dataChanged(edition);
          return use({ analytics, nameModel: pricedModelName, prices });
        },
      );
    },
  };
}

/** `ofBudgets`: what usage limits have counted is needed too, which only a server shares. */
function needsLock(config: GatewayConfig, data: string, ofBudgets = false): boolean {
  if (config.storage.analytics.url === 'none:')
    throw new Error('Nothing is recorded: storage.analytics.url is "none:". Name a store there.');
  // A server takes several processes, the embedded engine one.
  if (isServer(config) && (!ofBudgets || config.storage.resources.url.startsWith('postgres'))) return false;
  if (existsSync(data)) return true;
  throw new Error(`There is no data folder ${data}. Name it (--data, WEIR_DATA).`);
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
