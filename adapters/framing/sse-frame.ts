/** What one frame of server-sent events says. */
export interface SseMessage {
  /** The `event:` field, or empty. */
  readonly event: string;
  /** The `data:` lines joined with LF; undefined when there is none (a comment, a keep-alive). */
  readonly data: string | undefined;
}

/** Reads a whole frame. A byte order mark is ignored; fields other than `event` and `data` are not reported. */
export function readSseFrame(frame: Buffer): SseMessage {
  const text = withoutMark(frame.toString('utf8'));
  // Nearly every frame of a chat stream is one data line and an LF: no need to cut it into lines.
  if (text.startsWith('data:')) {
    const lineEnd = text.indexOf('\n');
    if (lineEnd >= text.length - 2 && lineEnd !== -1 && !text.includes('\r')) {
      return { event: '', data: valueOf(text.slice(0, lineEnd), 5) };
    }
  }
  let event = '';
  let data: string | undefined;
  for (const line of text.split(/\r\n|\n|\r/)) {
    if (isField(line, 'data')) data = data === undefined ? valueOf(line, 5) : `${data}\n${valueOf(line, 5)}`;
    else if (isField(line, 'event')) event = valueOf(line, 6);
  }
  return { event, data };
}

/** A frame with this data (and event name). Data of several lines becomes several `data:` lines. */
export function writeSseFrame(data: string, event = ''): Buffer {
  const head = event === '' ? '' : `event: ${event}\n`;
  const lines = data.includes('\n') || data.includes('\r') ? data.split(/\r\n|\n|\r/).join('\ndata: ') : data;
  return Buffer.from(`${head}data: ${lines}\n\n`);
}

/** The frame again with other (single-line) data; its other lines and its kind of line end stay. */
export function replaceSseData(frame: Buffer, data: string): Buffer {
  const text = frame.toString('utf8');
  const lineEnd = text.includes('\r\n') ? '\r\n' : text.includes('\n') ? '\n' : '\r';
  const lines: string[] = [];
  let written = false;
  for (const line of text.split(/\r\n|\n|\r/)) {
    if (!isField(withoutMark(line), 'data')) {
      if (line !== '') lines.push(line);
    } else if (!written) {
      written = true;
      lines.push(`data: ${data}`);
    }
  }
  if (!written) lines.push(`data: ${data}`);
  return Buffer.from(lines.join(lineEnd) + lineEnd + lineEnd);
}

function isField(line: string, name: string): boolean {
  return line.startsWith(name) && (line.length === name.length || line[name.length] === ':');
}

/** The field's value: what stands behind the colon, without one leading space. */
function valueOf(line: string, from: number): string {
  return line.slice(line[from] === ' ' ? from + 1 : from);
}

function withoutMark(text: string): string {
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
}
