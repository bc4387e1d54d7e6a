import { describeValue } from '../../config/describe-value.ts';
import { equalTo, oneOf } from './equal-values.ts';
import type { PatternBudget } from './compile-pattern.ts';
import { numberOf } from './number-of.ts';

/** Whether the value of a field, undefined for none, meets an operator. */
type Meets = (value: unknown) => boolean;
/** Makes the test for an operand; a text says what is wrong with the operand and what to do. */
type CompileOperator = (operand: unknown, patterns: PatternBudget) => Meets | string;

type Comparable = number | bigint;

/** Every operator that a field can be given. */
export const conditionOperators: ReadonlyMap<string, CompileOperator> = new Map<string, CompileOperator>([
  ['$eq', equalTo],
  ['$ne', (operand) => unless(equalTo(operand))],
  ['$gt', comparing((value, limit) => value > limit)],
  ['$gte', comparing((value, limit) => value >= limit)],
  ['$lt', comparing((value, limit) => value < limit)],
  ['$lte', comparing((value, limit) => value <= limit)],
  ['$in', oneOf],
  ['$nin', (operand) => unless(oneOf(operand))],
  ['$regex', (operand, patterns) => patterns.compile(operand)],
]);

function unless(meets: Meets | string): Meets | string {
  return typeof meets === 'string' ? meets : (value) => !meets(value);
}

function comparing(holds: (value: Comparable, limit: Comparable) => boolean): CompileOperator {
  return (operand) => {
    const limit = numberOf(operand);
    if (limit === undefined) return `must be a number, not ${describeValue(operand)}`;
    return (value) => {
      const number = numberOf(value);
      return number !== undefined && holds(number, limit);
    };
  };
}
