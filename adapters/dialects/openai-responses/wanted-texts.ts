import type { StreamEvent } from '../../../core/dialects/stream-event.ts';
import type { FrameSlot } from './frame-slots.ts';

/** The events that carry text. */
export type TextEvent = Extract<StreamEvent, { text: string }>;

/** The texts that shall be said instead of a frame's, those of one channel in one; each is taken once. */
export class WantedTexts {
  private readonly texts = new Map<string, TextEvent>();

  constructor(events: readonly StreamEvent[]) {
    for (const event of events) {
      if (!('text' in event)) continue;
      const key = keyOf(event);
      const before = this.texts.get(key);
      this.texts.set(key, before === undefined ? event : { ...before, text: before.text + event.text });
    }
  }

  /** What the slot shall say. The first slot of a channel in a frame takes all of it. */
  take({ channel, outputIndex }: FrameSlot): string {
    const key = channel === 'arguments' ? `arguments:${outputIndex}` : `${channel}-delta`;
    const text = this.texts.get(key)?.text ?? '';
    this.texts.delete(key);
    return text;
  }

  /** A call is told of: by its name, or by more of its arguments. */
  tellsCall(outputIndex: number): boolean {
    return this.texts.has(`arguments:${outputIndex}`);
  }

  /** Takes the begin of a call; its arguments stay to be said. */
  takeCall(outputIndex: number): TextEvent | undefined {
    const key = `arguments:${outputIndex}`;
    const event = this.texts.get(key);
    if (event?.text === '') this.texts.delete(key);
    return event;
  }

  /** What no slot has taken. */
  rest(): readonly TextEvent[] {
    return [...this.texts.values()].filter(({ text }) => text !== '');
  }
}

function keyOf(event: TextEvent): string {
  return event.type === 'tool-arguments-delta' ? `arguments:${event.call}` : event.type;
}
