import type { AnswerTextPlace } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { stringifyExact } from '../exact-json.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';

const calls = ['tool_use', 'server_tool_use', 'mcp_tool_use'];

/** The generated texts of a complete message. */
export function decodeAnswerTexts(_endpoint: EndpointId, answer: unknown): readonly AnswerTextPlace[] {
  let call = 0;
  return asArray(asObject(answer)?.content).flatMap((value, i): readonly AnswerTextPlace[] => {
    const block = asObject(value) ?? {};
    const path = ['content', i];
    if (block.type === 'text') return plain(block, 'text', path);
    if (block.type === 'thinking') return plain(block, 'thinking', path);
    if (!calls.includes(String(block.type))) return [];
    const input = asObject(block.input);
    if (input === undefined) return [];
    return [
      {
        ...{ type: 'tool-arguments', choice: 0, call: call++, text: stringifyExact(input) },
        ...(typeof block.name === 'string' ? { name: block.name } : {}),
        ...{ path: [...path, 'input'], isJson: true, beside: [] },
      },
    ];
  });
}

function plain(
  block: JsonObject,
  member: 'text' | 'thinking',
  path: AnswerTextPlace['path'],
): readonly AnswerTextPlace[] {
  const text = block[member];
  if (typeof text !== 'string') return [];
  const beside: AnswerTextPlace['beside'][number][] = [];
  if (Array.isArray(block.citations)) beside.push({ path: [...path, 'citations'], value: null });
  if (typeof block.signature === 'string') beside.push({ path: [...path, 'signature'], value: '' });
  const type = member === 'text' ? 'text' : 'reasoning';
  return [{ type, choice: 0, text, path: [...path, member], beside }];
}
