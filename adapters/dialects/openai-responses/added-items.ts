import type { StreamFrame } from '../../../core/dialects/stream-event.ts';
import type { JsonObject } from '../json-reading.ts';
import { EventLines } from './event-lines.ts';
import { createFrameReader } from './frame-reader.ts';
import { writeItem } from './replay-response.ts';
import type { TextEvent } from './wanted-texts.ts';

/** An output item for what the provider's items have no place for. */
export function addedItem(event: TextEvent, index: number): JsonObject {
  const { text } = event;
  switch (event.type) {
    case 'reasoning-delta':
      return { id: `rs_added_${index}`, type: 'reasoning', summary: [{ type: 'summary_text', text }] };
    case 'text-delta': {
      const content = [{ type: 'output_text', annotations: [], logprobs: [], text }];
      return { id: `msg_added_${index}`, type: 'message', status: 'completed', content, role: 'assistant' };
    }
    case 'tool-arguments-delta':
      return {
        ...{ id: `fc_added_${index}`, type: 'function_call', status: 'completed' },
        ...{ call_id: event.id ?? `call_added_${index}`, name: event.name ?? '', arguments: text },
      };
  }
}

/** The frames that tell an added item. */
export function addedFrames(item: JsonObject, index: number): readonly StreamFrame[] {
  const lines = new EventLines();
  writeItem(lines, item, index, () => undefined);
  return createFrameReader().push(Buffer.from(lines.take()));
}
