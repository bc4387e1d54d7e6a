import { describeValue } from '../../config/describe-value.ts';
import { isObject } from '../../config/schema-object.ts';

/** Values that `$in` and `$nin` compare with. */
const maxValues = 10_000;
/** Levels of a list or object that a field is compared with. */
const maxDepth = 32;

type Meets = (value: unknown) => boolean;

/** The test of `$eq`, or what is wrong with its operand. */
export function equalTo(operand: unknown): Meets | string {
  if (operand === null) return (value) => value === null;
  const text = scalarText(operand);
  if (text !== undefined) return (value) => scalarText(value) === text;
  const wrong = problemOf(operand);
  return wrong ?? ((value) => deepEqual(operand, value));
}

/** The test of `$in`, or what is wrong with its operand. */
export function oneOf(operand: unknown): Meets | string {
  if (!Array.isArray(operand))
    return `must be a list of values, not ${describeValue(operand)}; put it in brackets`;
  if (operand.length === 0) return 'is an empty list, which nothing is in; give it a value';
  if (operand.length > maxValues) return `has more than ${maxValues} values; use "$regex" or fewer`;
  const texts = new Set<string>();
  const others: Meets[] = [];
  for (const item of operand as readonly unknown[]) {
    const text = scalarText(item);
    if (text !== undefined) texts.add(text);
    else {
      const meets = equalTo(item);
      if (typeof meets === 'string') return meets;
      others.push(meets);
    }
  }
  return (value) => {
    const text = scalarText(value);
    return text === undefined ? others.some((meets) => meets(value)) : texts.has(text);
  };
}

/** A text, number or boolean as text, in which alone they are compared; undefined for anything else. */
function scalarText(value: unknown): string | undefined {
  switch (typeof value) {
    case 'string':
      return value;
    case 'number':
      // As the same digits as the bigint that another reader makes of it.
      return Number.isInteger(value) && !Number.isSafeInteger(value) ? String(BigInt(value)) : String(value);
    case 'bigint':
    case 'boolean':
      return String(value);
    default:
      return undefined;
  }
}

/** Within lists and objects types count: "3" is not 3 there. As deep as `expected` goes. */
function deepEqual(expected: unknown, value: unknown): boolean {
  if (expected === value) return true;
  if (Array.isArray(expected))
    return (
      Array.isArray(value) &&
      value.length === expected.length &&
      expected.every((item, index) => deepEqual(item, value[index]))
    );
  if (isObject(expected)) {
    if (!isObject(value)) return false;
    const names = Object.keys(expected);
    return (
      names.length === Object.keys(value).length &&
      names.every((name) => Object.hasOwn(value, name) && deepEqual(expected[name], value[name]))
    );
  }
  return isNumber(expected) && isNumber(value) && scalarText(expected) === scalarText(value);
}

function isNumber(value: unknown): boolean {
  return typeof value === 'number' || typeof value === 'bigint';
}

function problemOf(operand: unknown, depth = 1): string | undefined {
  if (depth > maxDepth) return `goes more than ${maxDepth} levels deep; compare a field further down`;
  const items: readonly unknown[] | undefined = Array.isArray(operand)
    ? operand
    : isObject(operand)
      ? Object.values(operand)
      : undefined;
  if (items === undefined)
    return operand === null || scalarText(operand) !== undefined
      ? undefined
      : 'must be a text, number, boolean, null, list or object';
  for (const item of items) {
    const problem = problemOf(item, depth + 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
