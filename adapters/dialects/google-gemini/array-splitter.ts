import { ByteStore } from '../../framing/byte-store.ts';
import { defaultMaxFrameBytes } from '../../framing/sse.ts';

const quote = 0x22;
const backslash = 0x5c;
const closeBracket = 0x5d;

/** Receives what a splitter cut: an element with what stands before it, the closing bracket, or bytes that cannot be read. */
export type ElementSink = (bytes: Buffer, kind: 'element' | 'end' | 'unread') => void;

/** Cuts a JSON array of objects into its elements, byte for byte: each with the bracket, comma and blanks before it. */
export class ArraySplitter {
  private readonly sink: ElementSink;
  private readonly maxFrameBytes: number;
  private readonly store = new ByteStore();
  /** Of the brackets within the element; the one of the array does not count. */
  private depth = 0;
  private inString = false;
  private escaped = false;
  private isOver = false;
  /** The element has outgrown the bound. */
  private isTorn = false;

  /** `maxFrameBytes` bounds one element; default 4 MiB. */
  constructor(sink: ElementSink, maxFrameBytes: number = defaultMaxFrameBytes) {
    this.sink = sink;
    this.maxFrameBytes = maxFrameBytes;
  }

  /** Bytes held for the unfinished element. */
  get heldBytes(): number {
    return this.store.length;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let at = 0; at < chunk.length && !this.isOver; at++) {
      const kind = this.step(chunk[at] as number);
      if (kind === undefined) continue;
      this.store.append(chunk, start, at + 1);
      start = at + 1;
      this.sink(this.store.take(), this.isTorn ? 'unread' : kind);
      this.isTorn = false;
    }
    this.store.append(chunk, start, chunk.length);
    if (this.store.length <= this.maxFrameBytes) return;
    this.isTorn = true;
    this.sink(this.store.take(), 'unread');
  }

  /** Gives out what is left when the bytes have ended. */
  finish(): void {
    if (this.store.length === 0) return;
    const rest = this.store.take();
    this.sink(rest, rest.toString('latin1').trim() === '' ? 'end' : 'unread');
  }

  /** What the byte completes. */
  private step(byte: number): 'element' | 'end' | undefined {
    if (this.inString) {
      if (this.escaped) this.escaped = false;
      else if (byte === backslash) this.escaped = true;
      else if (byte === quote) this.inString = false;
      return undefined;
    }
    if (byte === quote) this.inString = true;
    else if (byte === 0x7b || (byte === 0x5b && this.depth > 0)) this.depth++;
    else if (byte === 0x7d || (byte === closeBracket && this.depth > 0)) {
      this.depth--;
      if (this.depth === 0) return 'element';
    } else if (byte === closeBracket) {
      this.isOver = true;
      return 'end';
    }
    return undefined;
  }
}
