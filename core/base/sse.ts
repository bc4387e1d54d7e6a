const LF = 0x0a;
const CR = 0x0d;

/** Longer frames are forwarded in pieces, unread: 4 MiB. */
export const defaultMaxFrameBytes = 4 * 1024 * 1024;

/**
 * Receives the output of a splitter. `whole` is false for a piece of an oversized or torn-off frame: its bytes must be
 * forwarded, but they cannot be read.
 */
type FrameSink = (bytes: Buffer, whole: boolean) => void;

/**
 * Splits server-sent events into frames: everything up to and including a blank line, byte for byte. Lines end with LF,
 * CRLF or CR, in any mixture. The cuts depend on the bytes alone, never on their chunks; a CR at the end of a chunk
 * therefore waits for the next byte. A frame within one chunk is a view of that chunk, not a copy.
 */
export class SseSplitter {
  private readonly sink: FrameSink;
  private readonly maxFrameBytes: number;
  /** The unfinished frame; a view of a chunk at first, a growing copy from the second chunk on. */
  private store: Buffer | undefined;
  private storeIsOwn = false;
  private length = 0;
  /** The frame exceeds the bound: its bytes are forwarded as they arrive. */
  private passing = false;
  private lineIsEmpty = true;
  /** The last byte was a CR; an LF may still belong to it. */
  private afterCr = false;
  /** That CR ended a blank line, so that the frame is complete except for the LF. */
  private frameEndsAtCr = false;

  constructor(sink: FrameSink, maxFrameBytes: number = defaultMaxFrameBytes) {
    this.sink = sink;
    this.maxFrameBytes = maxFrameBytes;
  }

  /** Bytes held for the unfinished frame. */
  get heldBytes(): number {
    return this.length;
  }

  /** The bytes held for the unfinished frame; valid until the next call. */
  get held(): Buffer {
    return this.store === undefined ? Buffer.alloc(0) : this.store.subarray(0, this.length);
  }

  /** Splits the next bytes. They may be kept until their frame is complete and must not be overwritten. */
  push(bytes: Uint8Array): void {
    const chunk = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    const end = chunk.length;
    if (end === 0) return;
    let at = 0;
    let start = 0;
    if (this.afterCr) {
      at = chunk[0] === LF ? 1 : 0;
      if (this.frameEndsAtCr) {
        this.complete(chunk, 0, at);
        start = at;
      }
      this.afterCr = false;
      this.frameEndsAtCr = false;
    }
    // Each position is searched again only after it has been passed: linear even when one kind never occurs.
    let lf = -1;
    let cr = -1;
    while (at < end) {
      if (lf < at) lf = positionOf(chunk, LF, at);
      if (cr < at) cr = positionOf(chunk, CR, at);
      const lineEnd = lf < cr ? lf : cr;
      if (lineEnd === end) {
        this.lineIsEmpty = false;
        break;
      }
      const blank = this.lineIsEmpty && lineEnd === at;
      this.lineIsEmpty = true;
      at = lineEnd + 1;
      if (lineEnd === cr) {
        if (at === end) {
          this.afterCr = true;
          this.frameEndsAtCr = blank;
          break;
        }
        if (chunk[at] === LF) at++;
      }
      if (blank) {
        this.complete(chunk, start, at);
        start = at;
      }
    }
    if (start < end) this.hold(chunk, start);
  }

  /** Emits the remainder at the end of the bytes: a torn frame, unless only the LF of a final CRLF is missing. */
  finish(): void {
    const rest = this.held;
    const whole = this.frameEndsAtCr;
    this.reset();
    this.passing = false;
    this.lineIsEmpty = true;
    this.afterCr = false;
    this.frameEndsAtCr = false;
    if (rest.length > 0) this.sink(rest, whole);
  }

  private complete(chunk: Buffer, start: number, end: number): void {
    if (this.passing || this.length + end - start > this.maxFrameBytes) {
      this.releaseHeld();
      if (end > start) this.sink(chunk.subarray(start, end), false);
      this.passing = false;
      return;
    }
    if (this.length === 0) {
      this.sink(start === 0 && end === chunk.length ? chunk : chunk.subarray(start, end), true);
      return;
    }
    if (end > start) this.append(chunk, start, end);
    const frame = this.held;
    this.reset();
    this.sink(frame, true);
  }

  private hold(chunk: Buffer, start: number): void {
    if (this.passing || this.length + chunk.length - start > this.maxFrameBytes) {
      this.releaseHeld();
      this.passing = true;
      this.sink(chunk.subarray(start), false);
      return;
    }
    if (this.length === 0) {
      this.store = start === 0 ? chunk : chunk.subarray(start);
      this.length = chunk.length - start;
      return;
    }
    this.append(chunk, start, chunk.length);
  }

  /** Copies into a store that doubles, so that a frame in many small chunks costs linear time. */
  private append(chunk: Buffer, start: number, end: number): void {
    const needed = this.length + end - start;
    if (!this.storeIsOwn || needed > (this.store?.length ?? 0)) {
      const grown = Buffer.allocUnsafeSlow(Math.max(512, needed * 2));
      this.store?.copy(grown, 0, 0, this.length);
      this.store = grown;
      this.storeIsOwn = true;
    }
    this.length += chunk.copy(this.store as Buffer, this.length, start, end);
  }

  private releaseHeld(): void {
    const rest = this.held;
    this.reset();
    if (rest.length > 0) this.sink(rest, false);
  }

  private reset(): void {
    this.store = undefined;
    this.storeIsOwn = false;
    this.length = 0;
  }
}

/** Next position of a byte; the chunk's length when there is none. */
function positionOf(chunk: Buffer, byte: number, from: number): number {
  const position = chunk.indexOf(byte, from);
  return position === -1 ? chunk.length : position;
}

/** Content of one frame of server-sent events. */
interface SseMessage {
  /** The `event:` field, or empty. */
  readonly event: string;
  /** The `data:` lines joined with LF; undefined when there is none (a comment, a keep-alive). */
  readonly data: string | undefined;
}

/** Reads a whole frame. A byte order mark is ignored; fields other than `event` and `data` are not reported. */
export function readSseFrame(frame: Buffer): SseMessage {
  const text = withoutMark(frame.toString('utf8'));
  // Nearly every frame of a chat stream is one data line and an LF: no need to split it into lines.
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

/** The frame with other (single-line) data; its other lines and its line endings stay. */
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

/** The field's value: the text after the colon, without one leading space. */
function valueOf(line: string, from: number): string {
  return line.slice(line[from] === ' ' ? from + 1 : from);
}

function withoutMark(text: string): string {
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
}
