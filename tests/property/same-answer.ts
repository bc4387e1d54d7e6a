/** Whether two answers say the same, but for what depends on the order in which a store brings numbers together. */

/** Quantiles are sketches: they may differ by a little within equal rows. */
const sketched = /^p(50|90|95|99)(_latency)?$/;
const sketchTolerance = 0.03;
const tolerance = 1e-9;
/** Of one answer alone: it names a place in it. */
const ownWords = new Set(['next_cursor', 'request_id']);

/** The first difference between two answers in JSON; undefined for none. */
export function sameAnswer(one: string, other: string): string | undefined {
  return difference(JSON.parse(one), JSON.parse(other), '');
}

function difference(one: unknown, other: unknown, at: string): string | undefined {
  const name = at.slice(at.lastIndexOf('/') + 1);
  if (ownWords.has(name)) return undefined;
  if (typeof one === 'number' && typeof other === 'number') {
    const most = (sketched.test(name) ? sketchTolerance : tolerance) * Math.max(1, Math.abs(one));
    return Math.abs(one - other) <= most ? undefined : `${at}: ${one}, and ${other} of what is allowed`;
  }
  if (typeof one === 'object' && one !== null && typeof other === 'object' && other !== null) {
    for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
      const found = difference(Reflect.get(one, key), Reflect.get(other, key), `${at}/${key}`);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (Object.is(one, other)) return undefined;
  return `${at}: ${JSON.stringify(one)}, and ${JSON.stringify(other)} of what is allowed`;
}
