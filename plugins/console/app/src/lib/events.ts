import { checks } from '@/texts/checks';

/** One server-sent event, or a block that says no more than an id: its `data` is empty then. */
export interface ServerEvent {
  readonly event: string;
  readonly data: string;
  /** The last id that the stream has told: with it as `last-event-id` a client goes on. Empty for none. */
  readonly id: string;
}

/** An event that is longer is refused, in characters. */
const mostCharacters = 4_194_304;

/** Makes events of the text of a stream, piece by piece. */
class EventParser {
  readonly #most: number;
  #rest = '';
  #event = '';
  #data: string[] = [];
  #characters = 0;
  #id = '';
  #nextId: string | undefined;

  constructor(most: number) {
    this.#most = most;
  }

  /** The events that end with this text. Throws when one is too long. */
  add(text: string): ServerEvent[] {
    // A CR at the end may be the half of a CRLF.
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    const events = lines.flatMap((line) => this.#line(line));
    if (this.#characters + this.#rest.length > this.#most) throw new Error(checks.tooLong);
    return events;
  }

  #line(line: string): readonly ServerEvent[] {
    if (line === '') return this.#dispatch();
    const colon = line.indexOf(':');
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'event') this.#event = value;
    else if (name === 'id') this.#nextId = value;
    else if (name === 'data') {
      this.#data.push(value);
      this.#characters += value.length;
    }
    return [];
  }

  #dispatch(): readonly ServerEvent[] {
    const event = this.#event || 'message';
    const data = this.#data.join('\n');
    const tellsId = this.#nextId !== undefined;
    // An id counts once its block is whole: of a block that was cut off nothing was told.
    this.#id = this.#nextId ?? this.#id;
    this.#event = '';
    this.#data = [];
    this.#characters = 0;
    this.#nextId = undefined;
    return data === '' && !tellsId ? [] : [{ event, data, id: this.#id }];
  }
}

/**
 * The events of an answer, as they come; ends with it. Rejects when it is cut off, when an event has more than four
 * million characters, and when nothing, not even a comment, comes for `silenceMs` milliseconds. Default: it waits.
 */
export async function* serverEvents(
  { body }: Pick<Response, 'body'>,
  silenceMs?: number,
): AsyncGenerator<ServerEvent> {
  if (body === null) return;
  const parser = new EventParser(mostCharacters);
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { value, done } = await (silenceMs === undefined
        ? reader.read()
        : within(reader.read(), silenceMs));
      if (done) return;
      yield* parser.add(decoder.decode(value, { stream: true }));
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** The events of a text that was a stream; the last one may have lost its end. */
export function eventsOf(text: string): ServerEvent[] {
  return new EventParser(Infinity).add(`${text}\n\n`).filter(({ data }) => data !== '');
}

async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(checks.silent)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
