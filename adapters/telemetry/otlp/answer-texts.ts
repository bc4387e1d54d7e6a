/**
 * The text of an answer, whole or as an event stream, of any of the wires that clients speak: what the first choice says.
 * Empty when there is none, or the answer is something else.
 */
export function answerTexts(body: string, isEventStream: boolean): string {
  if (!isEventStream) return wholeText(parsed(body));
  let text = '';
  for (const line of body.split(/\r?\n/)) {
    if (line.startsWith('data:')) text += pieceText(parsed(line.slice(5)));
  }
  return text;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function wholeText(answer: unknown): string {
  const choice = first(member(answer, 'choices')) ?? first(member(answer, 'candidates'));
  if (choice !== undefined)
    return (
      textsOf(member(member(choice, 'message'), 'content')) ||
      textsOf(member(member(choice, 'content'), 'parts')) ||
      textsOf(member(choice, 'text'))
    );
  const output = member(answer, 'output');
  if (Array.isArray(output)) return output.map((item) => textsOf(member(item, 'content'))).join('');
  return textsOf(member(answer, 'content'));
}

function pieceText(event: unknown): string {
  const choice = first(member(event, 'choices'));
  if (choice !== undefined)
    return textsOf(member(member(choice, 'delta'), 'content')) || textsOf(member(choice, 'text'));
  const candidate = first(member(event, 'candidates'));
  if (candidate !== undefined) return textsOf(member(member(candidate, 'content'), 'parts'));
  const type = member(event, 'type');
  if (type === 'content_block_delta') return textsOf(member(member(event, 'delta'), 'text'));
  return type === 'response.output_text.delta' ? textsOf(member(event, 'delta')) : '';
}

/** A text, or the texts of a list of parts. */
function textsOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) return '';
  return value
    .map((part) => member(part, 'text'))
    .filter((text) => typeof text === 'string')
    .join('');
}

function first(value: unknown): unknown {
  return Array.isArray(value) ? (value as unknown[])[0] : undefined;
}

function member(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Record<string, unknown>)[name];
}
