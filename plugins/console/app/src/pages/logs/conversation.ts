import { eventsOf } from '@/lib/events';
import { isObject } from '@/lib/json';
import {
  argumentsOf,
  blockParts,
  type Json,
  listOf,
  type Part,
  partsOf,
  resultPart,
  textIn,
  textPart,
  type Turn,
} from '@/pages/logs/blocks';
import { framesOf, streamedTurns } from '@/pages/logs/streamed';

/** A message of chat completions, messages, `generateContent` or `Converse`, or an item of responses. */
function turnOf(message: unknown): Turn {
  if (!isObject(message)) return { role: 'user', parts: textPart(textIn(message)) };
  const content = message['content'] ?? message['parts'];
  if (message['role'] === undefined && content === undefined) {
    const role = textIn(message['type']).endsWith('_output') ? 'tool' : 'assistant';
    return { role, parts: blockParts(message) };
  }
  const role = textIn(message['role'] ?? (message['type'] === 'reasoning' ? 'assistant' : 'user'));
  if (message['type'] === 'reasoning') return { role, parts: blockParts(message) };
  if (role === 'tool' || role === 'function') {
    return { role: 'tool', parts: resultPart(message['tool_call_id'], message['name'], content) };
  }
  const calls = listOf(message['tool_calls'] ?? message['function_call']).flatMap((call): Part[] => {
    if (!isObject(call)) return [];
    const own = isObject(call['function'])
      ? call['function']
      : isObject(call['custom'])
        ? call['custom']
        : call;
    const sent = own['arguments'] ?? own['input'];
    return [{ kind: 'call', id: textIn(call['id']), name: textIn(own['name']), text: argumentsOf(sent) }];
  });
  const parts = [
    ...thoughtsOf(message),
    ...partsOf(content),
    ...textPart(textIn(message['refusal']), 'refusal'),
    ...calls,
  ];
  // In these wires, what tools have answered comes as the user's.
  const isTool = parts.length > 0 && parts.every(({ kind }) => kind === 'result');
  return { role: isTool ? 'tool' : role === 'model' ? 'assistant' : role, parts };
}

/** Thinking that stands beside the content of a message, under the names of several hosts. */
function thoughtsOf(message: Json): Part[] {
  const told = textIn(message['reasoning_content'] ?? message['reasoning']);
  if (told !== '') return textPart(told, 'thought');
  return partsOf(message['content_blocks']).filter(({ kind }) => kind === 'thought');
}

/** Items that some wires divide: what an assistant says at once, and the results of its calls; with the names of tools. */
function joined(turns: readonly Turn[]): readonly Turn[] {
  const names = new Map<string, string>();
  const all: { role: string; parts: Part[] }[] = [];
  for (const { role, parts } of turns) {
    const named = parts.map((part): Part => {
      if (part.kind === 'call') names.set(part.id, part.name);
      if (part.kind !== 'result') return part;
      return { ...part, name: (part.name === part.id && names.get(part.id)) || part.name };
    });
    const last = all.at(-1);
    if (last?.role === role && (role === 'assistant' || role === 'tool')) last.parts.push(...named);
    else all.push({ role, parts: named });
  }
  return all;
}

/** A body as it was kept: base64 becomes the JSON that it is, or its bytes. */
function opened(body: unknown, format: string): unknown {
  if (format !== 'base64' || typeof body !== 'string') return body;
  try {
    const bytes = Uint8Array.from(atob(body), (character) => character.charCodeAt(0));
    const frames = framesOf(bytes);
    return frames.length > 0 ? frames : (JSON.parse(new TextDecoder().decode(bytes)) as unknown);
  } catch {
    return undefined;
  }
}

/** The messages of a request of any wire that has some; empty for any other body. */
export function requestTurns(kept: unknown, format = 'json'): readonly Turn[] {
  const body = opened(kept, format);
  if (!isObject(body)) return [];
  const instruction = body['systemInstruction'] ?? body['system_instruction'];
  const system =
    body['system'] ?? body['instructions'] ?? (isObject(instruction) ? instruction['parts'] : instruction);
  const parts = partsOf(system);
  const before: Turn[] = parts.length === 0 ? [] : [{ role: 'system', parts }];
  const messages = body['messages'] ?? body['contents'] ?? body['input'];
  if (messages !== undefined) return joined([...before, ...listOf(messages).map(turnOf)]);
  if (body['prompt'] !== undefined)
    return listOf(body['prompt']).map((one) => ({ role: 'user', parts: textPart(textIn(one)) }));
  return before;
}

/** The messages of an answer, whole or streamed. */
export function answerTurns(kept: unknown, format: string): readonly Turn[] {
  const body = opened(kept, format);
  if (typeof body === 'string') {
    if (format !== 'sse' && !/^\s*(?:data|event|id|retry|):/.test(body)) return [];
    return eventTurns(eventsOf(body).flatMap(({ data }) => parsed(data)));
  }
  if (Array.isArray(body)) return eventTurns(body.filter(isObject));
  return isObject(body) ? wholeTurns(body) : [];
}

function eventTurns(events: readonly Json[]): readonly Turn[] {
  // The last event of responses has all that was said.
  const done = events.find(({ type }) => type === 'response.completed' || type === 'response.incomplete');
  if (done !== undefined && isObject(done['response'])) {
    const turns = wholeTurns(done['response']);
    if (turns.length > 0) return turns;
  }
  return streamedTurns(events);
}

function parsed(data: string): Json[] {
  try {
    const value: unknown = JSON.parse(data);
    return isObject(value) ? [value] : [];
  } catch {
    return [];
  }
}

function wholeTurns(body: Json): readonly Turn[] {
  const { choices, candidates, output } = body;
  if (Array.isArray(choices))
    return choices.filter(isObject).map((choice) => {
      const { message, text } = choice;
      return message === undefined
        ? { role: 'assistant', parts: textPart(textIn(text)) }
        : { ...turnOf(message), role: 'assistant' };
    });
  if (Array.isArray(candidates))
    return candidates.flatMap((one) =>
      isObject(one) && isObject(one['content']) ? [{ ...turnOf(one['content']), role: 'assistant' }] : [],
    );
  if (Array.isArray(output)) return joined(output.map(turnOf));
  if (isObject(output) && isObject(output['message'])) return [turnOf(output['message'])];
  if (body['type'] === 'message' && Array.isArray(body['content']))
    return [{ ...turnOf(body), role: 'assistant' }];
  return [];
}
