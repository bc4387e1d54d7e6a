import type { Usage } from './usage.ts';

/**
 * An event of a streamed answer, independent of the wire. A frame of the wire may hold several events; taps see them
 * one by one. `choice` is the index of the choice, `call` that of the tool call within it.
 */
export type StreamEvent =
  | { readonly type: 'text-delta'; readonly choice: number; readonly text: string }
  | { readonly type: 'reasoning-delta'; readonly choice: number; readonly text: string }
  | {
      readonly type: 'tool-arguments-delta';
      readonly choice: number;
      readonly call: number;
      readonly id?: string;
      readonly name?: string;
      readonly text: string;
    }
  | { readonly type: 'finish'; readonly choice: number; readonly reason: string }
  | { readonly type: 'usage'; readonly usage: Usage }
  | { readonly type: 'error'; readonly message: string; readonly code: string }
  /** The end marker of the wire (`data: [DONE]`). */
  | { readonly type: 'done' }
  /** A frame with none of the above (role, keep-alive, unknown fields). Pass it on. */
  | { readonly type: 'opaque' };

/** One frame of the wire: its exact bytes, and its events. */
export interface StreamFrame {
  readonly bytes: Uint8Array;
  readonly events: readonly StreamEvent[];
  /** Contains something unreadable (torn, too long, malformed): a plugin that checks content must not let it pass. */
  readonly unread?: true;
}

/** Whether a content type is server-sent events, whatever its parameters and letter case. */
export function isEventStreamType(contentType: string): boolean {
  return /^\s*text\/event-stream/i.test(contentType);
}

/** An event with text. */
export type TextEvent = Extract<StreamEvent, { text: string }>;
/** Key of texts that belong together: those of one kind in one choice, and of one call. */
export function channelOf(event: TextEvent): string {
  return `${event.type}:${event.choice}:${event.type === 'tool-arguments-delta' ? event.call : ''}`;
}

/** The texts of events, joined per channel: one event for each, in the order of their first ones. */
export function joinTexts(
  events: readonly StreamEvent[],
  keyOf: (event: TextEvent) => string = channelOf,
): Map<string, TextEvent> {
  const joined = new Map<string, TextEvent>();
  for (const event of events) {
    if (!('text' in event)) continue;
    const key = keyOf(event);
    const before = joined.get(key);
    joined.set(key, before === undefined ? event : { ...before, text: before.text + event.text });
  }
  return joined;
}

/** A piece of the arguments of a tool call. */
export type CallEvent = Extract<TextEvent, { type: 'tool-arguments-delta' }>;
