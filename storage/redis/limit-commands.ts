import type { Window } from '../../core/ports/counters.ts';
import { type EncodedCommand, encodeCount, encodeParts, type RedisReply } from './encoded-command.ts';
import type { Script } from './limit-scripts.ts';

/** The part in braces decides the slot of a cluster: all keys of one organisation share it. */
function keyOf(organisationId: string, rest: string): string {
  return `weir:{${organisationId === '' ? '-' : encodeURIComponent(organisationId)}}:${rest}`;
}

export function windowKey({ key, group = '', windowMs }: Window): string {
  return keyOf(group, `count:${windowMs}:${key}`);
}

export function budgetKey(organisationId: string, key: string): string {
  return keyOf(organisationId, `budget:${key}`);
}

/** Key of the gateways with reservations on an organisation's budgets. */
export function gatewaysKey(organisationId: string): string {
  return keyOf(organisationId, 'gateways');
}

/** Key of all gateways. */
export const presenceKey = keyOf('', 'present');

/** Throws RangeError for a length that cannot be counted. */
export function checkLengths(windows: readonly Window[]): void {
  for (const { windowMs } of windows) {
    if (!Number.isSafeInteger(windowMs) || windowMs <= 0)
      throw new RangeError(`A window of ${windowMs} ms cannot be counted; give a whole number above zero.`);
  }
}

/** The constant part of a script's calls. */
export interface FixedCall {
  readonly script: Script;
  readonly count: string;
  /** The constant bytes of the call. */
  readonly bytes: Buffer;
  /** Position of the parts after the script's name. */
  readonly partsAt: number;
}

/** Calls of a script with these parts after its name, and a number of variable ones. */
export function fixedCall(
  script: Script,
  parts: readonly (string | number)[],
  varying: 0 | 1 | 2,
): FixedCall {
  const count = encodeCount(2 + parts.length + varying);
  const name = count + encodeParts(['EVALSHA', script.sha1]);
  return { script, count, bytes: Buffer.from(name + encodeParts(parts)), partsAt: name.length };
}

/** The call with its variable parts. */
export function runFixed(fixed: FixedCall, varying: readonly (string | number)[]): EncodedCommand {
  return new FixedRun(fixed, encodeParts(varying));
}

/** Same when the variable part is one ASCII text: each part has a cost, on both sides. */
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

  /** The server has lost its scripts (a restart, SCRIPT FLUSH): nothing was run. */
  instead({ message }: Error): EncodedCommand | undefined {
    return message.startsWith('NOSCRIPT') ? wholeCall(this.#fixed, this.bytes) : undefined;
  }
}

function wholeCall({ script, count, bytes, partsAt }: FixedCall, rest: string): EncodedCommand {
  const parts = bytes.toString('utf8', partsAt);
  return { name: 'eval', bytes: count + encodeParts(['EVAL', script.source]) + parts + rest };
}

/** Runs a script once, with these parts after its name. */
export function runScript(script: Script, parts: readonly (string | number)[]): EncodedCommand {
  return new FixedRun(fixedCall(script, parts, 0), '');
}

/** Same with the script's text, which the server caches. */
export function runWhole(script: Script, parts: readonly (string | number)[]): EncodedCommand {
  return wholeCall(fixedCall(script, parts, 0), '');
}

const space = 0x20;
const zero = 0x30;

/** The space-separated numbers of an answer, read in sequence. */
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
