import type { Usage } from '../usage.ts';
import type { ChatAnswer, ChatChoice, Finish, ProviderError, TokenLogprob } from './chat-answer.ts';
import type { ChatEvent } from './chat-event.ts';
import type { ChatPart, Citation, Extras } from './chat-part.ts';

interface GrowingPart {
  readonly head: ChatPart;
  readonly texts: string[];
  readonly transcripts: string[];
  citations: Citation[] | undefined;
  signature: string | undefined;
}

interface GrowingChoice {
  readonly index: number;
  readonly parts: GrowingPart[];
  logprobs: TokenLogprob[] | undefined;
  finish: Finish | undefined;
  extras: Extras | undefined;
}

/** Assembles the complete answer from the events of a stream. */
export class AnswerCollector {
  private readonly choices: GrowingChoice[] = [];
  private start: Extract<ChatEvent, { type: 'start' }> | undefined;
  private usage: Usage | undefined;
  private extras: Extras | undefined;
  /** The error with which the stream ended. */
  error: ProviderError | undefined;
  /** Whether the stream had its end marker. */
  complete = false;

  add(event: ChatEvent): void {
    switch (event.type) {
      case 'start':
        this.start = event;
        this.usage ??= event.usage;
        return;
      case 'part-start':
        this.choice(event.choice).parts[event.part] = {
          head: event.head,
          texts: [],
          transcripts: [],
          citations: undefined,
          signature: undefined,
        };
        return;
      case 'text-delta':
        this.part(event).texts.push(event.text);
        if (event.logprobs !== undefined) (this.choice(event.choice).logprobs ??= []).push(...event.logprobs);
        return;
      case 'reasoning-delta':
      case 'arguments-delta':
        this.part(event).texts.push(event.text);
        return;
      case 'audio-delta':
        this.part(event).texts.push(event.data);
        this.part(event).transcripts.push(event.transcript);
        return;
      case 'signature':
        this.part(event).signature = (this.part(event).signature ?? '') + event.signature;
        return;
      case 'citation':
        (this.part(event).citations ??= []).push(event.citation);
        return;
      case 'finish':
        this.choice(event.choice).finish = event.finish;
        this.choice(event.choice).extras = event.extras;
        return;
      case 'usage':
        this.usage = event.usage;
        return;
      case 'extras':
        this.extras = mergeExtras(this.extras, event.extras);
        return;
      case 'error':
        this.error = event.error;
        return;
      case 'end':
        this.complete = true;
        return;
      case 'part-end':
    }
  }

  /** The answer so far. */
  answer(): ChatAnswer {
    const { start } = this;
    return defined({
      id: start?.id ?? '',
      model: start?.model ?? '',
      createdAt: start?.createdAt,
      choices: [...this.choices].sort((a, b) => a.index - b.index).map(wholeChoice),
      usage: this.usage,
      serviceTier: start?.serviceTier,
      systemFingerprint: start?.systemFingerprint,
      extras: this.extras,
    });
  }

  private choice(index: number): GrowingChoice {
    let choice = this.choices.find((one) => one.index === index);
    if (choice === undefined) {
      choice = { index, parts: [], logprobs: undefined, finish: undefined, extras: undefined };
      this.choices.push(choice);
    }
    return choice;
  }

  private part(event: { readonly choice: number; readonly part: number }): GrowingPart {
    const part = this.choice(event.choice).parts[event.part];
    if (part === undefined)
      throw new RangeError(`Part ${event.part} of choice ${event.choice} has not begun.`);
    return part;
  }
}

/** Complete answer of a whole stream. */
export function collectAnswer(events: readonly ChatEvent[]): ChatAnswer {
  const collector = new AnswerCollector();
  for (const event of events) collector.add(event);
  return collector.answer();
}

/** Merges members of the same dialect; the later one wins. */
export function mergeExtras(first: Extras | undefined, second: Extras | undefined): Extras | undefined {
  if (first === undefined || second === undefined) return second ?? first;
  const merged: Record<string, unknown> = { ...first };
  for (const [dialect, members] of Object.entries(second)) {
    merged[dialect] = { ...(merged[dialect] as object | undefined), ...members };
  }
  return merged;
}

function wholeChoice({ index, parts, finish, logprobs, extras }: GrowingChoice): ChatChoice {
  return defined({
    index,
    parts: parts.map(wholePart),
    finish: finish ?? { reason: 'unknown', raw: '' },
    logprobs,
    extras,
  });
}

function wholePart({ head, texts, transcripts, citations, signature }: GrowingPart): ChatPart {
  const text = texts.join('');
  const signed = signature === undefined ? head : { ...head, signature };
  switch (signed.type) {
    case 'text': {
      const whole = { ...signed, text: signed.text + text };
      return citations === undefined
        ? whole
        : { ...whole, citations: [...(signed.citations ?? []), ...citations] };
    }
    case 'refusal':
    case 'reasoning':
      return { ...signed, text: signed.text + text };
    case 'tool-call':
      return { ...signed, arguments: signed.arguments + text };
    case 'audio':
      return texts.length === 0 || signed.source.kind !== 'base64'
        ? signed
        : {
            ...signed,
            source: { ...signed.source, data: signed.source.data + text },
            transcript: (signed.transcript ?? '') + transcripts.join(''),
          };
    default:
      return signed;
  }
}

/** The value without undefined members. */
function defined<T extends object>(value: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as T;
}
