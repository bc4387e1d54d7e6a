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

/** What calls of one script have in common. */
export interface FixedCall {
  readonly script: Script;
  readonly count: string;
  /** The call as far as it does not change. */
  readonly bytes: Buffer;
  /** Where in it the parts behind the script's name begin. */
  readonly partsAt: number;
}

/** Calls of a script with these parts behind its name, and so many more that change. */
export function fixedCall(
  script: Script,
  parts: readonly (string | number)[],
  varying: 0 | 1 | 2,
): FixedCall {
  const count = encodeCount(2 + parts.length + varying);
  const name = count + encodeParts(['EVALSHA', script.sha1]);
  return { script, count, bytes: Buffer.from(name + encodeParts(parts)), partsAt: name.length };
}

/** The call with what changes. */
export function runFixed(fixed: FixedCall, varying: readonly (string | number)[]): EncodedCommand {
  return new FixedRun(fixed, encodeParts(varying));
}

/** The same where all that changes is one text without letters beyond ASCII: each part has its price, on both sides. */
export function runPacked(fixed: FixedCall, text: string): EncodedCommand {
  return new FixedRun(fixed, `$${text.length}\r\n${text}\r\n`);
}

class FixedRun implements EncodedCommand {
  readonly name = 'evalsha';
  readonly bytes: string;
  readonly #fixed: FixedCall;

  constructor(fixed: FixedCall, bytes: string) {
    this.#fixed = fixed;
    this.bytes = bytes;
  }

  get head(): Buffer {
    return this.#fixed.bytes;
  }

  /** The server has forgotten its scripts (a restart, SCRIPT FLUSH): nothing was run. */
  instead({ message }: Error): EncodedCommand | undefined {
    return message.startsWith('NOSCRIPT') ? wholeCall(this.#fixed, this.bytes) : undefined;
  }
}

function wholeCall({ script, count, bytes, partsAt }: FixedCall, rest: string): EncodedCommand {
  const parts = bytes.toString('utf8', partsAt);
  return { name: 'eval', bytes: count + encodeParts(['EVAL', script.source]) + parts + rest };
}

/** Runs a script once, with these parts behind its name. */
export function runScript(script: Script, parts: readonly (string | number)[]): EncodedCommand {
  return new FixedRun(fixedCall(script, parts, 0), '');
}

/** The same with the script itself, which the server knows from then on. */
export function runWhole(script: Script, parts: readonly (string | number)[]): EncodedCommand {
  return wholeCall(fixedCall(script, parts, 0), '');
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
