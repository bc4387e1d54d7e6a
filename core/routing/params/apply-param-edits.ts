import type { JsonObject, JsonValue } from '../../pipeline/context.ts';
import type { LargeDocument, MayBeLarge } from '../../pipeline/large-document.ts';
import { withoutDropped } from './drop-tree.ts';
import { editedText } from './edited-text.ts';
import type { ParamEdits } from './param-edits.ts';
import { preparedEdits, type PreparedMember } from './prepared-edits.ts';

/** A body whose text can be changed as a whole: that of an attempt. */
export interface EditableBody extends MayBeLarge {
  readonly text: string;
  readonly json: JsonValue | undefined;
  /** Takes over the changed text and what it says. */
  become(text: string, json: JsonValue): void;
  /** The same for a large one. */
  becomeLarge?(document: LargeDocument): void;
}

/**
 * Changes the body as a config says: defaults where the request says nothing (null is something), then overrides, then
 * drops. Paths that are not there are ignored; the indices of all drops are those of the lists before any was made.
 *
 * The text is walked once, whatever the number of edits, and not at all when it says already what it should. What is not
 * named stays byte for byte. A body that is no JSON object is left alone; it must be in memory.
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
  if (set.length === 0 && kept === json) return;
  if (body.large !== undefined && body.becomeLarge !== undefined)
    return body.becomeLarge(changedLarge(body.large, kept, set));
  const text = editedText(body.text, { values, added, drops: kept === json ? undefined : drops });
  body.become(text, set.length === 0 ? kept : withMembers(kept, set));
}

/** Of a member within which something is dropped, the whole value is written anew. */
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

/** The two say the same, in whatever order their members stand. */
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
