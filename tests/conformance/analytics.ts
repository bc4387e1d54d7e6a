import { after, before, describe } from 'node:test';
import type { Analytics } from '../../core/ports/analytics.ts';
import { listsLogs } from './analytics-logs.ts';
import { searchesTexts } from './analytics-log-text.ts';
import { tellsNewLogs } from './analytics-new-logs.ts';
import { groupsTraces } from './analytics-traces.ts';
import { keepsFeedback } from './analytics-feedback.ts';
import { tellsFeedbackSeries } from './analytics-feedback-series.ts';
import { filtersRows } from './analytics-filters.ts';
import { agreesWithRows } from './analytics-roll-ups.ts';
import { tellsSeries } from './analytics-series.ts';
import { groupsRows } from './analytics-groups.ts';
import { rejectsPoisonedRows } from './analytics-poisoned.ts';
import { countsUsage } from './analytics-counted-usage.ts';
import { storesExactlyOnce } from './analytics-once.ts';
import { storesRowsOfFiles } from './analytics-files.ts';
import { storesRows } from './analytics-rows-back.ts';
import { showsOnlyOnesOwn } from './analytics-visibility.ts';

/** An analytics store opened for the suite, and how to close it again. */
export interface OpenedAnalytics {
  readonly analytics: Analytics;
  /** A folder whose files the store may read; the suite writes into it. */
  readonly folder: string;
  close(): Promise<void>;
}

/**
 * What every implementation of the `Analytics` port does. `open` is called once; the store may hold other rows,
 * since each test works in an organisation of its own. Registers its tests with `node:test`.
 *
 * `connection` registers what depends on how the store is reached, for an engine whose answers are tested elsewhere:
 * writes, what happens when they fail or are repeated, new rows as they come, and one kind of analysis.
 */
export function analyticsConformance(
  name: string,
  open: () => Promise<OpenedAnalytics>,
  tested: 'all' | 'connection' = 'all',
): void {
  describe(`analytics: ${name}`, () => {
    let opened: OpenedAnalytics;
    let analytics: Analytics;
    before(async () => {
      opened = await open();
      analytics = opened.analytics;
    });
    after(() => opened.close());

    const current = (): Analytics => analytics;
    storesRows(current);
    rejectsPoisonedRows(current);
    storesExactlyOnce(current);
    storesRowsOfFiles(current, () => opened.folder);
    groupsRows(current);
    tellsNewLogs(current);
    if (tested === 'connection') return;
    showsOnlyOnesOwn(current);
    tellsSeries(current);
    agreesWithRows(current);
    filtersRows(current);
    tellsFeedbackSeries(current);
    keepsFeedback(current);
    listsLogs(current);
    searchesTexts(current);
    groupsTraces(current);
    countsUsage(current);
  });
}
