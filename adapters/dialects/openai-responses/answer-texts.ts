import type { AnswerTextPlace } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';

type Path = AnswerTextPlace['path'];

/** The generated texts of a complete response. */
export function decodeAnswerTexts(_endpoint: EndpointId, answer: unknown): readonly AnswerTextPlace[] {
  let calls = 0;
  return asArray(asObject(answer)?.output).flatMap((value, i) => {
    const item = asObject(value) ?? {};
    const path = ['output', i];
    const member = callMembers[String(item.type)];
    if (member === undefined) return itemTexts(item, path);
    const { name, [member]: text } = item;
    if (typeof text !== 'string') return [];
    return [
      {
        ...{ type: 'tool-arguments' as const, choice: 0, call: calls++, text, path: [...path, member] },
        ...(typeof name === 'string' ? { name } : {}),
        beside: [],
      },
    ];
  });
}

const callMembers: Readonly<Record<string, string>> = {
  function_call: 'arguments',
  custom_tool_call: 'input',
};

/** The summary of a thought stands before what it is a summary of. */
function itemTexts(item: JsonObject, path: Path): readonly AnswerTextPlace[] {
  // What proves a thought holds it as well.
  const proof = { path: [...path, 'encrypted_content'], value: null } as const;
  const proofs = typeof item.encrypted_content === 'string' ? [proof] : [];
  return ['summary', 'content'].flatMap((list) =>
    asArray(item[list]).flatMap((value, i): readonly AnswerTextPlace[] => {
      const part = asObject(value) ?? {};
      const at = [...path, list, i];
      const member = part.type === 'refusal' ? 'refusal' : 'text';
      const text = part[member];
      if (typeof text !== 'string') return [];
      const isThought = part.type === 'summary_text' || part.type === 'reasoning_text';
      const beside = ['annotations', 'logprobs']
        .filter((name) => Array.isArray(part[name]))
        .map((name) => ({ path: [...at, name], value: [] }));
      return [
        {
          ...{ type: isThought ? 'reasoning' : 'text', choice: 0, text, path: [...at, member] },
          beside: [...beside, ...proofs],
        },
      ];
    }),
  );
}
