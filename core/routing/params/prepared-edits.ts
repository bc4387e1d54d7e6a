import type { JsonValue } from '../../pipeline/context.ts';
import { encode } from '../../pipeline/json-splice.ts';
import { type Drops, dropsBelow, dropTree, isDropped, withoutDropped } from './drop-tree.ts';
import type { ParamEdits } from './param-edits.ts';

/** A member that is set, without what is dropped of it. */
export interface PreparedMember {
  readonly name: string;
  readonly value: JsonValue;
  /** The value as JSON. */
  readonly text: string;
  /** `"name":value`. */
  readonly member: string;
}

/** Edits as they are applied: nothing is set that another edit would change again. */
export interface PreparedEdits {
  readonly defaults: readonly PreparedMember[];
  readonly overrides: readonly PreparedMember[];
  /** What is dropped of members that the request itself brings. */
  readonly drops: Drops | undefined;
}

const prepared = new WeakMap<ParamEdits, PreparedEdits>();

/** Prepares edits once; they live as long as the config that they belong to. */
export function preparedEdits(edits: ParamEdits): PreparedEdits {
  let known = prepared.get(edits);
  if (known === undefined) prepared.set(edits, (known = prepare(edits)));
  return known;
}

function prepare(edits: ParamEdits): PreparedEdits {
  const tree = dropTree(edits.drops);
  const overrides = membersOf(edits.overrides, tree);
  const overridden = new Set(overrides.map(({ name }) => name));
  return {
    defaults: membersOf(edits.defaults, tree).filter(({ name }) => !overridden.has(name)),
    overrides,
    drops: dropTree(edits.drops.filter(([name]) => !overridden.has(String(name)))),
  };
}

function membersOf(members: ParamEdits['defaults'], tree: Drops | undefined): PreparedMember[] {
  const kept: PreparedMember[] = [];
  // Of a name that is there twice the last one holds.
  for (const [name, whole] of new Map(members)) {
    const drops = dropsBelow(tree, name);
    if (isDropped(drops)) continue;
    const value = drops === undefined ? whole : withoutDropped(whole, drops);
    const text = encode(value);
    kept.push({ name, value, text, member: `${JSON.stringify(name)}:${text}` });
  }
  return kept;
}
