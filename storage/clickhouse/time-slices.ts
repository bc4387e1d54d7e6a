import type { TimeWindow } from '../../core/ports/analytics.ts';

const firstMs = 3_600_000;

/**
 * The window in parts that follow each other from its newest or oldest end: an hour, then each `growth` times as long as
 * the one before; infinite: the rest at once. What fills a page early need not look at the rest.
 */
export function* timeSlices(
  { from, to }: TimeWindow,
  order: 'newest' | 'oldest',
  growth = 8,
): Generator<TimeWindow> {
  let ms = firstMs;
  let left: TimeWindow = { from, to };
  while (left.from < left.to) {
    const cut = order === 'newest' ? Math.max(left.to - ms, left.from) : Math.min(left.from + ms, left.to);
    yield order === 'newest' ? { from: cut, to: left.to } : { from: left.from, to: cut };
    left = order === 'newest' ? { from: left.from, to: cut } : { from: cut, to: left.to };
    ms *= growth;
  }
}
