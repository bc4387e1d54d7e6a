import { describeValue } from '../../config/describe-schema.ts';
import { didYouMean, listWords } from '../../base/did-you-mean.ts';
import type { Condition } from './plan-node.ts';
import { describeFieldPath, type FieldPath, parseFieldPath } from './field-path.ts';
import { linearPattern } from '../../base/linear-pattern.ts';
import { isJsonObject } from '../../base/json.ts';

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

/** Upper bound of the values of `$in` and `$nin`. */
const maxValues = 10_000;
/** Upper bound of the levels of a list or object to compare with. */
const maxComparedDepth = 32;

/** The test of `$eq`, or the issue of its operand. */
function equalTo(operand: unknown): Meets | string {
  if (operand === null) return (value) => value === null;
  const text = scalarText(operand);
  if (text !== undefined) return (value) => scalarText(value) === text;
  const wrong = problemOf(operand);
  return wrong ?? ((value) => deepEqual(operand, value));
}

/** The test of `$in`, or the issue of its operand. */
function oneOf(operand: unknown): Meets | string {
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

/** A text, number or boolean as text, the form in which they are compared; undefined for any other value. */
function scalarText(value: unknown): string | undefined {
  switch (typeof value) {
    case 'string':
      return value;
    case 'number':
      // The same digits as those of the bigint that another JSON parser makes of it.
      return Number.isInteger(value) && !Number.isSafeInteger(value) ? String(BigInt(value)) : String(value);
    case 'bigint':
    case 'boolean':
      return String(value);
    default:
      return undefined;
  }
}

/** Deep equality, as deep as `expected` goes. Within lists and objects types count: "3" is not 3. */
function deepEqual(expected: unknown, value: unknown): boolean {
  if (expected === value) return true;
  if (Array.isArray(expected))
    return (
      Array.isArray(value) &&
      value.length === expected.length &&
      expected.every((item, index) => deepEqual(item, value[index]))
    );
  if (isJsonObject(expected)) {
    if (!isJsonObject(value)) return false;
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
  if (depth > maxComparedDepth)
    return `goes more than ${maxComparedDepth} levels deep; compare a field further down`;
  const items: readonly unknown[] | undefined = Array.isArray(operand)
    ? operand
    : isJsonObject(operand)
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

const decimal = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,4})?$/i;
const integer = /^[+-]?\d+$/;
/** Upper bound of characters of a number. */
const longestNumber = 400;

/** The numeric value of a number or text, whole ones with all their digits; undefined for any other value. */
function numberOf(value: unknown): number | bigint | undefined {
  if (typeof value === 'bigint') return value;
  if (typeof value === 'number') return Number.isNaN(value) ? undefined : value;
  if (typeof value !== 'string' || value.length > longestNumber) return undefined;
  const text = value.trim();
  if (!decimal.test(text)) return undefined;
  const number = Number(text);
  return Number.isSafeInteger(number) || !integer.test(text) ? number : bigInteger(text);
}

function bigInteger(text: string): bigint {
  // `BigInt` rejects a plus sign.
  return text.startsWith('+') ? BigInt(text.slice(1)) : BigInt(text);
}

/** Whether the value of a field (undefined for none) satisfies an operator. */
type Meets = (value: unknown) => boolean;
/** Compiles the test for an operand; a text names the issue of the operand and the remedy. */
type CompileOperator = (operand: unknown, patterns: PatternBudget) => Meets | string;

type Comparable = number | bigint;

/** The operators of fields. */
const conditionOperators: ReadonlyMap<string, CompileOperator> = new Map<string, CompileOperator>([
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

/** Upper bound of the nesting of `$and` and `$or`. */
const maxDepth = 16;
/** Upper bound of comparisons in one query. */
const maxConditions = 256;

const operatorNames = [...conditionOperators.keys()];

/** An issue of a query with its place, such as `$or[1].metadata.user.$in`; an empty path for the query itself. */
interface ConditionIssue {
  readonly path: string;
  readonly message: string;
}

type CompiledCondition =
  | { readonly ok: true; readonly test: Condition; readonly reads: readonly FieldPath[] }
  | { readonly ok: false; readonly issues: readonly ConditionIssue[] };

/**
 * Compiles a query of a conditional strategy to a test, with the fields that it reads. All members of an object must
 * match: fields, `$and` and `$or` alike. The operand of a field is a value that it must equal, or an object of operators
 * that must all match.
 *
 * - `$eq`, `$ne`, `$in`, `$nin` and bare values compare as text where both sides are a text, number or boolean, because
 *   metadata are always texts: 3 equals "3". Lists and objects compare by their whole content, null equals null.
 * - `$gt`, `$gte`, `$lt`, `$lte` compare numbers and texts that are decimal numbers; nothing else ever matches.
 * - `$regex` is RE2's syntax, found anywhere in the first 4,096 characters of a text or number (fewer where the
 *   expressions that share `patterns` are large); look-around and back-references are refused.
 * - A missing field matches `$ne` and `$nin` only.
 *
 * All issues are reported here, none when a request is tested. At most 256 comparisons, 16 levels of `$and`, `$or`.
 */
export function compileCondition(query: unknown, patterns = new PatternBudget()): CompiledCondition {
  const compiler = new ConditionCompiler(patterns);
  const test = compiler.group(query, '', 0);
  return compiler.issues.length > 0 || test === undefined
    ? { ok: false, issues: compiler.issues }
    : { ok: true, test, reads: [...compiler.reads.values()] };
}

class ConditionCompiler {
  readonly issues: ConditionIssue[] = [];
  readonly reads = new Map<string, FieldPath>();
  readonly #patterns: PatternBudget;
  #conditions = 0;

  constructor(patterns: PatternBudget) {
    this.#patterns = patterns;
  }

  /** All members of one object of fields. */
  group(query: unknown, path: string, depth: number): Condition | undefined {
    if (!isJsonObject(query))
      return this.#refuse(
        path,
        `must be an object of fields such as { "metadata.user": "a" }, not ${describeValue(query)}`,
      );
    const members = Object.entries(query);
    if (members.length === 0)
      return this.#refuse(
        path,
        'is empty and says nothing; name a field, or use the default of the strategy',
      );
    const tests: Condition[] = [];
    for (const [name, value] of members) {
      const test = this.#member(name, value, { path: path === '' ? name : `${path}.${name}`, depth });
      if (test !== undefined) tests.push(test);
      if (this.#conditions > maxConditions) return undefined;
    }
    return allOf(tests);
  }

  #member(name: string, value: unknown, at: { path: string; depth: number }): Condition | undefined {
    if (name === '$and' || name === '$or') return this.#list(name, value, at);
    if (name.startsWith('$')) return this.#refuse(at.path, misplacedNameIssue(name));
    const field = parseFieldPath(name);
    if (field === undefined) return this.#refuse(at.path, unknownField(name));
    this.reads.set(describeFieldPath(field), field);
    return this.#field(field, value, at.path);
  }

  #list(name: '$and' | '$or', value: unknown, at: { path: string; depth: number }): Condition | undefined {
    if (!Array.isArray(value) || value.length === 0)
      return this.#refuse(at.path, `must be a list of at least one query, not ${describeValue(value)}`);
    if (at.depth >= maxDepth)
      return this.#refuse(at.path, `stands more than ${maxDepth} levels deep; write it flatter`);
    const tests: Condition[] = [];
    for (const [index, query] of value.entries()) {
      const test = this.group(query, `${at.path}[${index}]`, at.depth + 1);
      if (test !== undefined) tests.push(test);
      if (this.#conditions > maxConditions) return undefined;
    }
    return name === '$and' ? allOf(tests) : anyOf(tests);
  }

  #field(field: FieldPath, value: unknown, path: string): Condition | undefined {
    if (!isJsonObject(value)) return this.#operator(field, '$eq', { operand: value, path });
    const members = Object.entries(value);
    if (members.length === 0)
      return this.#refuse(path, 'has no operator; write a value or for example { "$eq": "a" }');
    const tests: Condition[] = [];
    for (const [name, operand] of members) {
      const test = this.#operator(field, name, { operand, path: `${path}.${name}` });
      if (test !== undefined) tests.push(test);
      if (this.#conditions > maxConditions) return undefined;
    }
    return allOf(tests);
  }

  #operator(
    field: FieldPath,
    name: string,
    { operand, path }: { operand: unknown; path: string },
  ): Condition | undefined {
    const compile = conditionOperators.get(name);
    if (compile === undefined) return this.#refuse(path, unknownOperator(name));
    const meets = compile(operand, this.#patterns);
    if (typeof meets === 'string') return this.#refuse(path, meets);
    if (!this.#hasRoom(path)) return undefined;
    return (valueOf) => meets(valueOf(field));
  }

  #refuse(path: string, message: string): undefined {
    if (this.#hasRoom(path)) this.issues.push({ path, message });
    return undefined;
  }

  /** Counts comparisons and stops at the bound, so that even a huge query is refused quickly. */
  #hasRoom(path: string): boolean {
    this.#conditions++;
    if (this.#conditions === maxConditions + 1)
      this.issues.push({
        path,
        message: `is comparison ${maxConditions + 1}, and a query has at most ${maxConditions}; use "$in" for lists of values`,
      });
    return this.#conditions <= maxConditions;
  }
}

function allOf(tests: readonly Condition[]): Condition | undefined {
  if (tests.length < 2) return tests[0];
  return (field) => {
    for (const test of tests) if (!test(field)) return false;
    return true;
  };
}

function anyOf(tests: readonly Condition[]): Condition | undefined {
  if (tests.length < 2) return tests[0];
  return (field) => {
    for (const test of tests) if (test(field)) return true;
    return false;
  };
}

function misplacedNameIssue(name: string): string {
  if (conditionOperators.has(name)) return `compares no field; write { "metadata.user": { "${name}": … } }`;
  return `is no operator here${hint(name, ['$and', '$or', ...operatorNames])}; only $and and $or stand beside fields`;
}

function unknownOperator(name: string): string {
  if (!name.startsWith('$'))
    return 'is no operator; to reach into an object name the whole path ("params.a.b"), to compare with one use "$eq"';
  if (name === '$and' || name === '$or')
    return `stands beside fields, not within one; write { "${name}": [{ "metadata.user": … }] }`;
  return `is no operator${hint(name, operatorNames)}; known are ${listWords(operatorNames, 'and')}`;
}

function unknownField(name: string): string {
  const root = /^[^.[]*/.exec(name)?.[0] ?? '';
  if (root === 'metadata')
    return 'is no field: metadata are one level deep; quote a name with dots as metadata["a.b"]';
  const near = hint(root, ['metadata', 'params', 'url', 'trace_id', 'api_key']);
  return `is no field${near}; fields are metadata.NAME, params.PATH[0].TO, url.pathname, trace_id and api_key.id`;
}

function hint(name: string, known: readonly string[]): string {
  const near = didYouMean(name, known);
  return near === undefined || near === name ? '' : `, did you mean "${near}"?`;
}
