import { parseExactObject } from '../exact-json.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { member, memberObject } from './member.ts';
import { PartialArguments } from './partial-arguments.ts';

/** The number of a candidate: its own, else its place. */
export function candidateIndex(candidate: JsonObject, position: number): number {
  return typeof candidate.index === 'number' ? candidate.index : position;
}

/** The parts of a candidate. */
export function partsOf(candidate: JsonObject): readonly JsonObject[] {
  return asArray(asObject(candidate.content)?.parts).flatMap<JsonObject>((part) => asObject(part) ?? []);
}

/** Knows in which candidates a call has begun that goes on in the next object. */
export class OpenCalls {
  private readonly open = new Set<number>();

  /** Takes note of an object; true as long as a call is open. */
  learn(json: JsonObject): boolean {
    asArray(json.candidates).forEach((value, position) => {
      const candidate = asObject(value) ?? {};
      const index = candidateIndex(candidate, position);
      for (const part of partsOf(candidate)) {
        const call = memberObject(part, 'functionCall');
        if (call !== undefined && member(call, 'willContinue') === true) this.open.add(index);
        else this.open.delete(index);
      }
      if (member(candidate, 'finishReason') !== undefined) this.open.delete(index);
    });
    return this.open.size > 0;
  }
}

/** Objects that follow one another as one: the members of the last, all parts, calls whole. */
export function joinCalls(objects: readonly JsonObject[]): JsonObject {
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

/** Parts with the pieces of each call in one. */
export function wholeCalls(parts: readonly JsonObject[]): readonly JsonObject[] {
  const whole: JsonObject[] = [];
  let open: { readonly call: JsonObject; readonly pieces: PartialArguments; arguments: unknown } | undefined;
  const end = (): void => {
    if (open === undefined) return;
    open.call.args = open.arguments ?? parseExactObject(open.pieces.text()) ?? {};
    open = undefined;
  };
  for (const part of parts) {
    const call = memberObject(part, 'functionCall');
    if (call === undefined) {
      end();
      whole.push(part);
      continue;
    }
    const isPiece = member(call, 'willContinue') === true || member(call, 'partialArgs') !== undefined;
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
    open.pieces.add(member(call, 'partialArgs'));
    if (member(call, 'willContinue') !== true) end();
  }
  end();
  return whole;
}
