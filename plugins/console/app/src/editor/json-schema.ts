import { list } from '@/lib/format';
import { isObject } from '@/lib/json';
import { checks } from '@/texts/checks';

/** What a text says against a JSON Schema, and what may stand at a place of it. As much of JSON Schema as configs use. */

export interface Schema {
  readonly [keyword: string]: unknown;
}
/** Names and indexes that lead to a place. */
export type Place = readonly (string | number)[];

/** A fault of a value, at its place. */
export interface Fault {
  readonly place: Place;
  readonly message: string;
  /** It is about the name of the member, not about its value. */
  readonly isName?: boolean;
}

const mostFaults = 50;

function asSchema(value: unknown): Schema | undefined {
  return isObject(value) ? value : undefined;
}

/** The schema that a reference means; the same one without a reference. */
function resolved(schema: Schema, root: Schema): Schema {
  let current = schema;
  for (let step = 0; step < 10 && typeof current['$ref'] === 'string'; step += 1) {
    const name = current['$ref'].replace('#/$defs/', '');
    const target = isObject(root['$defs']) ? asSchema(root['$defs'][name]) : undefined;
    if (target === undefined) return {};
    current = target;
  }
  return current;
}

function branchesOf(schema: Schema): readonly Schema[] {
  const union = schema['anyOf'] ?? schema['oneOf'];
  return Array.isArray(union) ? union.map(asSchema).filter((one) => one !== undefined) : [];
}

/** Every schema that a value at this place may follow; empty where anything may stand. */
export function schemasAt(root: Schema, place: Place): readonly Schema[] {
  let current: readonly Schema[] = flat(root, root);
  for (const step of place) {
    current = current.flatMap((schema): readonly Schema[] => {
      const next =
        typeof step === 'number'
          ? asSchema(schema['items'])
          : (asSchema(isObject(schema['properties']) ? schema['properties'][step] : undefined) ??
            asSchema(schema['additionalProperties']));
      return next === undefined ? [] : flat(next, root);
    });
  }
  return current;
}

/** The schema with its branches beside it. */
function flat(schema: Schema, root: Schema): readonly Schema[] {
  const own = resolved(schema, root);
  return [own, ...branchesOf(own).flatMap((branch) => flat(branch, root))];
}

/** Members that may stand at a place, with what they mean. */
export function membersAt(root: Schema, place: Place): ReadonlyMap<string, Schema> {
  const found = new Map<string, Schema>();
  for (const { properties } of schemasAt(root, place))
    if (isObject(properties))
      for (const [name, member] of Object.entries(properties)) {
        const schema = asSchema(member);
        // Members that are refused in any case are not offered.
        if (schema !== undefined && schema['not'] === undefined && !found.has(name)) found.set(name, schema);
      }
  return found;
}

/** Values that may stand at a place, where they can be listed. */
export function valuesAt(root: Schema, place: Place): readonly unknown[] {
  const values = schemasAt(root, place).flatMap((schema): readonly unknown[] => {
    if ('const' in schema) return [schema['const']];
    if (Array.isArray(schema['enum'])) return schema['enum'];
    return schema['type'] === 'boolean' ? [true, false] : [];
  });
  return [...new Set(values)];
}

/** What stands at a place, in a sentence; empty when the schema does not say. */
export function descriptionAt(root: Schema, place: Place): string {
  const said = schemasAt(root, place).flatMap(({ description, default: usual }) =>
    typeof description === 'string'
      ? [description + (usual === undefined ? '' : checks.usual(JSON.stringify(usual)))]
      : [],
  );
  return said[0] ?? '';
}

/** The faults of a value, at most 50. */
export function faultsOf(value: unknown, root: Schema): readonly Fault[] {
  const faults: Fault[] = [];
  check(value, root, { root, place: [], faults });
  return faults.slice(0, mostFaults);
}

interface Checking {
  readonly root: Schema;
  readonly place: Place;
  readonly faults: Fault[];
}

function check(value: unknown, given: Schema, checking: Checking): void {
  const { root, place, faults } = checking;
  if (faults.length >= mostFaults) return;
  const schema = resolved(given, root);
  const say = (message: string): void => void faults.push({ place, message });
  const expected = schema['x-expected'];
  const not = asSchema(schema['not']);
  if (not !== undefined) {
    const wanted = not['x-expected'];
    return say(typeof wanted === 'string' ? checks.expected(wanted) : checks.notHere);
  }
  const branches = branchesOf(schema);
  if (branches.length > 0) return checkUnion(value, schema, branches, checking);
  const listed = 'const' in schema ? [schema['const']] : schema['enum'];
  if (Array.isArray(listed) && !listed.includes(value))
    return say(checks.expected(list(listed.map((one) => JSON.stringify(one)))));
  const { type } = schema;
  if (typeof type === 'string' && !hasType(value, type))
    return say(checks.expected(typeof expected === 'string' ? expected : (checks.types[type] ?? type)));
  if (typeof value === 'string') {
    const { pattern, minLength, maxLength } = schema;
    const misses = typeof pattern === 'string' && !new RegExp(pattern, 'u').test(value);
    if (misses) say(checks.expected(typeof expected === 'string' ? expected : checks.matching(pattern)));
    else if (typeof minLength === 'number' && value.length < minLength) say(checks.notEmpty);
    else if (typeof maxLength === 'number' && value.length > maxLength) say(checks.mostCharacters(maxLength));
  } else if (typeof value === 'number') {
    const { minimum, maximum } = schema;
    const low = typeof minimum === 'number' && value < minimum;
    const high = typeof maximum === 'number' && value > maximum;
    if (low || high)
      say(
        typeof expected === 'string'
          ? checks.expected(expected)
          : low
            ? checks.least(Number(minimum))
            : checks.most(Number(maximum)),
      );
  } else if (Array.isArray(value)) {
    const { maxItems, minItems } = schema;
    if (typeof maxItems === 'number' && value.length > maxItems) say(checks.mostItems(maxItems));
    if (typeof minItems === 'number' && value.length < minItems) say(checks.leastItems(minItems));
    const items = asSchema(schema['items']);
    if (items !== undefined)
      value.forEach((item, index) => check(item, items, { ...checking, place: [...place, index] }));
  } else if (isObject(value)) checkMembers(value, schema, checking);
}

function checkMembers(value: Record<string, unknown>, schema: Schema, checking: Checking): void {
  const { place, faults } = checking;
  const properties = isObject(schema['properties']) ? schema['properties'] : {};
  const required = Array.isArray(schema['required']) ? schema['required'].map(String) : [];
  for (const name of required)
    if (!Object.hasOwn(value, name)) faults.push({ place, message: checks.missing(name) });
  const others = schema['additionalProperties'];
  for (const [name, member] of Object.entries(value)) {
    const inner = [...place, name];
    const own = Object.hasOwn(properties, name) ? asSchema(properties[name]) : asSchema(others);
    if (own !== undefined) check(member, own, { ...checking, place: inner });
    else if (others === false) {
      const near = nearest(name, Object.keys(properties));
      const hint = near === undefined ? '' : checks.near(near);
      faults.push({ place: inner, isName: true, message: checks.unknown(name.slice(0, 60)) + hint });
    }
  }
}

function checkUnion(value: unknown, schema: Schema, branches: readonly Schema[], checking: Checking): void {
  const tries = branches.map((branch) => {
    const faults: Fault[] = [];
    check(value, branch, { ...checking, faults });
    return faults;
  });
  if (tries.some((faults) => faults.length === 0)) return;
  const values = branches.every((branch) => 'const' in branch) ? branches.map((one) => one['const']) : [];
  if (values.length > 0) {
    const near = typeof value === 'string' ? nearest(value, values.map(String)) : undefined;
    const hint = near === undefined ? '' : checks.near(near);
    const listed = list(values.map((one) => JSON.stringify(one)));
    checking.faults.push({ place: checking.place, message: checks.expectedOneOf(listed) + hint });
    return;
  }
  // The branch that comes furthest knows best what is meant.
  const deepest = [...tries].sort((a, b) => depthOf(b) - depthOf(a))[0] ?? [];
  const expected = schema['x-expected'];
  if (depthOf(deepest) > checking.place.length || typeof expected !== 'string')
    checking.faults.push(...deepest);
  else checking.faults.push({ place: checking.place, message: checks.expected(expected) });
}

function depthOf(faults: readonly Fault[]): number {
  return Math.max(0, ...faults.map(({ place }) => place.length));
}

function hasType(value: unknown, type: string): boolean {
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return isObject(value);
  if (type === 'null') return value === null;
  return typeof value === type;
}

/** The word that was probably meant. */
function nearest(word: string, known: readonly string[]): string | undefined {
  const ranked = known
    .map((one) => [one, distance(word.toLowerCase(), one.toLowerCase())] as const)
    .sort((a, b) => a[1] - b[1]);
  const [best] = ranked;
  return best !== undefined && best[1] <= Math.max(1, Math.floor(word.length / 3)) ? best[0] : undefined;
}

function distance(a: string, b: string): number {
  if (a.length > 60 || b.length > 60) return 60;
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + same));
    }
    row = next;
  }
  return row[b.length] ?? 60;
}
