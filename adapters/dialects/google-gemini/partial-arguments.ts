import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { stringifyExact } from '../exact-json.ts';
import { asArray, asObject } from '../json-reading.ts';
import { member } from './member.ts';

/** A value while it is being told; objects are maps, so that no name can reach a prototype. */
type Growing = string | number | bigint | boolean | null | Growing[] | Map<string, Growing>;

/** An array is not filled up beyond this index: a path may name any number. */
const maxIndex = 100_000;
const maxSteps = 200;

/**
 * Arguments of a call that come piece by piece, each value under its JSON path
 * (`{ "jsonPath": "$.stops[0].city", "stringValue": "Par", "willContinue": true }`). Paths may come in any order; a text
 * is continued as long as its pieces say `willContinue`.
 */
export class PartialArguments {
  private readonly root = new Map<string, Growing>();
  /** The text that is not complete yet. */
  private openPath: string | undefined;

  /** Takes the `partialArgs` of one event. Pieces that cannot be read are ignored. */
  add(pieces: unknown): void {
    for (const value of asArray(pieces)) {
      const piece = asObject(value);
      const path = piece === undefined ? undefined : member(piece, 'jsonPath');
      if (piece !== undefined && typeof path === 'string') this.addPiece(piece, path);
    }
  }

  /** The arguments so far as JSON text. */
  text(): string {
    return stringifyExact(plain(this.root) as JsonObject);
  }

  private addPiece(piece: JsonObject, path: string): void {
    const steps = readPath(path);
    if (steps === undefined) return;
    const text = member(piece, 'stringValue');
    if (typeof text === 'string') {
      const before = this.openPath === path ? lookUp(this.root, steps) : undefined;
      put(this.root, steps, typeof before === 'string' ? before + text : text);
      this.openPath = member(piece, 'willContinue') === true ? path : undefined;
      return;
    }
    const value = scalarOf(piece);
    if (value !== undefined) put(this.root, steps, value);
  }
}

function scalarOf(piece: JsonObject): Growing | undefined {
  const number = member(piece, 'numberValue');
  if (typeof number === 'number' || typeof number === 'bigint') return number;
  const truth = member(piece, 'boolValue');
  if (typeof truth === 'boolean') return truth;
  return 'nullValue' in piece || 'null_value' in piece ? null : undefined;
}

/** The steps of a path: `$.a.b[0]['c d']`. Undefined for anything that is no such path or leads nowhere. */
function readPath(path: string): (string | number)[] | undefined {
  if (!path.startsWith('$')) return undefined;
  const steps: (string | number)[] = [];
  const step = /\.([^.[\]]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]/y;
  step.lastIndex = 1;
  while (step.lastIndex < path.length && steps.length < maxSteps) {
    const found = step.exec(path);
    if (found === null) return undefined;
    const [, name, index, quoted] = found;
    if (name !== undefined) steps.push(name);
    else if (index !== undefined) {
      if (Number(index) > maxIndex) return undefined;
      steps.push(Number(index));
    } else if (quoted !== undefined) steps.push(quoted.slice(1, -1).replace(/\\(.)/g, '$1'));
  }
  return typeof steps[0] === 'string' && steps.length < maxSteps ? steps : undefined;
}

function lookUp(root: Growing, steps: readonly (string | number)[]): Growing | undefined {
  let value: Growing | undefined = root;
  for (const step of steps) value = value === undefined ? undefined : childOf(value, step);
  return value;
}

function childOf(value: Growing, step: string | number): Growing | undefined {
  if (Array.isArray(value)) return typeof step === 'number' ? value[step] : undefined;
  return value instanceof Map ? value.get(String(step)) : undefined;
}

function put(root: Growing, steps: readonly (string | number)[], value: Growing): void {
  let parent = root;
  for (let i = 0; i < steps.length - 1; i++) {
    const step = steps[i] as string | number;
    let child = childOf(parent, step);
    if (typeof child !== 'object' || child === null) {
      child = typeof steps[i + 1] === 'number' ? [] : new Map<string, Growing>();
      setChild(parent, step, child);
    }
    parent = child;
  }
  setChild(parent, steps.at(-1) as string | number, value);
}

function setChild(parent: Growing, step: string | number, value: Growing): void {
  if (parent instanceof Map) parent.set(String(step), value);
  else if (Array.isArray(parent) && typeof step === 'number') {
    while (parent.length < step) parent.push(null);
    parent[step] = value;
  }
}

function plain(value: Growing): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Map)
    return Object.fromEntries([...value.entries()].map(([name, inner]) => [name, plain(inner)]));
  return value;
}
