const headEnd = Buffer.from('\r\n\r\n');
const prefix = Buffer.from('HTTP/1.');
const maxHeldBytes = 16_384;

/**
 * Takes informational answers (100 Continue, 103 Early Hints) out of the bytes that precede the final answer.
 *
 * undici gives up a connection on a `100 Continue` that nobody asked for, which servers may send at any time.
 * Once a final head begins, bytes pass untouched until the next `arm`. Holds at most 16 KiB.
 */
export class InformationalFilter {
  #armed = false;
  #held: Buffer | undefined;

  /** Call when a request goes out: the next bytes begin a head. */
  arm(): void {
    this.#armed = true;
    this.#held = undefined;
  }

  /** The bytes that belong to a final answer, or undefined when all of them were informational or are held. */
  pass(chunk: Buffer): Buffer | undefined {
    if (!this.#armed) return chunk;
    let data = this.#held === undefined ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = undefined;
    while (data.length > 0) {
      const verdict = classify(data);
      if (verdict === 'final') {
        this.#armed = false;
        return data;
      }
      const end = verdict === 'unknown' ? -1 : data.indexOf(headEnd);
      if (end >= 0) {
        data = data.subarray(end + headEnd.length);
      } else if (data.length > maxHeldBytes) {
        this.#armed = false;
        return data;
      } else {
        this.#held = data;
        return undefined;
      }
    }
    return undefined;
  }
}

/** `unknown` while too few bytes have come to tell `HTTP/1.1 1xx` from anything else. */
function classify(data: Buffer): 'informational' | 'final' | 'unknown' {
  const known = Math.min(data.length, prefix.length);
  if (data.compare(prefix, 0, known, 0, known) !== 0) return 'final';
  if (data.length > 9 && data[9] !== 0x31) return 'final';
  if (data.length < 12) return 'unknown';
  // 101 is an answer: the server leaves HTTP. undici reports it.
  return data[10] === 0x30 && data[11] === 0x31 ? 'final' : 'informational';
}
