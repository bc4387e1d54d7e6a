import { limitName } from '../../core/access/limit-charges.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import { type Budgets, rateCrossingPrefix } from '../../core/ports/budgets.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { RatePolicy } from './policy-set.ts';
import type { Subject } from './subject.ts';

const dayMs = 86_400_000;
/** Groups that are remembered as told. One that is forgotten is told again, and the ledger knows it. */
const mostTold = 10_000;

/** Tells people of rate-limit policies that refuse requests: of each group of a policy once a day (UTC). */
export class RateAlerts {
  readonly #budgets: Pick<Budgets, 'tell'>;
  readonly #clock: Pick<Clock, 'now'>;
  /** The mark that was told last, by key. */
  readonly #told = new RecentMap<string>(mostTold);

  constructor(budgets: Pick<Budgets, 'tell'>, clock: Pick<Clock, 'now'>) {
    this.#budgets = budgets;
    this.#clock = clock;
  }

  /** Takes what a request was refused with; tells nobody unless one of the policies has refused it. */
  refused(error: unknown, policies: readonly RatePolicy[], subject: Subject): void {
    if (!GatewayError.is(error) || error.code !== 'rate_limited') return;
    const policy = policies.find((one) => limitName(one.words) === error.limit && one.applies(subject));
    if (policy !== undefined) this.#tell(policy, policy.groupOf(subject));
  }

  #tell({ record }: RatePolicy, valueKey: string): void {
    const { id, name, organisationId, workspaceId, data } = record;
    const { type, unit, value } = data;
    const at = this.#clock.now();
    const key = `${rateCrossingPrefix}${id}:${valueKey}`;
    const mark = `${Math.floor(at / dayMs)}:${value}`;
    if (this.#told.touch(key) === mark) return;
    this.#told.set(key, mark);
    this.#budgets.tell({
      id: `${key}:exhausted:${mark}`,
      kind: 'exhausted',
      key,
      mark,
      organisationId,
      workspaceId,
      subject: { type: 'rate_limit_policy', id, name, ...(valueKey !== '' && { valueKey }) },
      unit: type,
      limit: value,
      per: unit,
      threshold: undefined,
      used: value,
      resetsAt: undefined,
      at,
    });
  }
}
