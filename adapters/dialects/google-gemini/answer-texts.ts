import type { AnswerTextPlace } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { stringifyExact } from '../exact-json.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';
import { aboutTheText } from './frame-slots.ts';
import { candidateIndex } from './join-calls.ts';

type Path = AnswerTextPlace['path'];

/** The generated texts of a complete answer of `generateContent`. */
export function decodeAnswerTexts(_endpoint: EndpointId, answer: unknown): readonly AnswerTextPlace[] {
  return asArray(asObject(answer)?.candidates).flatMap((value, position) => {
    const candidate = asObject(value) ?? {};
    const path = ['candidates', position];
    const beside = aboutTheText
      .filter((name) => candidate[name] !== undefined)
      .map((name) => ({ path: [...path, name], value: null }));
    let call = 0;
    return asArray(asObject(candidate.content)?.parts).flatMap((part, i) =>
      partTexts(asObject(part) ?? {}, {
        ...{ choice: candidateIndex(candidate, position), beside },
        ...{ path: [...path, 'content', 'parts', i], nextCall: () => call++ },
      }),
    );
  });
}

function partTexts(
  part: JsonObject,
  of: {
    readonly choice: number;
    readonly beside: AnswerTextPlace['beside'];
    readonly path: Path;
    readonly nextCall: () => number;
  },
): readonly AnswerTextPlace[] {
  const { choice, path } = of;
  if (typeof part.text === 'string') {
    const isThought = part.thought === true;
    const proofs = ['thoughtSignature', 'thought_signature']
      .filter((name) => isThought && typeof part[name] === 'string')
      .map((name) => ({ path: [...path, name], value: '' as const }));
    const type = isThought ? 'reasoning' : 'text';
    return [{ type, choice, text: part.text, path: [...path, 'text'], beside: [...of.beside, ...proofs] }];
  }
  const holder = part.functionCall === undefined ? 'function_call' : 'functionCall';
  const call = asObject(part[holder]);
  const args = asObject(call?.args);
  if (call === undefined || args === undefined) return [];
  return [
    {
      ...{ type: 'tool-arguments', choice, call: of.nextCall(), text: stringifyExact(args) },
      ...(typeof call.name === 'string' ? { name: call.name } : {}),
      ...{ path: [...path, holder, 'args'], isJson: true, beside: [] },
    },
  ];
}
