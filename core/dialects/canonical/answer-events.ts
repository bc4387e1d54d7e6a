import type { ChatAnswer } from './chat-answer.ts';
import { ChatEventBuilder } from './chat-event-builder.ts';
import type { ChatEvent } from './chat-event.ts';
import type { ChatPart } from './chat-part.ts';

/** A complete answer as the events of a stream: the inverse of `collectAnswer`. */
export function answerEvents(answer: ChatAnswer): readonly ChatEvent[] {
  const builder = new ChatEventBuilder();
  builder.start(answer);
  for (const choice of answer.choices) {
    for (const [position, part] of choice.parts.entries()) {
      const key = String(position);
      const logprobs =
        part.type === 'text' && isFirstText(choice.parts, position) ? choice.logprobs : undefined;
      writePart(builder, choice.index, key, part);
      if (part.type === 'text') builder.text(choice.index, key, part.text, logprobs);
      builder.close(choice.index, key);
    }
    builder.finish(choice.index, choice.finish, choice.extras);
  }
  if (answer.extras !== undefined) builder.extras(answer.extras);
  if (answer.usage !== undefined) builder.usage(answer.usage);
  builder.complete();
  return builder.take();
}

/** Log probabilities belong to the choice; they are attached to its first text. */
function isFirstText(parts: readonly ChatPart[], position: number): boolean {
  return parts.findIndex(({ type }) => type === 'text') === position;
}

function writePart(builder: ChatEventBuilder, choice: number, key: string, part: ChatPart): void {
  const { signature, ...unsigned } = part;
  switch (unsigned.type) {
    case 'text': {
      const { citations, ...plain } = unsigned;
      builder.open(choice, key, { ...plain, text: '' });
      for (const citation of citations ?? []) builder.citation(choice, key, citation);
      break;
    }
    case 'refusal':
      builder.open(choice, key, { ...unsigned, text: '' });
      builder.text(choice, key, unsigned.text);
      break;
    case 'reasoning':
      builder.open(choice, key, { ...unsigned, text: '' });
      builder.reasoning(choice, key, unsigned.text);
      break;
    case 'tool-call':
      builder.open(choice, key, { ...unsigned, arguments: '' });
      builder.arguments(choice, key, unsigned.arguments);
      break;
    default:
      builder.open(choice, key, unsigned);
  }
  if (signature !== undefined) builder.signature(choice, key, signature);
}
