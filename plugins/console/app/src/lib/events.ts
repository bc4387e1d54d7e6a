/** One server-sent event. */
export interface ServerEvent {
  readonly event: string;
  readonly data: string;
}

/** The event of a block of lines. */
export function eventOf(block: string): ServerEvent {
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
