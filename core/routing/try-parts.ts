import type { Exchange } from '../pipeline/exchange.ts';
import type { CacheSettings } from '../ports/cache.ts';
import type { Target, TryOptions } from '../pipeline/router.ts';
import type { ParamEdits } from './params/param-edits.ts';

/** What one try at one target is made of. */
export interface TryParts {
  readonly exchange: Exchange;
  readonly target: Target;
  readonly options: TryOptions;
  /** What service keys begin with. */
  readonly keyPrefix: string;
  /** What the config changes in the body. */
  readonly params: ParamEdits | undefined;
  readonly cache: CacheSettings | undefined;
  /** Another try may follow: a stream counts as an answer only from its first event on. */
  readonly judged: boolean;
}
