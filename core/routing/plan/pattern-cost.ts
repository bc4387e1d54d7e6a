import { allCharacters, patternShape, type PatternShape } from './pattern-shape.ts';

/** Characters of a text that an expression may look at: the more where it stays quick there. */
const reaches = [4096, 256];
/** Steps that a test may take at worst, counted generously. */
const mostSteps = 16 * 4096 * 4096;

const nested =
  'repeats something that is itself repeated or has alternatives that begin alike, which can take very long; ' +
  'let each repetition begin with a character that cannot end the one before, or split the expression with "$and" and "$or"';

/**
 * How many characters of a text a valid regular expression without flags may look at, 4,096 or 256, so that no text
 * keeps it busy for long; or, as a text, why none. Errs on the side of refusing: it looks at which characters may
 * follow where, one ahead.
 */
export function reachOfPattern(source: string): number | string {
  const shape = patternShape(source);
  if (shape === undefined)
    return 'has a back-reference, an octal escape or a group that changes flags; write out what is meant';
  for (const reach of reaches) {
    const meter = new CostMeter(reach);
    const steps = meter.cost(shape, 0n, 1);
    if (meter.nested) return nested;
    // A search that is not bound to the beginning starts at every character.
    if (steps * (beginsAtStart(shape) ? 1 : reach) <= mostSteps) return reach;
  }
  return (
    'has too many repetitions that can share a text in different ways, which can take very long; ' +
    'begin it with ^, replace .* by a narrower set such as [^-]*, or split it with "$and"'
  );
}

class CostMeter {
  nested = false;
  readonly #subject: number;
  #loops = 0;

  constructor(subject: number) {
    this.#subject = subject;
  }

  /** Steps from here to the end, at worst: `follow` are the characters that may come next, `rest` the steps behind. */
  cost(shape: PatternShape, follow: bigint, rest: number): number {
    switch (shape.kind) {
      case 'set':
      case 'start':
      case 'edge':
      case 'end':
        return 1 + rest;
      case 'look':
        return this.cost(shape.body, 0n, 1) + rest;
      case 'sequence':
        return this.#sequence(shape.items, follow, rest);
      case 'choice':
        return this.#choice(shape.options, follow, rest);
      case 'repeat':
        return shape.most <= 1 ? this.#optional(shape, follow, rest) : this.#loop(shape, follow, rest);
    }
  }

  #sequence(items: readonly PatternShape[], follow: bigint, rest: number): number {
    let steps = rest;
    let next = follow;
    for (const item of items.toReversed()) {
      steps = this.cost(item, next, steps);
      next = followBefore(item, next);
    }
    return steps;
  }

  /** Options that may begin alike are tried one after the other, of the others only one. */
  #choice(options: readonly PatternShape[], follow: bigint, rest: number): number {
    const begins = options.map((option) => followBefore(option, follow));
    const steps = options.map((option) => this.cost(option, follow, rest));
    let worst = 0;
    for (const [index, begin] of begins.entries()) {
      let sum = 0;
      for (const [other, otherBegin] of begins.entries())
        if (other === index || (begin & otherBegin) !== 0n) sum += steps[other] ?? 0;
      if (this.#loops > 0 && sum > (steps[index] ?? 0)) this.nested = true;
      worst = Math.max(worst, sum);
    }
    return worst + options.length;
  }

  #optional({ body, least, most }: Repeat, follow: bigint, rest: number): number {
    if (most === 0) return rest;
    const steps = this.cost(body, follow, rest);
    if (least === 1) return steps;
    const ambiguous = this.#isAmbiguous(body, follow);
    return ambiguous ? steps + rest : Math.max(steps, rest) + 1;
  }

  #loop({ body, least, most }: Repeat, follow: bigint, rest: number): number {
    const longest = Math.min(most, this.#subject);
    const choices =
      most > least && this.#isAmbiguous(body, follow) ? longest - Math.min(least, longest) + 1 : 1;
    const again = followBefore(body, 0n);
    this.#loops++;
    const steps = this.cost(body, follow | again, 0);
    this.#loops--;
    return longest * steps + choices * rest;
  }

  /** Whether it may go on or stop at one and the same character; within a loop that doubles with each round. */
  #isAmbiguous(body: PatternShape, follow: bigint): boolean {
    const ambiguous = (followBefore(body, 0n) & follow) !== 0n || isEmpty(body);
    if (ambiguous && this.#loops > 0) this.nested = true;
    return ambiguous;
  }
}

type Repeat = Extract<PatternShape, { readonly kind: 'repeat' }>;

/** The characters that may come first when `shape` stands before something that begins with `follow`. */
function followBefore(shape: PatternShape, follow: bigint): bigint {
  switch (shape.kind) {
    case 'set':
      return shape.chars;
    case 'start':
    case 'edge':
      return follow;
    case 'end':
      return 0n;
    // It may refuse what stands behind it, whatever that is, so that those before it are tried again.
    case 'look':
      return allCharacters;
    case 'sequence':
      return shape.items.reduceRight((next, item) => followBefore(item, next), follow);
    case 'choice':
      return shape.options.reduce((chars, option) => chars | followBefore(option, follow), 0n);
    case 'repeat':
      return followBefore(shape.body, follow) | (shape.least === 0 ? follow : 0n);
  }
}

/** Whether it may match nothing at all. */
function isEmpty(shape: PatternShape): boolean {
  switch (shape.kind) {
    case 'set':
      return false;
    case 'start':
    case 'edge':
    case 'end':
    case 'look':
      return true;
    case 'sequence':
      return shape.items.every(isEmpty);
    case 'choice':
      return shape.options.some(isEmpty);
    case 'repeat':
      return shape.least === 0 || isEmpty(shape.body);
  }
}

function beginsAtStart(shape: PatternShape): boolean {
  switch (shape.kind) {
    case 'start':
      return true;
    case 'sequence':
      return shape.items[0] !== undefined && beginsAtStart(shape.items[0]);
    case 'choice':
      return shape.options.every(beginsAtStart);
    default:
      return false;
  }
}
