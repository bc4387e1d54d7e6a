import type {
  AttemptContext,
  Emit,
  MaybePromise,
  StreamEvent,
  StreamTap,
  SubjectText,
} from '../../core/pipeline/plugin.ts';
import type { RunningGuardrail, ShownGuardrail } from './running-guardrail.ts';
import { StreamedSubject } from './subjects.ts';

type TextEvent = Extract<StreamEvent, { text: string }>;

/** Longest text that is kept of an observed stream, in UTF-16 units. */
const mostObserved = 4 * 1024 * 1024;

/** What judges a stream on its way. */
interface StreamJudges {
  readonly context: AttemptContext;
  /** Those that hold back as much as a finding may span. */
  readonly windows: readonly RunningGuardrail[];
  /** Those that look at the whole once it has left. */
  readonly observers: readonly RunningGuardrail[];
  /** Takes what each has come to. Throws to end the stream. */
  readonly took: (shown: ShownGuardrail) => void;
}

/** One text of the stream. */
interface OpenText {
  readonly event: TextEvent;
  /** What has come and not left. */
  held: string;
  /** The unit before it, which decides whether a word begins there. */
  before: string;
}

/** The tap of a streamed answer that is judged while it leaves. */
export class GuardrailTap implements StreamTap {
  /** The stream has come to its end, and everything was judged. */
  isComplete = false;
  readonly #judges: StreamJudges;
  readonly #reach: number;
  readonly #batch: number;
  readonly #open = new Map<string, OpenText>();
  readonly #observed = new Map<string, { readonly event: TextEvent; text: string }>();
  #observedLength = 0;

  constructor(judges: StreamJudges) {
    this.#judges = judges;
    this.#reach = Math.max(0, ...judges.windows.map(({ reach }) => reach ?? 0));
    this.#batch = this.#reach < 64 ? 0 : this.#reach >> 3;
  }

  event(event: StreamEvent, emit: Emit): MaybePromise<void> {
    if ('text' in event) {
      if (this.#judges.observers.length > 0) this.#observe(event);
      return this.#judges.windows.length === 0 ? emit(event) : this.#push(event, emit);
    }
    if (event.type !== 'finish' && event.type !== 'done') return emit(event);
    const flushed = this.#flush(emit);
    return flushed instanceof Promise ? flushed.then(() => emit(event)) : emit(event);
  }

  async end(emit: Emit): Promise<void> {
    await this.#flush(emit);
    const { context, observers, took } = this.#judges;
    const texts = [...this.#observed.values()].map(({ event, text }) => subjectText(event, text));
    for (const guardrail of observers) {
      const subject = new StreamedSubject(context, this.#observedLength > mostObserved ? [] : texts);
      took(await guardrail.judge(subject, 'stream', context.facts));
    }
    this.isComplete = true;
  }

  #observe(event: TextEvent): void {
    this.#observedLength += event.text.length;
    if (this.#observedLength > mostObserved) return this.#observed.clear();
    const key = keyOf(event);
    const known = this.#observed.get(key);
    if (known === undefined) this.#observed.set(key, { event, text: event.text });
    else known.text += event.text;
  }

  #push(event: TextEvent, emit: Emit): MaybePromise<void> {
    const key = keyOf(event);
    let one = this.#open.get(key);
    if (one === undefined) this.#open.set(key, (one = { event, held: '', before: '' }));
    one.held += event.text;
    const open = one;
    if (open.held.length - this.#reach < this.#batch || open.held === '') return this.#passName(event, emit);
    const judged = this.#judge(open);
    const release = (): void => this.#release(open, event, emit);
    return judged instanceof Promise ? judged.then(release) : release();
  }

  /** A call is named by its first piece, which must not wait for its text. */
  #passName(event: TextEvent, emit: Emit): void {
    if (event.type === 'tool-arguments-delta' && event.name !== undefined) emit({ ...event, text: '' });
  }

  /** Lets out what no finding can reach any more. */
  #release(open: OpenText, event: TextEvent, emit: Emit): void {
    const { held } = open;
    const end = wholeCharacters(held, Math.max(0, held.length - this.#reach));
    if (end === 0) return this.#passName(event, emit);
    open.before = held.slice(end - 1, end);
    open.held = held.slice(end);
    emit({ ...event, text: held.slice(0, end) });
  }

  #judge({ event, before, held }: OpenText): MaybePromise<void> {
    const { context, windows, took } = this.#judges;
    const subject = new StreamedSubject(context, [subjectText(event, before + held)]);
    let waiting: Promise<void>[] | undefined;
    for (const guardrail of windows) {
      const shown = guardrail.judge(subject, 'stream', context.facts);
      if (shown instanceof Promise) (waiting ??= []).push(shown.then(took));
      else took(shown);
    }
    return waiting === undefined ? undefined : Promise.all(waiting).then(() => undefined);
  }

  /** Judges and lets out what is held of all texts. */
  #flush(emit: Emit): MaybePromise<void> {
    let flushed: Promise<void> | undefined;
    for (const [key, open] of this.#open) {
      this.#open.delete(key);
      if (open.held === '') continue;
      const release = (): void => emit(restOf(open));
      if (flushed !== undefined) flushed = flushed.then(() => this.#judge(open)).then(release);
      else {
        const judged = this.#judge(open);
        if (judged instanceof Promise) flushed = judged.then(release);
        else release();
      }
    }
    return flushed;
  }
}

function restOf({ event, held }: OpenText): TextEvent {
  if (event.type !== 'tool-arguments-delta') return { ...event, text: held };
  return { type: event.type, choice: event.choice, call: event.call, text: held };
}

function subjectText(event: TextEvent, text: string): SubjectText {
  const type =
    event.type === 'text-delta' ? 'text' : event.type === 'reasoning-delta' ? 'reasoning' : 'tool-arguments';
  return { role: 'assistant', type, text, path: [], choice: event.choice };
}

function keyOf(event: TextEvent): string {
  return event.type === 'tool-arguments-delta'
    ? `${event.type}:${event.choice}:${event.call}`
    : `${event.type}:${event.choice}`;
}

/** The place, or the one before it where it lies within a character of two units. */
function wholeCharacters(text: string, place: number): number {
  const isWithin = place > 0 && place < text.length && (text.codePointAt(place - 1) ?? 0) > 0xffff;
  return isWithin ? place - 1 : place;
}
