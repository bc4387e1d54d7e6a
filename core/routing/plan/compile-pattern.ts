import { describeValue } from '../../config/describe-schema.ts';
import { linearPattern } from '../../base/linear-pattern.ts';

const longestPattern = 1000;
/** Upper bound of the steps of all expressions of one config together, which bounds the cost of compiling them. */
const maxSteps = 2048;
/** Upper bound of steps times characters for all expressions on one request. */
const maxWork = maxSteps * 256;
/** Upper bound of the characters of a text that an expression examines. */
const longestReach = 4096;

/**
 * The regular expressions of one config. They share a budget, so that neither their number nor their texts can block the
 * gateway: the larger they are together, the fewer characters of a text each examines, from 4,096 down to 256.
 */
export class PatternBudget {
  #steps = 0;
  #reach = longestReach;

  /** The test of `$regex`, or the issue of its operand. */
  compile(operand: unknown): ((value: unknown) => boolean) | string {
    if (typeof operand !== 'string') return `must be a text, not ${describeValue(operand)}`;
    if (operand.length > longestPattern)
      return `has more than ${longestPattern} characters; split it with "$or" or list the values with "$in"`;
    if (this.#steps >= maxSteps)
      return `is one expression too many: those of one config may expand to ${maxSteps} steps together; list values with "$in" or compare with "$eq"`;
    const pattern = linearPattern(operand, maxSteps - this.#steps);
    // Refused expressions count too: each costs time, and a config may hold many.
    this.#steps += typeof pattern === 'string' ? operand.length : pattern.steps;
    if (typeof pattern === 'string') return pattern;
    this.#reach = Math.min(longestReach, Math.floor(maxWork / this.#steps));
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
