/**
 * Joins base64 that comes in pieces: each piece was encoded for itself, so that its bytes need not end where four
 * characters do. Gives out what is complete and keeps up to two bytes.
 */
export class AudioJoiner {
  private rest: Buffer = Buffer.alloc(0);

  /** The base64 to go on with after this piece. */
  push(data: string): string {
    if (this.rest.length === 0 && data.length % 4 === 0 && !data.endsWith('=')) return data;
    const bytes = Buffer.concat([this.rest, Buffer.from(data, 'base64')]);
    const whole = bytes.length - (bytes.length % 3);
    this.rest = bytes.subarray(whole);
    return bytes.toString('base64', 0, whole);
  }

  /** What was kept. */
  finish(): string {
    const { rest } = this;
    this.rest = Buffer.alloc(0);
    return rest.toString('base64');
  }
}
