import {
  asArray,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import { geminiMembers } from './parts.ts';

/** Parts of streamed candidates. */
export const streamedParts = { candidateIndex, of: partsOf, joinCalls };

/** A partial value; objects are maps, so that no name can reach a prototype. */
type Growing = string | number | bigint | boolean | null | Growing[] | Map<string, Growing>;

/** Upper bound of array indexes: a path may name any number. */
const maxIndex = 100_000;
const maxSteps = 200;

/**
 * Arguments of a call that arrive in pieces, each value under its JSON path (`{ "jsonPath": "$.stops[0].city",
 * "stringValue": "Par", "willContinue": true }`). Paths may come in any order; a text continues while its pieces carry
 * `willContinue`.
 */
export class PartialArguments {
  private readonly root = new Map<string, Growing>();
  /** Path of the incomplete text. */
  private openPath: string | undefined;

  /** Adds the `partialArgs` of one event. Pieces that cannot be read are ignored. */
  add(pieces: unknown): void {
    for (const value of asArray(pieces)) {
      const piece = asObject(value);
      const path = piece === undefined ? undefined : geminiMembers.of(piece, 'jsonPath');
      if (piece !== undefined && typeof path === 'string') this.addPiece(piece, path);
    }
  }

  /** The arguments so far as JSON text. */
  text(): string {
    return stringifyExact(plain(this.root));
  }

  private addPiece(piece: JsonObject, path: string): void {
    const steps = readPath(path);
    if (steps === undefined) return;
    const text = geminiMembers.of(piece, 'stringValue');
    if (typeof text === 'string') {
      const before = this.openPath === path ? lookUp(this.root, steps) : undefined;
      setAtPath(this.root, steps, typeof before === 'string' ? before + text : text);
      this.openPath = geminiMembers.of(piece, 'willContinue') === true ? path : undefined;
      return;
    }
    const value = scalarOf(piece);
    if (value !== undefined) setAtPath(this.root, steps, value);
  }
}

function scalarOf(piece: JsonObject): Growing | undefined {
  const number = geminiMembers.of(piece, 'numberValue');
  if (typeof number === 'number' || typeof number === 'bigint') return number;
  const truth = geminiMembers.of(piece, 'boolValue');
  if (typeof truth === 'boolean') return truth;
  return 'nullValue' in piece || 'null_value' in piece ? null : undefined;
}

/** The steps of a path: `$.a.b[0]['c d']`. Undefined for text that is not such a path or has no steps. */
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

function setAtPath(root: Growing, steps: readonly (string | number)[], value: Growing): void {
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

/** The index of a candidate: its own, else its position. */
function candidateIndex(candidate: JsonObject, position: number): number {
  return typeof candidate.index === 'number' ? candidate.index : position;
}

/** The parts of a candidate. */
function partsOf(candidate: JsonObject): readonly JsonObject[] {
  return asArray(asObject(candidate.content)?.parts).flatMap<JsonObject>((part) => asObject(part) ?? []);
}

/** Merges consecutive objects into one: the members of the last, all parts, calls whole. */
function joinCalls(objects: readonly JsonObject[]): JsonObject {
  const joined: JsonObject = {};
  const candidates = new Map<number, JsonObject>();
  for (const json of objects) {
    const { candidates: given, ...members } = json;
    Object.assign(joined, members);
    asArray(given).forEach((value, position) => {
      const candidate = asObject(value) ?? {};
      const index = candidateIndex(candidate, position);
      const before = candidates.get(index) ?? {};
      const content = asObject(candidate.content);
      const parts = [...partsOf(before), ...partsOf(candidate)];
      candidates.set(index, {
        ...before,
        ...candidate,
        content: { ...asObject(before.content), ...content, parts },
      });
    });
  }
  if (candidates.size > 0) {
    joined.candidates = [...candidates.values()].map((candidate) => ({
      ...candidate,
      content: { ...asObject(candidate.content), parts: wholeCalls(partsOf(candidate)) },
    }));
  }
  return joined;
}

/** Parts with the pieces of each call joined. */
function wholeCalls(parts: readonly JsonObject[]): readonly JsonObject[] {
  const whole: JsonObject[] = [];
  let open: { readonly call: JsonObject; readonly pieces: PartialArguments; arguments: unknown } | undefined;
  const end = (): void => {
    if (open === undefined) return;
    open.call.args = open.arguments ?? parseExactObject(open.pieces.text()) ?? {};
    open = undefined;
  };
  for (const part of parts) {
    const call = geminiMembers.object(part, 'functionCall');
    if (call === undefined) {
      end();
      whole.push(part);
      continue;
    }
    const isPiece =
      geminiMembers.of(call, 'willContinue') === true || geminiMembers.of(call, 'partialArgs') !== undefined;
    if (asText(call.name) !== undefined) {
      end();
      if (!isPiece) {
        whole.push(part);
        continue;
      }
      const begun: JsonObject = { name: call.name };
      if (call.id !== undefined) begun.id = call.id;
      whole.push({ ...part, functionCall: begun });
      open = { call: begun, pieces: new PartialArguments(), arguments: undefined };
    }
    if (open === undefined) continue;
    if (call.args !== undefined) open.arguments = call.args;
    open.pieces.add(geminiMembers.of(call, 'partialArgs'));
    if (geminiMembers.of(call, 'willContinue') !== true) end();
  }
  end();
  return whole;
}
