import {
  batchOf,
  type HeldText,
  keyOfText,
  TextWindow,
  withoutHalfCharacter,
} from '../../core/pipeline/redactor.ts';
import type {
  AttemptContext,
  CheckSubject,
  Emit,
  MaybePromise,
  StreamEvent,
  StreamTap,
  SubjectText,
} from '../../core/pipeline/plugin.ts';
import type { RunningGuardrail, ShownGuardrail } from './running-guardrail.ts';
import { RequestSubject, StreamedSubject } from './subjects.ts';
import type { TextEvent } from '../../core/dialects/stream-event.ts';

/** Longest text that is kept of an observed stream, in UTF-16 units. */
const mostObserved = 4 * 1024 * 1024;

/** Guardrails that judge a stream on its way. */
interface StreamJudges {
  readonly context: AttemptContext;
  /** Those that hold back as much as a finding may span. */
  readonly windows: readonly Pick<RunningGuardrail, 'reach' | 'judge'>[];
  /** Those that judge the whole once it has left. */
  readonly observers: readonly Pick<RunningGuardrail, 'judge'>[];
  /** Takes the result of each. Throws to end the stream. */
  readonly took: (shown: ShownGuardrail) => void;
}

/** The tap of a streamed answer that is judged while it leaves. */
export class GuardrailTap implements StreamTap {
  /** The stream has come to its end, and everything was judged. */
  isComplete = false;
  readonly #judges: StreamJudges;
  readonly #window: TextWindow | undefined;
  readonly #observed = new Map<string, { readonly event: TextEvent; text: string }>();
  #observedLength = 0;

  constructor(judges: StreamJudges) {
    this.#judges = judges;
    if (judges.windows.length > 0)
      this.#window = new TextWindow(
        judges.context.endpoint.dialect,
        (event) => new JudgedText(event, judges),
      );
  }

  event(event: StreamEvent, emit: Emit): MaybePromise<void> {
    if ('text' in event && this.#judges.observers.length > 0) this.#observe(event);
    return this.#window === undefined ? emit(event) : this.#window.event(event, emit);
  }

  async end(emit: Emit): Promise<void> {
    await this.#window?.end(emit);
    const { context, observers, took } = this.#judges;
    const texts = [...this.#observed.values()].map(({ event, text }) => subjectText(event, text));
    for (const guardrail of observers)
      took(await guardrail.judge(new StreamedSubject(context, texts), 'stream', context.facts));
    this.isComplete = true;
  }

  /** A text longer than `mostObserved` is not judged at all: the checks have nothing to look at, and skip it. */
  #observe(event: TextEvent): void {
    this.#observedLength += event.text.length;
    if (this.#observedLength > mostObserved) return this.#observed.clear();
    const key = keyOfText(event);
    const known = this.#observed.get(key);
    if (known === undefined) this.#observed.set(key, { event, text: event.text });
    else known.text += event.text;
  }
}

/** One text of the stream; holds back the end that a finding may still reach. */
class JudgedText implements HeldText {
  readonly #event: TextEvent;
  readonly #judges: StreamJudges;
  readonly #reach: number;
  readonly #request: CheckSubject['request'];
  #held = '';
  /** The unit before it, which decides whether a word begins there. */
  #before = '';

  constructor(event: TextEvent, judges: StreamJudges) {
    this.#event = event;
    this.#judges = judges;
    this.#request = new RequestSubject(judges.context);
    this.#reach = Math.max(0, ...judges.windows.map(({ reach }) => reach ?? 0));
  }

  push(text: string, isLast: boolean): MaybePromise<string> {
    this.#held += text;
    const isDue = this.#held.length - this.#reach >= Math.max(1, batchOf(this.#reach));
    if (this.#held === '' || !(isLast || isDue)) return '';
    const judged = this.#judge();
    return judged instanceof Promise ? judged.then(() => this.#release(isLast)) : this.#release(isLast);
  }

  #release(isLast: boolean): string {
    const held = this.#held;
    const end = isLast ? held.length : withoutHalfCharacter(held, held.length - this.#reach);
    if (end > 0) this.#before = held.slice(end - 1, end);
    this.#held = held.slice(end);
    return held.slice(0, end);
  }

  #judge(): MaybePromise<void> {
    const { context, windows, took } = this.#judges;
    const texts = [subjectText(this.#event, this.#before + this.#held)];
    const subject = new StreamedSubject(context, texts, this.#request);
    const waiting: Promise<void>[] = [];
    for (const guardrail of windows) {
      const shown = guardrail.judge(subject, 'stream', context.facts);
      if (shown instanceof Promise) waiting.push(shown.then(took));
      else took(shown);
    }
    return waiting.length === 0 ? undefined : Promise.all(waiting).then(() => undefined);
  }
}

function subjectText({ type, choice }: TextEvent, text: string): SubjectText {
  const shown = type === 'text-delta' ? 'text' : type === 'reasoning-delta' ? 'reasoning' : 'tool-arguments';
  return { role: 'assistant', type: shown, text, path: [], choice };
}
