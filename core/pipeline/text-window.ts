import type { DialectName } from '../dialects/endpoint.ts';
import type { StreamEvent } from '../dialects/stream-event.ts';
import type { Emit, MaybePromise, StreamTap } from './context.ts';

/** An event that carries a piece of a text. */
export type TextEvent = Extract<StreamEvent, { text: string }>;

/** One text of a stream, partly held back. */
export interface HeldText {
  /** Takes the next piece; returns the text that may leave now, with the last piece all that is held. */
  push(text: string, isLast: boolean): MaybePromise<string>;
}

/** Units that have to come before a text is searched again, when findings have at most the length `reach`. */
export function batchOf(reach: number): number {
  return reach < 64 ? 0 : reach >> 3;
}

/** The place, or the one before it where it would split a surrogate pair. */
export function withoutHalfCharacter(text: string, place: number): number {
  const isWithin = place > 0 && place < text.length && (text.codePointAt(place - 1) ?? 0) > 0xffff;
  return isWithin ? place - 1 : place;
}

/** The wire has one text of each kind for a choice, whatever comes between its pieces. */
export function isGathered(dialect: DialectName): boolean {
  return dialect === 'openai-chat' || dialect === 'openai-completions';
}

/** Key that identifies one text of an answer. */
export function keyOfText(part: {
  readonly type: string;
  readonly choice: number;
  readonly call?: number | undefined;
}): string {
  return `${part.type}:${part.choice}:${part.call ?? ''}`;
}

/**
 * The tap that holds back a part of each text of a streamed answer. On wires of blocks, a text leaves whole before the
 * next one begins.
 */
export class TextWindow implements StreamTap {
  private readonly dialect: DialectName;
  private readonly begin: (event: TextEvent) => HeldText;
  private readonly open = new Map<string, { readonly event: TextEvent; readonly held: HeldText }>();

  /** `begin` is called with the first event of each text. */
  constructor(dialect: DialectName, begin: (event: TextEvent) => HeldText) {
    this.dialect = dialect;
    this.begin = begin;
  }

  event(event: StreamEvent, emit: Emit): MaybePromise<void> {
    if (event.type === 'finish') return after(this.finish(emit, event.choice), () => emit(event));
    if (!('text' in event)) return emit(event);
    if (event.text === '' && event.type !== 'tool-arguments-delta') return emit(event);
    const key = keyOfText(event);
    if (isGathered(this.dialect)) return this.push(key, event, emit);
    return after(this.finish(emit, event.choice, key), () => this.push(key, event, emit));
  }

  end(emit: Emit): MaybePromise<void> {
    return this.finish(emit);
  }

  private push(key: string, event: TextEvent, emit: Emit): MaybePromise<void> {
    const isCall = event.type === 'tool-arguments-delta';
    let one = this.open.get(key);
    if (one === undefined) {
      one = { event, held: this.begin(event) };
      this.open.set(key, one);
    }
    // This wire has no pieces of calls.
    const isWhole = isCall && this.dialect === 'google-gemini';
    if (isWhole) this.open.delete(key);
    return after(one.held.push(event.text, isWhole), (text) => {
      if (text === event.text) emit(event);
      else if (text !== '' || (isCall && event.name !== undefined)) emit({ ...event, text });
    });
  }

  /** Emits the held parts of texts that have ended: all of a choice but one, or all. */
  private finish(emit: Emit, choice?: number, except?: string): MaybePromise<void> {
    let given: MaybePromise<void> = undefined;
    for (const [key, { event, held }] of this.open) {
      if (key === except || (choice !== undefined && event.choice !== choice)) continue;
      this.open.delete(key);
      given = after(given, () => after(held.push('', true), (text) => giveRest(event, text, emit)));
    }
    return given;
  }
}

function giveRest(event: TextEvent, text: string, emit: Emit): void {
  if (text === '') return;
  if (event.type === 'tool-arguments-delta')
    emit({ type: event.type, choice: event.choice, call: event.call, text });
  else emit({ ...event, text });
}

function after<T>(pending: MaybePromise<T>, run: (value: T) => MaybePromise<void>): MaybePromise<void> {
  return pending instanceof Promise ? pending.then(run) : run(pending);
}
