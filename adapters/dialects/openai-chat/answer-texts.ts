import type { AnswerTextPlace } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';
import { choiceIndex } from './stream-reader.ts';

type Path = AnswerTextPlace['path'];

/** The generated texts of a complete chat or completions answer. What some hosts repeat beside a text is emptied with it. */
export function decodeAnswerTexts(_endpoint: EndpointId, answer: unknown): readonly AnswerTextPlace[] {
  return asArray(asObject(answer)?.choices).flatMap((value, position) => {
    const choice = asObject(value);
    return choice === undefined
      ? []
      : choiceTexts(choice, choiceIndex(choice, position), ['choices', position]);
  });
}

function choiceTexts(choice: JsonObject, index: number, path: Path): readonly AnswerTextPlace[] {
  const places: AnswerTextPlace[] = [];
  const message = asObject(choice.message);
  const copies = copiesOf(choice, message, path);
  const add = (type: 'text' | 'reasoning', text: unknown, at: Path, more: typeof copies = []): void => {
    if (typeof text === 'string')
      places.push({ type, choice: index, text, path: at, beside: [...copies, ...more] });
  };
  add('text', choice.text, [...path, 'text']);
  if (message === undefined) return places;
  const at = [...path, 'message'];
  // Some hosts say the same under both names.
  const isTwice = message.reasoning_content === message.reasoning;
  const twin = { path: [...at, 'reasoning'], value: 'same' } as const;
  add('reasoning', message.reasoning_content, [...at, 'reasoning_content'], isTwice ? [twin] : []);
  if (!isTwice) add('reasoning', message.reasoning, [...at, 'reasoning']);
  add('text', message.content, [...at, 'content']);
  asArray(message.content).forEach((value, i) => {
    const part = asObject(value) ?? {};
    add('text', part.text, [...at, 'content', i, 'text']);
    asArray(part.thinking).forEach((thought, j) => {
      add('reasoning', asObject(thought)?.text, [...at, 'content', i, 'thinking', j, 'text']);
    });
  });
  add('text', message.refusal, [...at, 'refusal']);
  const audio = asObject(message.audio);
  const sound = { path: [...at, 'audio', 'data'], value: '' } as const;
  add(
    'text',
    audio?.transcript,
    [...at, 'audio', 'transcript'],
    typeof audio?.data === 'string' ? [sound] : [],
  );
  return [...places, ...callTexts(message, index, at)];
}

/** What says a text of the choice again, or something of its places. */
function copiesOf(
  choice: JsonObject,
  message: JsonObject | undefined,
  path: Path,
): AnswerTextPlace['beside'] {
  const copies: AnswerTextPlace['beside'][number][] = [];
  if (choice.logprobs !== undefined && choice.logprobs !== null)
    copies.push({ path: [...path, 'logprobs'], value: null });
  for (const member of ['content_blocks', 'reasoning_details', 'annotations'] as const)
    if (Array.isArray(message?.[member])) copies.push({ path: [...path, 'message', member], value: [] });
  return copies;
}

function callTexts(message: JsonObject, choice: number, path: Path): readonly AnswerTextPlace[] {
  const places: AnswerTextPlace[] = [];
  const add = (definition: JsonObject | undefined, call: number, at: Path, member: string): void => {
    if (definition === undefined) return;
    const { name, [member]: text } = definition;
    if (typeof text !== 'string') return;
    places.push({
      ...{ type: 'tool-arguments', choice, call, text, path: [...at, member], beside: [] },
      ...(typeof name === 'string' ? { name } : {}),
    });
  };
  asArray(message.tool_calls).forEach((value, i) => {
    const call = asObject(value);
    add(asObject(call?.function), i, [...path, 'tool_calls', i, 'function'], 'arguments');
    add(asObject(call?.custom), i, [...path, 'tool_calls', i, 'custom'], 'input');
  });
  add(asObject(message.function_call), 0, [...path, 'function_call'], 'arguments');
  return places;
}
