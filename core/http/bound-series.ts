import { isSameList } from '../ports/header-list.ts';
import type { RequestLabels, Series } from './request-families.ts';

/** Combinations of labels whose series stay bound; beyond it series are looked up each time. */
const maxBound = 5000;
/** Of those, as many as a gateway mostly serves in turn. */
const maxLatest = 4;

/** A combination of labels. */
export interface Combination extends RequestLabels {
  /** Of the labels that the configuration asks for, in its order. */
  readonly further: readonly string[];
}

interface Bound extends Combination {
  readonly series: Series;
}

/** Series by their labels. The latest ones are found by comparing, for a fraction of what it costs to make a key and look it up. */
export class BoundSeries {
  private readonly byKey = new Map<string, Bound>();
  private readonly latest: Bound[] = [];
  private next = 0;
  private readonly bind: (one: Combination) => Series;

  /** `bind` makes the series of a combination that is not known. */
  constructor(bind: (one: Combination) => Series) {
    this.bind = bind;
  }

  of(one: Combination): Series {
    for (const bound of this.latest) if (areSame(bound, one)) return bound.series;
    const key = keyOf(one);
    let bound = this.byKey.get(key);
    if (bound === undefined) {
      bound = { ...one, series: this.bind(one) };
      if (this.byKey.size < maxBound) this.byKey.set(key, bound);
    }
    this.latest[this.next] = bound;
    this.next = (this.next + 1) % maxLatest;
    return bound.series;
  }
}

function areSame(one: Combination, other: Combination): boolean {
  return (
    one.cacheStatus === other.cacheStatus &&
    one.status === other.status &&
    one.provider === other.provider &&
    one.endpoint === other.endpoint &&
    one.outcome === other.outcome &&
    one.method === other.method &&
    one.stream === other.stream &&
    one.source === other.source &&
    isSameList(one.further, other.further)
  );
}

function keyOf(one: Combination): string {
  const { provider, endpoint, status, outcome, method, stream, source, cacheStatus, further } = one;
  const own = `${provider}|${endpoint}|${status}|${outcome}|${method}|${stream ? 's' : ''}${source}|${cacheStatus}`;
  return further.length === 0 ? own : own + JSON.stringify(further);
}
