// Composition root: the use of usage limits, and its comparison with the recorded requests.
import { rm, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Features } from '../core/access/features.ts';
import {
  type BudgetComparison,
  type BudgetDifference,
  compareBudgets,
} from '../core/administration/costs/compare-budgets.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import type { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Analytics } from '../core/ports/analytics.ts';
import { shownUnits, type UsageAlerts, type UsageLedger } from '../core/ports/budgets.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Journal } from '../core/ports/journal.ts';
import type { Log } from '../core/ports/log.ts';
import type { Resources } from '../core/ports/resources.ts';
import { createBudgets } from '../storage/memory/budgets.ts';
import { openUsageFile } from '../storage/memory/usage-file.ts';

/** By then, other gateways have reported earlier counts to the ledger. */
const ledgerLagMs = 3000;

/** Ledgers of usage. */
export const ledgers = { openOwn: openOwnLedger, lagMs: ledgerLagMs, uncountedPipelines };

/** Rows of the previous run may wait in the journal while the store is unavailable. */
const drainMs = 60_000;
const maxLogged = 100;

/** Options of `openBudgets`. */
interface BudgetsPlace {
  readonly config: Pick<GatewayConfig, 'storage' | 'pipelines'>;
  /** The data folder, absolute. */
  readonly data: string;
  readonly features: Features;
  readonly ledger: UsageLedger | undefined;
  readonly alerts: UsageAlerts | undefined;
  readonly analytics: Pick<Analytics, 'countedUsage'>;
  readonly journal: Pick<Journal, 'settle'>;
  readonly resources: Pick<Resources, 'read'> | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly opened: UndoStack;
}

/**
 * Opens the counts of usage limits. When the previous run did not end cleanly, the ledger is compared with the rows of
 * requests in the background, as soon as the rows in the journal are stored. Never waits for that.
 */
export async function openBudgets(place: BudgetsPlace): Promise<ReturnType<typeof createBudgets>> {
  const { config, data, features, ledger, alerts, clock, log, opened } = place;
  const enforces = features.isOn('usage_limits');
  const budgets = createBudgets({ clock, log, ledger, alerts, enforces });
  if (ledger === undefined || !enforces) {
    await budgets.start();
    opened.push(async () => void (await budgets.close()));
    return budgets;
  }
  const mark = path.join(data, 'usage-open');
  let isOwed = existsSync(mark);
  await writeFile(mark, '', { mode: 0o600 });
  const startedAt = clock.now();
  await budgets.start();
  let isClosed = false;
  let cancel = (): void => undefined;
  opened.push(async () => {
    isClosed = true;
    cancel();
    // Counts missing in the ledger, or not compared yet, are checked after the next start.
    if ((await budgets.close()) && !isOwed) await rm(mark, { force: true });
  });
  if (!isOwed) return budgets;
  if (config.storage.analytics.url === 'none:') {
    log.info(
      'The last run did not end cleanly. The usage of limits in its last second is unknown, because no rows of requests are stored',
    );
    isOwed = false;
    return budgets;
  }
  const attempt = async (rows: Awaited<ReturnType<UsageLedger['exchange']>>['rows']): Promise<boolean> => {
    if (!(await place.journal.settle(drainMs))) return false;
    const comparison = await compareBudgets({
      ...{ ledger, rows, endedBy: startedAt, analytics: place.analytics, resources: place.resources },
      leavesOutKeys: uncountedPipelines(config),
      corrects: true,
    });
    if (comparison.differences.some(({ isCorrected }) => isCorrected)) await budgets.reread();
    tell(comparison, log);
    return true;
  };
  const run = async (known?: Awaited<ReturnType<UsageLedger['exchange']>>['rows']): Promise<void> => {
    let rows = known;
    let isDone = false;
    try {
      rows ??= (await ledger.exchange([], '')).rows;
      isDone = await attempt(rows);
    } catch (error) {
      if (!isClosed)
        log.warn(
          'The usage of limits cannot be compared with the rows of requests yet; the gateway retries',
          {
            error,
          },
        );
    }
    if (isDone) isOwed = false;
    else if (!isClosed) cancel = clock.after(drainMs, () => void run(rows));
  };
  if (ledger.isShared) cancel = clock.after(ledgerLagMs, () => void run());
  // Nothing is counted before requests are served, so the counts are exact.
  else
    void run(
      await ledger.exchange([], '').then(
        ({ rows }) => rows,
        () => undefined,
      ),
    );
  return budgets;
}

/** Location of usage counts without a relational store: in the data folder, unless gateways share them on a server. */
async function openOwnLedger({
  config,
  data,
  log,
  opened,
}: Pick<BudgetsPlace, 'data' | 'log' | 'opened'> & {
  readonly config: Pick<GatewayConfig, 'storage'>;
}): Promise<UsageLedger | undefined> {
  if (config.storage.counters.url !== 'memory:') return undefined;
  const ledger = await openUsageFile({ directory: path.join(data, 'usage'), log });
  opened.push(() => ledger.close());
  return ledger;
}

/** Reason why rows do not show the use of keys; undefined when they do. */
function uncountedPipelines({ pipelines }: Pick<GatewayConfig, 'pipelines'>): string | undefined {
  for (const { name, plugins } of pipelines) {
    const has = (plugin: string): boolean => plugins.some(({ use }) => use === plugin);
    if (has('logger') && has('provider') && !has('policies'))
      return `the pipeline "${name}" logs requests that it does not count: it is without the plugin policies`;
  }
  return undefined;
}

function tell({ compared, differences, leftOut }: BudgetComparison, log: Log): void {
  for (const difference of differences.slice(0, maxLogged))
    log.warn('A usage limit had counted less than the rows of requests say', fieldsOf(difference));
  if (differences.length > maxLogged)
    log.warn('Further usage limits had counted less', { limits: differences.length - maxLogged });
  log.info(
    'The usage of limits was compared with the rows of requests, because the last run did not end cleanly',
    {
      compared,
      corrected: differences.filter(({ isCorrected }) => isCorrected).length,
      ...(leftOut.size > 0 && { left_out: Object.fromEntries(leftOut) }),
    },
  );
}

function fieldsOf({ key, organisationId, unit, counted, recorded, isCorrected }: BudgetDifference) {
  const [was, is] = [shownUnits(counted, unit), shownUnits(recorded, unit)];
  return {
    limit: key,
    organisation: organisationId,
    unit,
    counted: was,
    recorded: is,
    corrected: isCorrected,
  };
}
