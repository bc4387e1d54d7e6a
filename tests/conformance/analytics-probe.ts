import { randomUUID } from 'node:crypto';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Analytics } from '../../core/ports/analytics.ts';
import { dayStart } from './analytics-rows.ts';

/** The day that holds the rows of these tests. */
export const day = { from: dayStart, to: dayStart + 86_400_000 };

/** A window that holds every row. */
export const always = { from: 0, to: Number.MAX_SAFE_INTEGER };

/** A deduplication token that no other insert has. */
export const newToken = (): string => `conformance-${randomUUID()}`;

/** True for a `GatewayError` with this code; for `assert.rejects`. */
export const hasCode =
  (code: string) =>
  (error: unknown): boolean =>
    GatewayError.is(error) && error.code === code;

/** How many rows of `requests` an organisation has. */
export async function countOf(analytics: Analytics, organisationId: string): Promise<number> {
  const query = { by: 'workspace', columns: [], window: always, limit: 1000, offset: 0 } as const;
  const { rows } = await analytics.groups({ ...query, visibility: { organisationId } });
  return rows.reduce((sum, row) => sum + row.requests, 0);
}
