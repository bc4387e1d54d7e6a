import type {
  GroupBy,
  RequestFilter,
  SeriesSplit,
  TimeWindow,
  Visibility,
} from '../../core/ports/analytics.ts';
import type { UsageColumn } from './usage-columns.ts';

/** Which requests are to be brought together, and how they are told apart. */
export interface UsageQuestion {
  readonly window: TimeWindow;
  readonly visibility: Visibility;
  readonly filter?: RequestFilter | undefined;
  readonly split?: GroupBy | SeriesSplit | undefined;
  readonly columns: readonly UsageColumn[];
  /** Beginnings of buckets; undefined: requests are not told apart by time. */
  readonly starts?: readonly number[] | undefined;
}
