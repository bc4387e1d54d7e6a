import { reachOf } from '../../core/access/access.ts';
import { GatewayError, type Scope } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { ApiKeyRecord } from '../../core/ports/resources.ts';
import { periodStart } from './usage-period.ts';

/** What keys with a usage limit have used since its period began, by key, in the limit's unit. */
export type UsageOfKeys = ReadonlyMap<string, number>;

/** Rows of other replicas may carry a clock that is ahead. */
const aheadMs = 3_600_000;

/**
 * What those of the keys (100 at the most) that have a usage limit have used, asked of the analytics store at once;
 * nothing of any key when it does not answer. `caller` is who asks.
 */
export async function usageOfKeys(
  records: readonly ApiKeyRecord[],
  caller: KeyRecord,
  { analytics, clock }: Pick<Scope, 'analytics' | 'clock'>,
): Promise<UsageOfKeys> {
  const now = clock.now();
  const keys = records.flatMap(({ id, usageLimits, createdAt }) =>
    usageLimits === undefined ? [] : [{ id, since: periodStart(usageLimits, createdAt, now) }],
  );
  if (keys.length === 0) return new Map();
  try {
    const visibility = { ...reachOf(caller), asker: caller.id };
    const used = await analytics.usageOfKeys({ keys, to: now + aheadMs, visibility });
    return new Map(
      records.flatMap(({ id, usageLimits }) => {
        if (usageLimits === undefined) return [];
        const { cost = '0', tokens = 0 } = used.get(id) ?? {};
        return [[id, usageLimits.type === 'cost' ? Number(cost) : tokens]];
      }),
    );
  } catch (error) {
    if (GatewayError.is(error) && isAway(error)) return new Map();
    throw error;
  }
}

function isAway({ code }: GatewayError): boolean {
  return code === 'store_unavailable' || code === 'query_timeout';
}
