import type { JsonObject, JsonValue } from '../../pipeline/context.ts';
import type { LargeDocument, MayBeLarge } from '../../pipeline/large-document.ts';
import { keyAt, skipSpace, skipString, skipValue } from '../../pipeline/json-splice.ts';
import { writeJson } from '../../base/json.ts';
import { decodePercent, encodeSegment } from '../../base/bytes.ts';

/** A member to set, after the drops within it. */
interface PreparedMember {
  readonly name: string;
  readonly value: JsonValue;
  /** The value as JSON. */
  readonly text: string;
  /** `"name":value`. */
  readonly member: string;
}

/** Edits ready to apply: no edit changes the result of another. */
interface PreparedEdits {
  readonly defaults: readonly PreparedMember[];
  readonly overrides: readonly PreparedMember[];
  /** Drops within members of the request itself. */
  readonly drops: Drops | undefined;
}

const prepared = new WeakMap<ParamEdits, PreparedEdits>();

/** Prepares edits once; the result lives as long as their config. */
function preparedEdits(edits: ParamEdits): PreparedEdits {
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
  // Of a repeated name the last value applies.
  for (const [name, whole] of new Map(members)) {
    const drops = dropsBelow(tree, name);
    if (isDropped(drops)) continue;
    const value = drops === undefined ? whole : withoutDropped(whole, drops);
    const text = writeJson(value);
    kept.push({ name, value, text, member: `${JSON.stringify(name)}:${text}` });
  }
  return kept;
}

/** Changes to the text of a JSON object. */
interface TextEdits {
  /** JSON texts of the new values of present top-level members, for each copy of a repeated one. */
  readonly values: ReadonlyMap<string, string> | undefined;
  /** Missing top-level members, as JSON texts: `"name":value`. */
  readonly added: readonly string[];
  readonly drops: Drops | undefined;
}

/** Makes all changes in one pass over the text and leaves every other character unchanged. `text` must be a JSON object. */
function editedText(text: string, edits: TextEdits): string {
  const pen = new Pen(text);
  container(pen, skipSpace(text, 0), edits.drops, edits);
  return pen.finish();
}

/** Copies the unchanged text and writes the replacements, from front to back. */
class Pen {
  readonly text: string;
  private written = '';
  private done = 0;

  constructor(text: string) {
    this.text = text;
  }

  /** Replaces the text from `from` to `to`, which must be after all earlier replacements. */
  replace(from: number, to: number, by: string): void {
    this.written += this.text.slice(this.done, from) + by;
    this.done = to;
  }

  finish(): string {
    return this.written + this.text.slice(this.done);
  }
}

/** Edits the object or list at `at`; returns the offset after it. Recurses no deeper than the longest path to drop. */
function container(pen: Pen, at: number, drops: Drops | undefined, edits?: TextEdits): number {
  const { text } = pen;
  const isList = text[at] === '[';
  /** End of the last kept member, and of the last member. */
  let keptEnd = at + 1;
  let end = at + 1;
  let kept = 0;
  /** Start of a run of removed members. */
  let cutFrom = -1;
  let start = skipSpace(text, at + 1);
  for (let index = 0; start < text.length && text[start] !== '}' && text[start] !== ']'; index++) {
    const keyEnd = isList ? start : skipString(text, start);
    const name = isList ? index : keyAt(text, start, keyEnd);
    const valueAt = isList ? start : skipSpace(text, skipSpace(text, keyEnd) + 1);
    const below = dropsBelow(drops, name);
    if (isDropped(below)) {
      if (cutFrom < 0) cutFrom = start;
      end = skipValue(text, valueAt);
    } else {
      if (cutFrom >= 0) pen.replace(cutFrom, start, '');
      cutFrom = -1;
      end = member(pen, valueAt, below, typeof name === 'string' ? edits?.values?.get(name) : undefined);
      keptEnd = end;
      kept++;
    }
    start = skipSpace(text, end);
    if (text[start] === ',') start = skipSpace(text, start + 1);
  }
  const added = edits?.added ?? [];
  if (added.length > 0) pen.replace(keptEnd, keptEnd, (kept > 0 ? ',' : '') + added.join(','));
  if (cutFrom >= 0) pen.replace(keptEnd, end, '');
  return start + 1;
}

/** Edits a value that is kept, whole or in part; returns the offset after it. */
function member(pen: Pen, at: number, drops: Drops | undefined, value: string | undefined): number {
  const { text } = pen;
  if (value === undefined && drops !== undefined && (text[at] === '{' || text[at] === '['))
    return container(pen, at, drops);
  const end = skipValue(text, at);
  if (value !== undefined) pen.replace(at, end, value);
  return end;
}

/** The body of an attempt, whose text can be replaced. */
interface EditableBody extends MayBeLarge {
  readonly text: string;
  readonly json: JsonValue | undefined;
  /** Takes over the changed text and its parsed value. */
  become(text: string, json: JsonValue): void;
  /** As `become`, for a large body. */
  becomeLarge?(document: LargeDocument): void;
}

/**
 * Applies a config's edits to the body: defaults for absent members (null is present), then overrides, then drops.
 * Missing paths are ignored; the indices of all drops are those of the lists before any drop.
 *
 * One pass over the text makes all edits, and none runs when the body has the wanted values already. Other bytes stay
 * unchanged. A body that is not a JSON object stays unchanged. The body must be in memory.
 */
export function applyParamEdits(edits: ParamEdits, body: EditableBody): void {
  const { json } = body;
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return;
  const { defaults, overrides, drops } = preparedEdits(edits);
  const kept = drops === undefined ? json : (withoutDropped(json, drops) as JsonObject);
  const set: PreparedMember[] = [];
  const added: string[] = [];
  let values: Map<string, string> | undefined;
  for (const one of defaults) {
    if (Object.hasOwn(json, one.name)) continue;
    added.push(one.member);
    set.push(one);
  }
  for (const one of overrides) {
    if (!Object.hasOwn(json, one.name)) added.push(one.member);
    else if (isSame(json[one.name] as JsonValue, one.value)) continue;
    else (values ??= new Map<string, string>()).set(one.name, one.text);
    set.push(one);
  }
  const model = kept['model'];
  const renamed = typeof model === 'string' ? withModelPrefix(edits, model) : model;
  if (typeof renamed === 'string' && renamed !== model) {
    (values ??= new Map<string, string>()).set('model', JSON.stringify(renamed));
    set.push({ name: 'model', value: renamed, text: '', member: '' });
  }
  if (set.length === 0 && kept === json) return;
  if (body.large !== undefined && body.becomeLarge !== undefined)
    return body.becomeLarge(changedLarge(body.large, kept, set));
  const text = editedText(body.text, { values, added, drops: kept === json ? undefined : drops });
  body.become(text, set.length === 0 ? kept : withMembers(kept, set));
}

/** A member with drops inside is written anew as a whole. */
function changedLarge(
  document: LargeDocument,
  kept: JsonObject,
  set: readonly PreparedMember[],
): LargeDocument {
  let changed = document;
  for (const [name, value] of Object.entries(document.json)) {
    if (!Object.hasOwn(kept, name)) changed = changed.remove([name]);
    else if (kept[name] !== value) changed = changed.set([name], kept[name] as JsonValue);
  }
  for (const { name, value } of set) changed = changed.set([name], value);
  return changed;
}

function withMembers(object: JsonObject, members: readonly PreparedMember[]): JsonObject {
  const copy = { ...object };
  for (const { name, value } of members) copy[name] = value;
  return copy;
}

/** Whether two values are equal, regardless of the order of members. */
function isSame(one: JsonValue, other: JsonValue): boolean {
  if (one === other) return true;
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false;
  if (Array.isArray(one) || Array.isArray(other)) {
    if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false;
    return one.every((item, index) => isSame(item, other[index] as JsonValue));
  }
  const names = Object.keys(one);
  if (names.length !== Object.keys(other).length) return false;
  return names.every(
    (name) => Object.hasOwn(other, name) && isSame(one[name] as JsonValue, other[name] as JsonValue),
  );
}

/** First segments of full resource names; other names are models of the default collection. */
const collections: ReadonlySet<string> = new Set([
  'models',
  'tunedModels',
  'projects',
  'publishers',
  'endpoints',
  'dynamic',
]);

const separator = /\/|%2f/gi;

const methodSeparator = /:|%3a/gi;

/** Segment before the name of a model: `models/x`, `publishers/google/models/x`. */
const inModels = /(?:^|\/)models\//g;

/**
 * The path with another model, for dialects with the model in the path: `/v1beta/models/FROM:generateContent`. `from` is
 * the model as the dialect's `readCall` reads it; `path` is raw and may be percent-encoded anywhere.
 *
 * A bare name replaces the name alone: `publishers/google/models/a` becomes `publishers/google/models/b`; a full resource
 * name (`tunedModels/x`) replaces the whole one. A path that does not contain `from` is returned unchanged.
 */
export function withModelInPath(path: string, from: string, to: string): string {
  if (from === '' || to === '') return path;
  const end = methodAt(path);
  const start = resourceAt(path.slice(0, end), from);
  if (start === undefined) return path;
  const resource = path.slice(start, end);
  return path.slice(0, start) + replaced(resource, to) + path.slice(end);
}

/** Offset of `:generateContent`, which is the last colon of the last segment, or of the path's end. */
function methodAt(path: string): number {
  const segment = lastMatch(separator, path) ?? 0;
  const colon = lastMatch(methodSeparator, path);
  return colon !== undefined && colon > segment ? colon : path.length;
}

/** Offset of the resource with the name `model`, including its collection `models/`. */
function resourceAt(path: string, model: string): number | undefined {
  for (const start of segmentStarts(path)) {
    const resource = decodePercent(path.slice(start));
    if (resource === model || resource === `models/${model}`) return start;
  }
  return undefined;
}

function segmentStarts(path: string): number[] {
  const starts = [0];
  for (const { index, 0: found } of path.matchAll(separator)) starts.push(index + found.length);
  return starts;
}

/** The raw resource with another model. */
function replaced(resource: string, to: string): string {
  const first = to.slice(0, Math.max(0, to.indexOf('/')));
  if (collections.has(first)) return encoded(to);
  const name = decodePercent(resource);
  const models = lastMatch(inModels, name);
  if (models !== undefined) {
    const kept = name.slice(0, name.indexOf('models/', models) + 'models/'.length);
    return encoded(kept + to);
  }
  const isBare = !collections.has(name.slice(0, Math.max(0, name.indexOf('/'))));
  return encoded(isBare ? to : `models/${to}`);
}

function lastMatch(pattern: RegExp, text: string): number | undefined {
  let last: number | undefined;
  for (const { index } of text.matchAll(pattern)) last = index;
  return last;
}

/** Percent-encodes each segment, dot segments included, which would lead to another resource. */
function encoded(name: string): string {
  return name.split('/').map(encodeSegment).join('/');
}

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
type Drops = readonly DropNode[];

/** Tree of the paths, so that one pass handles all of them. Undefined for no paths. */
function dropTree(paths: ParamEdits['drops']): Drops | undefined {
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
function dropsBelow(drops: Drops | undefined, step: string | number): Drops | undefined {
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
function isDropped(drops: Drops | undefined): boolean {
  if (drops === undefined) return false;
  for (const { isEnd } of drops) if (isEnd) return true;
  return false;
}

/** A copy of the value without the dropped parts; the same value when it has none of them. Never changes it. */
function withoutDropped(value: JsonValue, drops: Drops): JsonValue {
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
