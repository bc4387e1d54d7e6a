import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { leftWhileSending, tooSlow } from './body-errors.ts';
import { BodyPace, type PaceLimits } from './body-pace.ts';

/**
 * A request body on its way to the provider, with the back-pressure of both sides. Destroying it leaves the client's
 * connection alone, so that an answer can still be written. Breaks with `body_timeout` when the client pauses too
 * long or sends too slowly (not when the provider does), and with `client_closed` when it leaves.
 */
export class StreamedBody extends Readable {
  private readonly message: IncomingMessage;
  private readonly idleTimeoutMs: number;
  private readonly pace: BodyPace;
  private timer: NodeJS.Timeout | undefined;
  private reading = false;

  constructor(message: IncomingMessage, limits: PaceLimits) {
    super();
    this.message = message;
    this.idleTimeoutMs = limits.idleTimeoutMs;
    this.pace = new BodyPace(limits);
    // Whoever reads it hears of the failure; when nobody does any more, it is of no interest.
    this.on('error', () => undefined);
    message.on('close', this.onClose);
  }

  override _read(): void {
    if (!this.reading) {
      this.reading = true;
      this.message.on('data', this.onData).on('end', this.onEnd);
    }
    this.timer ??= setTimeout(() => this.destroy(tooSlow(this.idleTimeoutMs)), this.idleTimeoutMs);
    this.pace.wait();
    this.message.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.stopTimer();
    this.message.off('data', this.onData).off('end', this.onEnd).off('close', this.onClose);
    callback(error);
  }

  private readonly onData = (chunk: Buffer): void => {
    const tooSlowly = this.pace.received(chunk.length);
    if (tooSlowly !== undefined) {
      this.destroy(tooSlowly);
      return;
    }
    if (this.push(chunk)) {
      this.timer?.refresh();
      return;
    }
    this.stopTimer();
    this.message.pause();
  };

  private readonly onEnd = (): void => {
    this.stopTimer();
    this.push(null);
  };

  private readonly onClose = (): void => {
    if (!this.message.readableEnded) this.destroy(leftWhileSending());
  };

  private stopTimer(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.pace.pause();
  }
}
