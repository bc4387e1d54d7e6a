import type { Analytics, RecordedCost } from '../../core/ports/analytics.ts';
import { inWindow, moments } from './filter-sql.ts';
import type { Select } from './select.ts';

/** Names of results are prefixed, so that they cannot shadow columns of the table. */
interface CostRow {
  readonly cost_day: string;
  readonly cost_service: string;
  readonly cost_model: string;
  readonly cost_requests: number;
  readonly cost_unpriced: number;
  readonly cost_unpriced_tokens: number;
  readonly cost_sum: string;
}

/** See `Analytics.costsByDay`. Requests that no provider was asked for are left out. */
export async function costsByDay(
  select: Select,
  { window, services }: Parameters<Analytics['costsByDay']>[0],
): Promise<readonly RecordedCost[]> {
  const rows = await select<CostRow>(
    [
      "SELECT toString(toDate(created_at, 'UTC')) AS cost_day, toString(ai_service) AS cost_service, toString(model) AS cost_model,",
      "count() AS cost_requests, countIf(pricing = 'unpriced') AS cost_unpriced,",
      "sumIf(total_tokens, pricing = 'unpriced') AS cost_unpriced_tokens, sum(cost) AS cost_sum",
      `FROM requests WHERE ${inWindow} AND ai_service != '' AND ({every_service:UInt8} OR ai_service IN {services:Array(String)})`,
      'GROUP BY cost_day, cost_service, cost_model ORDER BY cost_day, cost_service, cost_model',
    ].join('\n'),
    { ...moments(window), every_service: services === undefined ? 1 : 0, services: services ?? [] },
  );
  return rows.map((row) => ({
    day: row.cost_day,
    service: row.cost_service,
    model: row.cost_model,
    requests: row.cost_requests,
    unpriced: row.cost_unpriced,
    unpricedTokens: row.cost_unpriced_tokens,
    cost: row.cost_sum,
  }));
}
