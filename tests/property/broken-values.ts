/** Values that somebody careless, or hostile, would send in place of good ones. */
import fc from 'fast-check';

const deeplyNested = (): unknown => {
  let value: unknown = [];
  for (let depth = 0; depth < 300; depth++) value = depth % 2 === 0 ? [value] : { value };
  return value;
};

/** Out of kind, out of range, or out of Unicode. */
const odd: fc.Arbitrary<unknown> = fc.constantFrom<unknown>(
  ...[null, true, false, 0, -1, 0.5, 1e308, -1e308, 2 ** 53, 2 ** 31, Number.MIN_VALUE],
  ...['', ' ', '\u0000', 'a\u0000b', '\ud800', 'x\udfff', '\u202e', '💥', '%00', '../..', "' OR 1=1 --"],
  ...['x'.repeat(256), 'x'.repeat(20_000), '9'.repeat(400), '0001-01-01T00:00:00Z', '9999-12-31T23:59:60Z'],
  ...['2026-02-30T00:00:00Z', '+275760-09-13T00:00:00.001Z', '{}', 'null', '__proto__', '*', ',', ',,,'],
  ...[[], {}, [[]], [null], { '': '' }, { toString: 1 }, deeplyNested()],
);

/** Names that members of objects do not have, or should not. */
const oddNames = fc.constantFrom(
  '',
  'unknown',
  '__proto__',
  'constructor',
  'toString',
  '\u0000',
  '\ud800',
  '/',
  '~',
);

interface Change {
  /** Which of the places in the value. */
  readonly at: number;
  readonly kind: 'replace' | 'add' | 'remove' | 'repeat';
  readonly value: unknown;
  readonly name: string;
}

/** How values are broken. */
interface Breaking {
  /** Values that are put in place of others, beside odd ones; default: any small JSON. */
  readonly pieces?: fc.Arbitrary<unknown>;
  /** Names of members that are added, beside odd ones. Default none. */
  readonly names?: fc.Arbitrary<string>;
  /** Most changes of one value. Default 2. */
  readonly most?: number;
}

/** These values with one or two things wrong, or something else in their place. */
export function brokenValues(
  values: fc.Arbitrary<unknown>,
  { pieces = fc.jsonValue({ maxDepth: 1 }), names, most = 2 }: Breaking = {},
): fc.Arbitrary<unknown> {
  const change: fc.Arbitrary<Change> = fc.record({
    at: fc.nat(),
    kind: fc.constantFrom('replace', 'replace', 'add', 'remove', 'repeat'),
    value: fc.oneof(odd, pieces),
    name: names === undefined ? oddNames : fc.oneof(oddNames, { arbitrary: names, weight: 3 }),
  });
  const changed = fc
    .tuple(values, fc.array(change, { minLength: 1, maxLength: most }))
    .map(([value, changes]) => changes.reduce(applied, value));
  return fc.oneof({ arbitrary: changed, weight: 3 }, odd);
}

type Holder = Record<string, unknown> | unknown[];

function applied(value: unknown, { at, kind, value: other, name }: Change): unknown {
  const root = { value: structuredClone(value) };
  const places = [...placesWithin(root)];
  const [holder, key] = places[at % places.length] ?? [root, 'value'];
  const present = (holder as Record<string, unknown>)[key];
  if (kind === 'replace') put(holder, key, other);
  else if (kind === 'add' && isHolder(present))
    put(present, Array.isArray(present) ? String(present.length) : name, other);
  else if (kind === 'remove' && holder !== root) delete (holder as Record<string, unknown>)[key];
  else if (kind === 'repeat' && Array.isArray(present)) put(holder, key, Array(60).fill(present).flat());
  return root.value;
}

function* placesWithin(holder: Holder): Generator<readonly [Holder, string]> {
  for (const [key, member] of Object.entries(holder)) {
    yield [holder, key];
    if (isHolder(member)) yield* placesWithin(member);
  }
}

function isHolder(value: unknown): value is Holder {
  return typeof value === 'object' && value !== null;
}

/** As a member of its own, also under the name `__proto__`. */
function put(holder: Holder, key: string, value: unknown): void {
  Object.defineProperty(holder, key, { value, enumerable: true, configurable: true, writable: true });
}
