// Composition root: dependencies of `weir reconcile` and `weir reprice`.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { createPrices, pricedModelName } from '../adapters/pricing/genai-prices.ts';
import { usePriceCopy } from '../adapters/pricing/price-data.ts';
import { providerTable } from '../adapters/providers.ts';
import { createLog } from '../adapters/telemetry/line-log.ts';
import type { CostTools } from '../core/administration/cli/reconcile-command.ts';
import { compareBudgets } from '../core/administration/costs/compare-budgets.ts';
import { rowPrices } from '../core/administration/costs/row-prices.ts';
import { fileRecordsOnly } from '../core/administration/directory/file-records-directory.ts';
import { withFileRecords } from '../core/administration/directory/file-records-resources.ts';
import { FileRecords } from '../core/administration/directory/file-records.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Log } from '../core/ports/log.ts';
import type { Resources } from '../core/ports/resources.ts';
import type { SecretBox } from '../core/ports/secret-managers.ts';
import { readStoredIds } from '../storage/identity/open-identity.ts';
import { createResources } from '../storage/postgres/resources.ts';
import { createUsageLedger } from '../storage/postgres/usage-ledger.ts';
import { isServer } from './open-analytics.ts';
import { type CommandPlace, type ToolParts, untilInterrupted, useAnalytics } from './command-tools.ts';
import { ledgers } from './open-budgets.ts';
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
      // Counts of usage limits are in the data folder unless a server has them.
      const isOwn = ({ storage }: GatewayConfig): boolean => !storage.resources.url.startsWith('postgres');
      const place = { config, data, needsLock: (one: GatewayConfig) => needsLock(one, data, isOwn(one)) };
      return useAnalytics(parts, place, async (analytics, at) => {
        const { config: configuration, opened } = at;
        const database = await openResources({ ...at, data, clock });
        const resources = database && createResources({ database, clock, log: at.log });
        const ledger =
          database === undefined
            ? await ledgers.openOwn({ ...at, data, opened })
            : createUsageLedger(database);
        if (ledger === undefined)
          throw new Error(
            'Redis alone keeps what is used of usage limits: there is nothing to compare. Name a store in storage.resources.',
          );
        const endedBy = clock.now();
        if (ledger.isShared) await new Promise<void>((resolve) => clock.after(ledgers.lagMs, resolve));
        const { rows } = await ledger.exchange([], '');
        const leavesOutKeys = ledgers.uncountedPipelines(configuration);
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
      const place = { config, data, needsLock: (one: GatewayConfig) => needsLock(one, data) };
      return useAnalytics(parts, place, async (analytics, at) =>
        use({ analytics, nameModel: pricedModelName, prices: await pricesAt(at, data, log) }),
      );
    },
    atRows({ config, data: folder }, use) {
      const data = path.resolve(folder);
      const isOwn = ({ storage }: GatewayConfig): boolean => storage.resources.url.startsWith('pglite:');
      const place = { config, data, needsLock: (one: GatewayConfig) => needsLock(one, data, isOwn(one)) };
      return useAnalytics(parts, place, async (analytics, at) => {
        const pricedBy = rowPrices({
          resources: await providersAt(at, data, clock),
          configured: at.config.providers,
          table: providerTable,
        });
        const prices = await pricesAt(at, data, log);
        return use({ analytics, nameModel: pricedModelName, prices, pricedBy });
      });
    },
  };
}

async function pricesAt(
  {
    config: {
      prices: { url, models },
    },
  }: CommandPlace,
  data: string,
  log: Log,
) {
  const prices = createPrices({ log, own: models });
  const edition = url === undefined ? undefined : await usePriceCopy(path.join(data, 'prices.json'));
  if (edition !== undefined) prices.dataChanged(edition);
  return prices;
}

/** Source of the providers of requests: the relational store, after the configuration. Undefined without one. */
async function providersAt(
  at: CommandPlace,
  data: string,
  clock: Clock,
): Promise<Pick<Resources, 'read'> | undefined> {
  const { config, file } = at;
  const database = await openResources({ ...at, data, clock });
  const stored = database && createResources({ database, clock, log: at.log });
  const { integrations = [], providers = [] } = config.organisation ?? {};
  if (integrations.length + providers.length === 0) return stored;
  const place = await readStoredIds(data);
  if (place === undefined)
    throw new Error(
      `${file} has an organisation with providers, and no gateway has used the data folder ${data}, which says whose they are. Name the gateway's own (--data, WEIR_DATA).`,
    );
  const records = new FileRecords({ config }, { ...place, secrets: withoutSecrets }, clock.now());
  return stored === undefined
    ? fileRecordsOnly(() => records, place)
    : withFileRecords(stored, () => records);
}

/** Commands about costs need no credential. */
const withoutSecrets: SecretBox = {
  keyId: '',
  seal: () => '',
  open() {
    throw new Error('This command opens no secrets.');
  },
  isCurrent: () => true,
};

/** `usesFolder`: the command needs more of the data folder than the embedded analytics engine. */
function needsLock(config: GatewayConfig, data: string, usesFolder = false): boolean {
  if (config.storage.analytics.url === 'none:')
    throw new Error('Nothing is recorded: storage.analytics.url is "none:". Name a store there.');
  // A server accepts several processes, the embedded engine one.
  if (isServer(config) && !usesFolder) return false;
  if (existsSync(data)) return true;
  throw new Error(`There is no data folder ${data}. Name it (--data, WEIR_DATA).`);
}
