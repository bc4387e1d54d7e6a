import { send } from '@/api/client';

/** One server-sent event. */
export interface ServerEvent {
  readonly event: string;
  readonly data: string;
}

/** An event longer than this is not kept. */
const mostCharacters = 4_194_304;

/** The events of an answer, as they come. Ends with the answer, or with the signal. */
export async function* serverEvents(path: string, init: RequestInit = {}): AsyncGenerator<ServerEvent> {
  const answer = await send(path, { ...init, headers: { accept: 'text/event-stream' } });
  if (answer.body === null) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      const blocks = rest.split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? '';
      if (rest.length > mostCharacters) rest = '';
      for (const block of blocks) yield eventOf(block);
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function eventOf(block: string): ServerEvent {
  let event = 'message';
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith('event:')) event = line.slice(6).trim();
    else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
  }
  return { event, data: data.join('\n') };
}

/** The events of a text that was a stream. */
export function eventsOf(text: string): ServerEvent[] {
  return text
    .split(/\r?\n\r?\n/)
    .map((block) => eventOf(block))
    .filter(({ data }) => data !== '');
}
