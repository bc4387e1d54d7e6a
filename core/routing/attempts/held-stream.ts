import { GatewayError } from '../../errors/gateway-error.ts';
import type { StreamSource, StreamTarget } from '../../pipeline/answer.ts';
import type { StreamScanner } from '../../dialects/dialect.ts';
import { joinChunks } from '../../base/bytes.ts';

/** Upper bound of held comments and padding before the first event. */
const maxHeldBytes = 65_536;

/**
 * A stream that passes no bytes on before its first event, so that another attempt can still replace a stream that
 * begins with an error or breaks before its first event.
 */
export class HeldStream implements StreamSource, StreamTarget {
  private readonly source: StreamSource;
  /** Undefined where events cannot be parsed: then the first bytes decide. */
  private readonly scanner: StreamScanner | undefined;
  private target: StreamTarget | undefined;
  private held: Buffer[] = [];
  private heldBytes = 0;
  private decide: ((failure: GatewayError | undefined) => void) | undefined;
  private over: 'no' | 'ended' | 'failed' = 'no';
  private failure: GatewayError | undefined;
  private told: Buffer | undefined;

  constructor(source: StreamSource, scanner: StreamScanner | undefined) {
    this.source = source;
    this.scanner = scanner;
  }

  /**
   * Waits for the first event. Resolves with the error of a failed stream; undefined: it is an answer, ready to pipe.
   */
  begun(): Promise<GatewayError | undefined> {
    return new Promise((resolve) => {
      this.decide = resolve;
      this.source.pipe(this);
    });
  }

  data(chunk: Buffer): boolean {
    if (this.target !== undefined) return this.target.data(chunk);
    this.held.push(chunk);
    this.heldBytes += chunk.length;
    if (this.decide === undefined) return false;
    this.scanner?.scan(chunk);
    const message = this.scanner?.facts.errorMessage;
    if (message !== undefined) {
      const error = new GatewayError('provider_error', message, { source: 'provider' });
      this.over = 'failed';
      this.source.cancel(error);
      this.settle(error);
      return false;
    }
    const room = this.heldBytes < maxHeldBytes;
    if (room && this.scanner !== undefined && !hasEvent(this.held)) return true;
    this.settle(undefined);
    return false;
  }

  end(): void {
    if (this.target !== undefined) return this.target.end();
    this.over = 'ended';
    this.settle(undefined);
  }

  fail(error: GatewayError, told?: Buffer): void {
    if (this.target !== undefined) return this.target.fail(error, told);
    this.over = 'failed';
    this.failure = error;
    this.told = told;
    // A break before the first event is a failed attempt; a break between the first event and its reader is not.
    this.settle(error);
  }

  pipe(target: StreamTarget): void {
    this.target = target;
    const { held } = this;
    this.held = [];
    let room = true;
    for (const chunk of held) room = target.data(chunk);
    if (this.over === 'ended') target.end();
    else if (this.over === 'failed') target.fail(this.failure as GatewayError, this.told);
    else if (room) this.source.resume();
  }

  resume(): void {
    if (this.over === 'no') this.source.resume();
  }

  cancel(error: GatewayError): void {
    if (this.over === 'no') this.source.cancel(error);
    this.over = 'failed';
  }

  private settle(failure: GatewayError | undefined): void {
    const { decide } = this;
    this.decide = undefined;
    decide?.(failure);
  }
}

/** Whether the bytes hold a complete frame other than a comment, or are no event stream at all. */
function hasEvent(held: readonly Buffer[]): boolean {
  const text = joinChunks(held).toString('latin1');
  if (!/^(?::|data|event|id|retry|\s)/.test(text)) return true;
  const frames = text.split(/\r\n\r\n|\n\n|\r\r/);
  frames.pop();
  return frames.some((frame) => /^(?:data|event)/m.test(frame));
}
