import type { Window } from '../../core/ports/counters.ts';
import { type EncodedCommand, encodeCount, encodeParts, type RedisReply } from './encoded-command.ts';
import type { Script } from './limit-scripts.ts';

/** What stands in braces places a key in a cluster: one organisation's keys are together. */
function keyOf(organisationId: string, rest: string): string {
  return `weir:{${organisationId === '' ? '-' : encodeURIComponent(organisationId)}}:${rest}`;
}

export function windowKey({ key, group = '', windowMs }: Window): string {
  return keyOf(group, `window:${windowMs}:${key}`);
}

export function budgetKey(organisationId: string, key: string): string {
  return keyOf(organisationId, `budget:${key}`);
}

/** Where the gateways are that have reserved something of an organisation's budgets. */
export function gatewaysKey(organisationId: string): string {
  return keyOf(organisationId, 'gateways');
}

/** Where all gateways are. */
export const presenceKey = keyOf('', 'present');

/** Throws RangeError on a length that cannot be counted. */
export function checkLengths(windows: readonly Window[]): void {
  for (const { windowMs } of windows) {
    if (!Number.isSafeInteger(windowMs) || windowMs <= 0)
      throw new RangeError(`A window of ${windowMs} ms cannot be counted; give a whole number above zero.`);
  }
}

/** What a call begins with that runs a script with so many more parts, the number of keys among them. */
export function headOf(parts: number): string {
  return encodeCount(parts + 2);
}

/** Runs a script. `head` is that of `headOf`, `rest` all parts behind the name of the script, encoded. */
export function runScript({ sha1, source }: Script, head: string, rest: string): EncodedCommand {
  return {
    name: 'evalsha',
    bytes: Buffer.from(head + encodeParts(['EVALSHA', sha1]) + rest),
    // The server has forgotten its scripts (a restart, SCRIPT FLUSH): nothing was run.
    instead: ({ message }) =>
      message.startsWith('NOSCRIPT')
        ? { name: 'eval', bytes: head + encodeParts(['EVAL', source]) + rest }
        : undefined,
  };
}

const space = 0x20;
const zero = 0x30;

/** The numbers of an answer, with a space between them, read one after the other. */
export class Numbers {
  private readonly text: Buffer;
  private at = 0;

  constructor(reply: RedisReply) {
    this.text = Buffer.isBuffer(reply) ? reply : Buffer.from(String(reply));
  }

  next(): number {
    const { text, at: start } = this;
    let value = 0;
    let isPlain = true;
    let at = start;
    for (; at < text.length && text[at] !== space; at++) {
      const digit = (text[at] as number) - zero;
      isPlain &&= digit >= 0 && digit <= 9;
      value = value * 10 + digit;
    }
    this.at = at + 1;
    return isPlain ? value : Number(text.toString('latin1', start, at));
  }
}
