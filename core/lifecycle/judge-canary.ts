import type { CanaryRules } from '../ports/config-canary.ts';
import { type CanaryCounts, medianOf, sharesAround } from '../http/canary-gate.ts';

/** Fewer bad answers than this may be chance, whatever their share is. */
const fewest = 3;
/** Standard errors by which a share has to differ before it is no chance: about one in a thousand. */
const certain = 3;
/** A smaller rise of the median is the gateway's own, whatever its share is: a new configuration begins cold. */
const leastRiseMs = 5;

/** What both sides have served since the canary began. */
interface Counted {
  readonly before: CanaryCounts;
  readonly after: CanaryCounts;
}

/** Why the new configuration has to go, as a sentence; undefined when nothing is worse. */
export function worseOf({ before, after }: Counted, rules: CanaryRules): string | undefined {
  const errors = riseOf(
    'answers fail',
    [before.errors, after.errors],
    { before, after },
    rules.max_error_rise,
  );
  if (errors !== undefined) return errors;
  const refused = [before.refusals, after.refusals] as const;
  const refusals = riseOf('requests are refused', refused, { before, after }, rules.max_refusal_rise);
  if (refusals !== undefined) return refusals;
  const [was, is] = [medianOf(before), medianOf(after)];
  if (was === undefined || is === undefined || after.requests < rules.min_requests) return undefined;
  const rise = (is / was - 1) * 100;
  if (rise <= rules.max_latency_rise || is - was < leastRiseMs || mayBeChance(before, after))
    return undefined;
  return `Answers take ${rise.toFixed(0)} % longer: ${is.toFixed(0)} instead of ${was.toFixed(0)} ms at the median (at most ${rules.max_latency_rise} %).`;
}

/**
 * Whether the answers of the new configuration may be above the old median by chance: half of them are when nothing has
 * changed. Nine are the fewest that can be no chance.
 */
function mayBeChance(before: CanaryCounts, after: CanaryCounts): boolean {
  const { faster, alike, all } = sharesAround(before, after);
  const slower = all - faster - alike / 2;
  return (slower - all / 2) / (Math.sqrt(all) / 2) < certain;
}

function riseOf(
  what: string,
  [was, is]: readonly [was: number, is: number],
  { before, after }: Counted,
  most: number,
): string | undefined {
  if (is < fewest || after.requests === 0) return undefined;
  const [old, next] = [before.requests === 0 ? 0 : was / before.requests, is / after.requests];
  if ((next - old) * 100 <= most) return undefined;
  const shared = (was + is) / (before.requests + after.requests);
  const error = Math.sqrt(shared * (1 - shared) * (1 / after.requests + 1 / Math.max(1, before.requests)));
  if (error > 0 && (next - old) / error < certain) return undefined;
  return `More ${what}: ${percent(next)} of ${after.requests} instead of ${percent(old)} of ${before.requests} (at most ${most} points more).`;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
