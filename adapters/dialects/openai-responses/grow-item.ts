import { asObject, type JsonObject } from '../json-reading.ts';

/** Adds what a delta says to an item that is not finished yet, as the wire would have it in the finished one. */
export function growItem(item: JsonObject, event: JsonObject): void {
  const { delta } = event;
  if (typeof delta !== 'string') return;
  switch (event.type) {
    case 'response.function_call_arguments.delta':
      return append(item, 'arguments', delta);
    case 'response.custom_tool_call_input.delta':
      return append(item, 'input', delta);
    case 'response.output_text.delta':
      return append(partAt(item, 'content', event.content_index, 'output_text'), 'text', delta);
    case 'response.refusal.delta':
      return append(partAt(item, 'content', event.content_index, 'refusal'), 'refusal', delta);
    case 'response.reasoning_text.delta':
      return append(partAt(item, 'content', event.content_index, 'reasoning_text'), 'text', delta);
    case 'response.reasoning_summary_text.delta':
      return append(partAt(item, 'summary', event.summary_index, 'summary_text'), 'text', delta);
  }
}

function append(holder: JsonObject, member: string, text: string): void {
  const before = holder[member];
  holder[member] = typeof before === 'string' ? before + text : text;
}

/** The part of a list at an index, made when the list is not that long yet. An index beyond the next one is the next one. */
function partAt(item: JsonObject, list: 'content' | 'summary', index: unknown, type: string): JsonObject {
  const parts = Array.isArray(item[list]) ? (item[list] as unknown[]) : [];
  item[list] = parts;
  const at = Math.min(typeof index === 'number' ? index : 0, parts.length);
  const found = asObject(parts[at]);
  if (found !== undefined) return found;
  const part: JsonObject = type === 'output_text' ? { type, annotations: [] } : { type };
  parts[at] = part;
  return part;
}
