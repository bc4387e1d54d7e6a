import type { ChatEvent } from './chat-event.ts';

type PartEvent = Extract<ChatEvent, { readonly part: number }>;

/** Bound of characters that wait for an earlier part to end. */
const maxHeldCharacters = 16 * 1024 * 1024;

/**
 * Serialises the parts of a choice, for wires whose blocks must not interleave (Anthropic, Responses): while one part
 * is open, the events of later ones wait. The events of one part keep their order; other events pass. Throws a
 * `RangeError` when more than 16 Mi characters would have to wait.
 */
export class SequentialParts {
  private current: number | undefined;
  /** By part, in the order of their start. */
  private readonly waiting = new Map<number, PartEvent[]>();
  private held = 0;

  /** Events that may be written now. Only those of the first choice pass: such wires have one. */
  push(event: ChatEvent): readonly ChatEvent[] {
    if (!('choice' in event)) return [event];
    if (event.choice !== 0) return [];
    if (!('part' in event)) return [event];
    if (this.current === undefined && event.type === 'part-start') this.current = event.part;
    if (this.current !== event.part) {
      this.hold(event);
      return [];
    }
    if (event.type !== 'part-end') return [event];
    this.current = undefined;
    return [event, ...this.release()];
  }

  private hold(event: PartEvent): void {
    if ('text' in event) this.held += event.text.length;
    if (this.held > maxHeldCharacters)
      throw new RangeError('Too much of the answer waits for an earlier block.');
    const events = this.waiting.get(event.part);
    if (events === undefined) this.waiting.set(event.part, [event]);
    else events.push(event);
  }

  private release(): PartEvent[] {
    const released: PartEvent[] = [];
    for (const [part, events] of this.waiting) {
      this.waiting.delete(part);
      for (const event of events) {
        released.push(event);
        if ('text' in event) this.held -= event.text.length;
      }
      if (events.at(-1)?.type === 'part-end') continue;
      this.current = part;
      break;
    }
    return released;
  }
}
