import type { StreamEvent } from '../../../core/dialects/stream-event.ts';
import type { TextEvent } from './frame-events.ts';
import { opaque } from './block-frames.ts';

/** The texts that shall be said instead of a frame's, those of one channel in one; each is taken once. */
export class WantedTexts {
  private readonly texts = new Map<string, TextEvent>();

  constructor(events: readonly StreamEvent[]) {
    for (const event of events) {
      if (!('text' in event)) continue;
      const key = channelOf(event);
      const before = this.texts.get(key);
      this.texts.set(key, before === undefined ? event : { ...before, text: before.text + event.text });
    }
  }

  /** What the place of this event shall say. */
  take(event: TextEvent): TextEvent | undefined {
    const key = channelOf(event);
    const wanted = this.texts.get(key);
    this.texts.delete(key);
    return wanted;
  }

  /** What no place of the frame has taken. */
  rest(): readonly TextEvent[] {
    return [...this.texts.values()];
  }

  /** The events that the frame itself says: all but the rest. */
  without(events: readonly StreamEvent[]): readonly StreamEvent[] {
    const { texts } = this;
    if (texts.size === 0) return events.length === 0 ? opaque : events;
    const own = events.filter((event) => !('text' in event) || !texts.has(channelOf(event)));
    return own.length === 0 ? opaque : own;
  }
}

function channelOf(event: TextEvent): string {
  return event.type === 'tool-arguments-delta' ? `${event.type}:${event.call}` : event.type;
}
