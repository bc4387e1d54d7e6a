import type { GatewayError } from '../../core/errors/gateway-error.ts';
import type { StreamSource, StreamTarget } from '../../core/pipeline/answer.ts';

const ends = ['event: response.completed\n', 'event: response.incomplete\n'];
/** As much of a chunk may hold the beginning of what marks the end. */
const overlap = 32;

/**
 * A Responses stream that flows by until its final event; that is held back until `whole` has been told the bytes from
 * it on, so that whoever has read the end can refer to the response. A final event of more than `maxBytes` flows by.
 */
export class KeptStream implements StreamSource, StreamTarget {
  private readonly source: StreamSource;
  private readonly maxBytes: number;
  private readonly whole: (bytes: Buffer) => unknown;
  private target: StreamTarget | undefined;
  private tail = '';
  /** The chunks from that on in which the final event begins. */
  private held: Buffer[] | undefined;
  /** Where it begins behind the beginning of `tail`, which has left. */
  private begins = 0;
  private heldBytes = 0;
  private isOver = false;

  constructor(source: StreamSource, maxBytes: number, whole: (bytes: Buffer) => unknown) {
    this.source = source;
    this.maxBytes = maxBytes;
    this.whole = whole;
  }

  pipe(target: StreamTarget): void {
    this.target = target;
    this.source.pipe(this);
  }

  resume(): void {
    this.source.resume();
  }

  cancel(error: GatewayError): void {
    this.isOver = true;
    this.source.cancel(error);
  }

  data(chunk: Buffer): boolean {
    if (this.isOver) return this.target?.data(chunk) ?? false;
    if (this.held === undefined && !this.hasBegun(chunk)) return this.target?.data(chunk) ?? false;
    const held = (this.held ??= []);
    held.push(chunk);
    this.heldBytes += chunk.length;
    if (this.heldBytes <= this.maxBytes) return true;
    this.isOver = true;
    return this.release();
  }

  end(): void {
    const { held } = this;
    if (held === undefined || this.isOver) {
      this.target?.end();
      return;
    }
    const done = (): void => {
      if (this.isOver) return;
      this.isOver = true;
      this.release();
      this.target?.end();
    };
    const pending = this.whole(
      Buffer.concat([Buffer.from(this.tail, 'latin1'), ...held]).subarray(this.begins),
    );
    if (pending instanceof Promise) pending.then(done, done);
    else done();
  }

  fail(error: GatewayError, told?: Buffer): void {
    this.isOver = true;
    this.release();
    this.target?.fail(error, told);
  }

  private hasBegun(chunk: Buffer): boolean {
    // Names of events are ASCII, and no line within JSON begins like one.
    const text = `\n${this.tail}${chunk.toString('latin1')}`;
    const at = Math.max(...ends.map((end) => text.lastIndexOf(`\n${end}`)));
    if (at !== -1) {
      this.begins = at;
      return true;
    }
    this.tail = text.slice(1).slice(-overlap);
    return false;
  }

  private release(): boolean {
    const { held = [] } = this;
    this.held = undefined;
    let room = true;
    for (const chunk of held) room = this.target?.data(chunk) ?? false;
    return room;
  }
}
