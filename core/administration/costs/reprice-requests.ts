import type { TimeWindow } from '../../ports/analytics.ts';
import {
  maxPriceChanges,
  type PriceChange,
  type Prices,
  type Repricing,
  type RequestPlace,
  type UnpricedRequest,
} from '../../ports/prices.ts';
import { type ExactAmount, readAmount } from './exact-amount.ts';
import type { RowPrices } from './row-prices.ts';

/** Which requests are to get a price. */
interface RepriceWish {
  readonly window: TimeWindow;
  /** A kind of provider. */
  readonly provider: string | undefined;
  /** As answered. */
  readonly model: string | undefined;
  /** Computes the result without changing anything. */
  readonly dryRun: boolean;
}

/** Dependencies of repricing. */
interface RepriceParts {
  readonly repricing: Repricing;
  readonly prices: Pick<Prices, 'price'>;
  readonly pricedBy: RowPrices;
  /** Ends the work after the present batch. */
  readonly stop: AbortSignal;
  /** Called after each batch. */
  progress(told: { readonly looked: number; readonly priced: number; readonly at: number }): void;
}

/** Requests of one model. */
interface RepricedModel {
  /** A kind of provider. */
  readonly service: string;
  readonly model: string;
  readonly requests: number;
  readonly tokens: number;
  readonly cost: ExactAmount;
}

/** Requests of one model that have no price, for one reason. */
interface UnpricedModel extends RepricedModel {
  /** Completes the sentence "has no price: …". */
  readonly reason: string;
}

/** Result for requests without a price; models in the order of their tokens, the most first. */
interface RepriceReport {
  /** Have a price now, or would have one. */
  readonly priced: readonly RepricedModel[];
  /** Have none still. */
  readonly unpriced: readonly UnpricedModel[];
  /** Whether a batch was completed that an earlier command had begun; it is not among the models. */
  readonly completed: boolean;
  /** Whether the work ended before all requests were checked. */
  readonly isCut: boolean;
}

/** Most models that are counted separately, since callers choose the names; the others are counted together. */
const maxModels = 10_000;
const otherModels = '(other models)';
const notKnown = 'no price of this model is known';

/**
 * Prices requests that were recorded without a price: their usage by `prices`, at the time of each request. Requests of
 * models that still have no price stay unchanged, as do rows that come into the store meanwhile.
 */
export async function repriceRequests(wish: RepriceWish, parts: RepriceParts): Promise<RepriceReport> {
  const { repricing, stop } = parts;
  const priced = new ModelSums();
  const unpriced = new Map<string, ModelSums>();
  let completed = false;
  let [looked, changed] = [0, 0];
  for (const window of monthsOf(wish.window)) {
    let after: RequestPlace | undefined;
    for (;;) {
      if (stop.aborted) return report(true);
      const turn = wish.dryRun ? undefined : await repricing.turn();
      completed ||= turn?.completed === true;
      const found = await repricing.unpriced({
        window,
        services: listOf(wish.provider),
        models: listOf(wish.model),
        after,
        limit: maxPriceChanges,
      });
      const known: (PriceChange & { readonly request: UnpricedRequest })[] = [];
      const unknown: { readonly request: UnpricedRequest; readonly reason: string }[] = [];
      for (const request of found) {
        const { createdAt, id, model, usage } = request;
        const by = await parts.pricedBy(request);
        if (typeof by === 'object' && 'reason' in by) {
          unknown.push({ request, reason: by.reason });
          continue;
        }
        const { cost, status, version } = parts.prices.price(usage, by, model, createdAt);
        if (status === 'priced') known.push({ createdAt, id, cost, version, request });
        else unknown.push({ request, reason: notKnown });
      }
      // Another command was quicker: the remaining requests are read again.
      if (turn !== undefined && known.length > 0 && !(await turn.change(known))) continue;
      for (const { request, cost } of known) priced.add(request, cost);
      for (const { request, reason } of unknown) sumsFor(reason).add(request, '0');
      after = found.at(-1);
      if (after === undefined) break;
      [looked, changed] = [looked + found.length, changed + known.length];
      parts.progress({ looked, priced: changed, at: after.createdAt });
      if (found.length < maxPriceChanges) break;
    }
  }
  return report(false);

  function report(isCut: boolean): RepriceReport {
    const left = [...unpriced].flatMap(([reason, sums]) => sums.list().map((one) => ({ ...one, reason })));
    return { priced: priced.list(), unpriced: left.sort(byTokens), completed, isCut };
  }

  /** Reasons name providers of the store: callers cannot invent them. */
  function sumsFor(reason: string): ModelSums {
    let sums = unpriced.get(reason);
    if (sums === undefined) unpriced.set(reason, (sums = new ModelSums()));
    return sums;
  }
}

function listOf(one: string | undefined): readonly string[] | undefined {
  return one === undefined ? undefined : [one];
}

/** A batch lies in one month. */
function monthsOf({ from, to }: TimeWindow): TimeWindow[] {
  const months: TimeWindow[] = [];
  for (let start = from; start < to;) {
    const begin = new Date(start);
    const next = Math.min(Date.UTC(begin.getUTCFullYear(), begin.getUTCMonth() + 1), to);
    months.push({ from: start, to: next });
    start = next;
  }
  return months;
}

class ModelSums {
  readonly #models = new Map<string, RepricedModel>();

  add({ service, model, usage }: UnpricedRequest, cost: string): void {
    const amount = readAmount(cost);
    if (amount === undefined) throw new Error(`The price of a request is "${cost}", and no amount.`);
    const own = `${service}\n${model}`;
    const fits = this.#models.has(own) || this.#models.size < maxModels;
    const [key, name] = fits ? [own, model] : [`${service}\n${otherModels}`, otherModels];
    const before = this.#models.get(key);
    this.#models.set(key, {
      service,
      model: name,
      requests: (before?.requests ?? 0) + 1,
      tokens: (before?.tokens ?? 0) + usage.totalTokens,
      cost: (before?.cost ?? 0n) + amount,
    });
  }

  list(): readonly RepricedModel[] {
    return [...this.#models.values()].sort(byTokens);
  }
}

function byTokens(one: RepricedModel, other: RepricedModel): number {
  return other.tokens - one.tokens;
}
