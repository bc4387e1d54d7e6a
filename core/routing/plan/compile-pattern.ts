import { describeValue } from '../../config/describe-schema.ts';
import { linearPattern } from '../../base/linear-pattern.ts';

const longestPattern = 1000;
/** Steps that all expressions of one config may have together: what building them costs hangs on it. */
const mostSteps = 2048;
/** Steps times characters that all of them may take on the texts of one request. */
const mostWork = mostSteps * 256;
/** Characters of a text that an expression looks at, at the most. */
const longestReach = 4096;

/**
 * The regular expressions of one config. They share a budget, so that neither their number nor their texts can hold up
 * the gateway: the larger they are together, the fewer characters of a text each looks at, from 4,096 down to 256.
 */
export class PatternBudget {
  #steps = 0;
  #reach = longestReach;

  /** The test of `$regex`, or what is wrong with its operand. */
  compile(operand: unknown): ((value: unknown) => boolean) | string {
    if (typeof operand !== 'string') return `must be a text, not ${describeValue(operand)}`;
    if (operand.length > longestPattern)
      return `has more than ${longestPattern} characters; split it with "$or" or list the values with "$in"`;
    if (this.#steps >= mostSteps)
      return `is one expression too many: those of one config may expand to ${mostSteps} steps together; list values with "$in" or compare with "$eq"`;
    const pattern = linearPattern(operand, mostSteps - this.#steps);
    // Refused ones count too: each cost something, and a config may hold many.
    this.#steps += typeof pattern === 'string' ? operand.length : pattern.steps;
    if (typeof pattern === 'string') return pattern;
    this.#reach = Math.min(longestReach, Math.floor(mostWork / this.#steps));
    return (value) => {
      const text =
        typeof value === 'string'
          ? value
          : typeof value === 'number' || typeof value === 'bigint'
            ? String(value)
            : undefined;
      if (text === undefined) return false;
      return pattern.test(text.length > this.#reach ? text.slice(0, this.#reach) : text);
    };
  }
}
