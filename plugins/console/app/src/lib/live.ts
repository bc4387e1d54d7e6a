import { send } from '@/api/client';
import { eventOf, type ServerEvent } from '@/lib/events';

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
