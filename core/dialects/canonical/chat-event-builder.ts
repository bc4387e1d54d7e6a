import type { Usage } from '../usage.ts';
import type { Finish, ProviderError, TokenLogprob } from './chat-answer.ts';
import type { ChatEvent } from './chat-event.ts';
import type { ChatPart, Citation, Extras, ToolCallPart } from './chat-part.ts';

type StartHead = Omit<Extract<ChatEvent, { type: 'start' }>, 'type'>;

/** A started, unfinished part. `key` is the decoder's own name for it (a block index, `call:0`). */
interface OpenPart {
  readonly key: string;
  readonly part: number;
  readonly head: ChatPart;
  hasContent: boolean;
}

interface ChoiceState {
  readonly index: number;
  nextPart: number;
  /** In the order of their start. */
  readonly open: OpenPart[];
  /** Keys of finished parts: a late delta for one of them is ignored instead of opening a second part. */
  readonly ended: Set<string>;
  finished: boolean;
}

/**
 * Builds a well-formed stream of `ChatEvent`s from the content of any wire: a second start is ignored, parts are
 * numbered, a function call without arguments gets `{}`, open parts are closed before a choice finishes, and nothing
 * follows the end or an error. One per stream.
 */
export class ChatEventBuilder {
  private events: ChatEvent[] = [];
  private readonly choices: ChoiceState[] = [];
  private started = false;
  private over = false;

  /** True after the end or an error. */
  get ended(): boolean {
    return this.over;
  }

  get hasStarted(): boolean {
    return this.started;
  }

  /** Events since the last `take`. */
  take(): readonly ChatEvent[] {
    const { events } = this;
    this.events = [];
    return events;
  }

  /** Only the first call counts. */
  start(head: StartHead): void {
    if (this.started || this.over) return;
    this.started = true;
    const { id, model, createdAt, serviceTier, systemFingerprint, usage } = head;
    this.events.push({ type: 'start', id, model, createdAt, serviceTier, systemFingerprint, usage });
  }

  /**
   * Begins a part unless one with this key has begun. Parts that arrive whole carry their content and are closed by
   * `close`.
   */
  open(choice: number, key: string, head: ChatPart): void {
    if (this.over) return;
    this.ensureStarted();
    const state = this.choice(choice);
    if (state.finished || state.ended.has(key) || find(state, key) !== undefined) return;
    const part = state.nextPart++;
    state.open.push({ key, part, head, hasContent: false });
    this.events.push({ type: 'part-start', choice, part, head });
  }

  isOpen(choice: number, key: string): boolean {
    return find(this.choice(choice), key) !== undefined;
  }

  /** Text of an open `text` or `refusal` part. */
  text(choice: number, key: string, text: string, logprobs?: readonly TokenLogprob[]): void {
    const part = this.touch(choice, key);
    if (part === undefined || (text === '' && logprobs === undefined)) return;
    this.events.push({ type: 'text-delta', choice, part: part.part, text, logprobs });
  }

  reasoning(choice: number, key: string, text: string): void {
    const part = text === '' ? undefined : this.touch(choice, key);
    if (part !== undefined) this.events.push({ type: 'reasoning-delta', choice, part: part.part, text });
  }

  /** A fragment of the arguments of an open call. */
  arguments(choice: number, key: string, text: string): void {
    const part = text === '' ? undefined : this.touch(choice, key);
    if (part !== undefined) this.events.push({ type: 'arguments-delta', choice, part: part.part, text });
  }

  audio(choice: number, key: string, data: string, transcript: string): void {
    const part = data === '' && transcript === '' ? undefined : this.touch(choice, key);
    if (part !== undefined)
      this.events.push({ type: 'audio-delta', choice, part: part.part, data, transcript });
  }

  signature(choice: number, key: string, signature: string): void {
    const part = signature === '' ? undefined : this.touch(choice, key, false);
    if (part !== undefined) this.events.push({ type: 'signature', choice, part: part.part, signature });
  }

  citation(choice: number, key: string, citation: Citation): void {
    const part = this.touch(choice, key, false);
    if (part !== undefined) this.events.push({ type: 'citation', choice, part: part.part, citation });
  }

  close(choice: number, key: string): void {
    if (this.over) return;
    const state = this.choice(choice);
    const at = state.open.findIndex((one) => one.key === key);
    if (at === -1) return;
    const [part] = state.open.splice(at, 1) as [OpenPart];
    this.end(state, part);
  }

  /**
   * For wires that do not mark blocks: continues the open part of this type, else begins a new one and ends every other
   * part except calls. Returns its key.
   */
  flow(choice: number, type: 'text' | 'reasoning' | 'refusal'): string {
    const state = this.choice(choice);
    const last = state.open.findLast(({ head }) => head.type !== 'tool-call');
    if (last?.head.type === type) return last.key;
    this.closeFlow(choice);
    const key = `flow:${state.nextPart}`;
    this.open(choice, key, { type, text: '' });
    return key;
  }

  /** Ends every open part except calls. */
  closeFlow(choice: number): void {
    if (this.over) return;
    const state = this.choice(choice);
    for (let i = 0; i < state.open.length;) {
      const part = state.open[i] as OpenPart;
      if (part.head.type === 'tool-call') i++;
      else {
        state.open.splice(i, 1);
        this.end(state, part);
      }
    }
  }

  /** Ends the open parts of the choice and the choice itself; only the first finish counts. */
  finish(choice: number, finish: Finish, extras?: Extras): void {
    if (this.over) return;
    this.ensureStarted();
    const state = this.choice(choice);
    if (state.finished) return;
    this.closeAll(state);
    state.finished = true;
    this.events.push({ type: 'finish', choice, finish, extras });
  }

  isFinished(choice: number): boolean {
    return this.choice(choice).finished;
  }

  /** May be called any number of times; the last one counts. */
  usage(usage: Usage): void {
    if (!this.over) this.events.push({ type: 'usage', usage });
  }

  extras(extras: Extras): void {
    if (!this.over) this.events.push({ type: 'extras', extras });
  }

  error(error: ProviderError): void {
    if (this.over) return;
    this.over = true;
    this.events.push({ type: 'error', error });
  }

  /**
   * The stream is complete. A started but unfinished choice, or a stream without any choice, means that it was
   * truncated: then an error is written instead.
   */
  complete(): void {
    if (this.over) return;
    const isWhole = this.choices.length > 0 && this.choices.every(({ finished }) => finished);
    if (!isWhole) return this.error(cutShort);
    this.over = true;
    this.events.push({ type: 'end' });
  }

  private ensureStarted(): void {
    if (!this.started) this.start({ id: '', model: '' });
  }

  private choice(index: number): ChoiceState {
    let state = this.choices[index];
    if (state?.index === index) return state;
    state = this.choices.find((one) => one.index === index);
    if (state !== undefined) return state;
    state = { index, nextPart: 0, open: [], ended: new Set(), finished: false };
    this.choices.push(state);
    return state;
  }

  private touch(choice: number, key: string, content = true): OpenPart | undefined {
    if (this.over) return undefined;
    const part = find(this.choice(choice), key);
    if (part !== undefined && content) part.hasContent = true;
    return part;
  }

  private closeAll(state: ChoiceState): void {
    for (const part of state.open.splice(0)) this.end(state, part);
  }

  private end(state: ChoiceState, part: OpenPart): void {
    state.ended.add(part.key);
    if (part.head.type === 'tool-call' && !part.hasContent && needsArguments(part.head)) {
      this.events.push({ type: 'arguments-delta', choice: state.index, part: part.part, text: '{}' });
    }
    this.events.push({ type: 'part-end', choice: state.index, part: part.part });
  }
}

/** The provider's stream ended without an end marker. */
export const cutShort: ProviderError = {
  status: 502,
  message: "The provider's stream ended before its answer was complete.",
  type: 'upstream_error',
};

function find(state: ChoiceState, key: string): OpenPart | undefined {
  for (const part of state.open) if (part.key === key) return part;
  return undefined;
}

function needsArguments({ kind, arguments: given }: ToolCallPart): boolean {
  return kind === 'function' && given === '';
}
