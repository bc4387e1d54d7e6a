import type { JsonValue } from '../../pipeline/context.ts';

/** Replacement of the beginning of a model's name. */
interface ModelPrefix {
  readonly remove: string;
  readonly add: string;
}

/** A config's compiled edits of the request's body. Order: defaults, overrides, drops. */
export interface ParamEdits {
  /** Top-level members to add where they are absent. */
  readonly defaults: readonly (readonly [name: string, value: JsonValue])[];
  /** Top-level members to set unconditionally. */
  readonly overrides: readonly (readonly [name: string, value: JsonValue])[];
  /** Paths to remove where they exist; `*` stands for every item of a list. */
  readonly drops: readonly (readonly (string | number)[])[];
  /** Undefined: the model keeps its beginning. */
  readonly modelPrefix?: ModelPrefix | undefined;
}

/** The model with the beginning that the edits give it; the same for one without the beginning to remove. */
export function withModelPrefix({ modelPrefix }: ParamEdits, model: string): string {
  if (modelPrefix === undefined || !model.startsWith(modelPrefix.remove)) return model;
  return modelPrefix.add + model.slice(modelPrefix.remove.length);
}

/** Tree of the paths to remove, by their steps. */
interface DropNode {
  /** A path ends here. */
  isEnd: boolean;
  readonly members: Map<string, DropNode>;
  readonly items: Map<number, DropNode>;
  everyItem: DropNode | undefined;
}

/**
 * Removals below one place of a document: the tree nodes of the paths that lead there, several of them when `*` and an
 * index both match. All indices are those of the original document.
 */
export type Drops = readonly DropNode[];

/** Tree of the paths, so that one pass handles all of them. Undefined for no paths. */
export function dropTree(paths: ParamEdits['drops']): Drops | undefined {
  if (paths.length === 0) return undefined;
  const root = emptyNode();
  for (const path of paths) {
    let node = root;
    for (const step of path) node = nextNode(node, step);
    node.isEnd = true;
  }
  return [root];
}

/** Removals below a member or an item; undefined for none. */
export function dropsBelow(drops: Drops | undefined, step: string | number): Drops | undefined {
  if (drops === undefined) return undefined;
  let found: DropNode[] | undefined;
  for (const { members, items, everyItem } of drops) {
    const next = typeof step === 'string' ? members.get(step) : items.get(step);
    if (next !== undefined) (found ??= []).push(next);
    if (typeof step === 'number' && everyItem !== undefined) (found ??= []).push(everyItem);
  }
  return found;
}

/** Whether the place itself is removed. */
export function isDropped(drops: Drops | undefined): boolean {
  if (drops === undefined) return false;
  for (const { isEnd } of drops) if (isEnd) return true;
  return false;
}

/** A copy of the value without the dropped parts; the same value when it has none of them. Never changes it. */
export function withoutDropped(value: JsonValue, drops: Drops): JsonValue {
  if (Array.isArray(value)) return withoutItems(value, drops);
  if (typeof value !== 'object' || value === null) return value;
  let copy: { [name: string]: JsonValue } | undefined;
  for (const name of Object.keys(value)) {
    const below = dropsBelow(drops, name);
    if (below === undefined) continue;
    if (isDropped(below)) {
      copy ??= { ...value };
      delete copy[name];
      continue;
    }
    const before = value[name] as JsonValue;
    const after = withoutDropped(before, below);
    if (after !== before) (copy ??= { ...value })[name] = after;
  }
  return copy ?? value;
}

function withoutItems(list: JsonValue[], drops: Drops): JsonValue[] {
  let copy: JsonValue[] | undefined;
  for (const [index, before] of list.entries()) {
    const below = dropsBelow(drops, index);
    const gone = isDropped(below);
    const after = below === undefined || gone ? before : withoutDropped(before, below);
    if (gone || after !== before) copy ??= list.slice(0, index);
    if (!gone) copy?.push(after);
  }
  return copy ?? list;
}

function emptyNode(): DropNode {
  return { isEnd: false, members: new Map(), items: new Map(), everyItem: undefined };
}

function nextNode(node: DropNode, step: string | number): DropNode {
  if (step === '*') return (node.everyItem ??= emptyNode());
  if (typeof step === 'string') return nodeIn(node.members, step);
  return nodeIn(node.items, step);
}

function nodeIn<Step>(nodes: Map<Step, DropNode>, step: Step): DropNode {
  let node = nodes.get(step);
  if (node === undefined) nodes.set(step, (node = emptyNode()));
  return node;
}
