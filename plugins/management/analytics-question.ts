import type { Role } from '../../core/access/roles.ts';
import type { Scope } from '../../core/pipeline/plugin.ts';
import type { RequestFilter, TimeWindow, Visibility } from '../../core/ports/analytics.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { requireAnalytics, visibilityIn } from './data-visibility.ts';
import { readFilter, type FilterValues } from './request-filter.ts';

/** Which requests a query of `filterQuery` is about: what every question to the analytics store begins with. */
export interface AnalyticsQuestion {
  readonly window: TimeWindow;
  readonly visibility: Visibility;
  readonly filter: RequestFilter;
}

/**
 * The question of a call, of what its key may see. Throws `scope_missing` when its role may not view analytics,
 * `invalid_request` for a filter that cannot be, `resource_not_found` for a workspace out of its reach.
 */
export function analyticsQuestion(
  { query, key, role }: { readonly query: FilterValues; readonly key: KeyRecord; readonly role: Role },
  { clock, directory }: Pick<Scope, 'clock' | 'directory'>,
): AnalyticsQuestion {
  requireAnalytics({ key, role }, directory);
  return {
    ...readFilter(query, clock.now()),
    visibility: visibilityIn({ key, role }, directory, query),
  };
}
