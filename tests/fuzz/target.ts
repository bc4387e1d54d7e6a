/** One thing that is fuzzed: values for it, and what must hold for each of them. */
import fc from 'fast-check';
import { GatewayError, messageOf } from '../../core/errors/gateway-error.ts';
import { bounded } from '../../core/base/deadline.ts';
import { systemClock as clock } from '../../core/ports/clock.ts';
import type { Closing } from '../kit/postgres-kit.ts';

/** The values of a target, and its property: `check` throws, or rejects, when a value breaks it. */
interface Fuzzing<T> {
  readonly values: fc.Arbitrary<T>;
  check(value: T): void | Promise<void>;
}

/** A target that is open, ready for fast-check. */
interface OpenTarget {
  /** `began` is called before each case, with the time limit of the watchdog in mind. */
  property(began: () => void): fc.IAsyncProperty<[unknown]>;
}

/** A named target. Its resources are closed after its last case. */
export interface FuzzTarget {
  readonly name: string;
  open(closing: Closing): Promise<OpenTarget>;
}

/** Longest time of one case, in milliseconds: of CPU for what computes, of waiting for what waits. */
const slowestMs = 2000;
const longestWaitMs = 15_000;

/** Makes a target; `open` prepares what its cases share. */
export function target<T>(
  name: string,
  open: (closing: Closing) => Promise<Fuzzing<T>> | Fuzzing<T>,
): FuzzTarget {
  return {
    name,
    async open(closing) {
      const { values, check } = await open(closing);
      return {
        property: (began) =>
          fc.asyncProperty(values, async (value) => {
            began();
            await timed(() => check(value));
          }),
      };
    },
  };
}

const late = (): Error => new Error(`It did not end within ${longestWaitMs} ms.`);

async function timed(run: () => void | Promise<void>): Promise<void> {
  const before = process.cpuUsage();
  const running = run();
  if (running !== undefined) return bounded(() => running, { clock, ms: longestWaitMs, late });
  const { user } = process.cpuUsage(before);
  if (user > slowestMs * 1000) throw new Error(`It took ${Math.round(user / 1000)} ms of CPU.`);
}

/**
 * The result, or undefined for a refusal on purpose: a GatewayError that is not the gateway's own failure and whose
 * message is bounded. Every other thrown value is a finding.
 */
export function unlessRefused<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    if (!GatewayError.is(error)) throw error;
    if (error.code === 'internal' || error.code.startsWith('plugin_'))
      throw new Error(`It ends in ${error.code}: ${error.message}`, { cause: error });
    // A message of a provider passes on unchanged.
    if (error.source === 'gateway' && error.message.length > 4001)
      throw new Error(`The message has ${error.message.length} characters.`, { cause: error });
    return undefined;
  }
}

/** Fails with a sentence; unlike an assertion, it compares nothing, so that it costs nothing for large values. */
export function must(holds: boolean, sentence: string | (() => string)): void {
  if (!holds) throw new Error(typeof sentence === 'string' ? sentence : sentence());
}

/** A case for people: JSON, with bytes as text or base64, and integers beyond JSON as text. */
export function caseText(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => {
    if (typeof member === 'bigint') return `${member}n`;
    if (!(member instanceof Uint8Array))
      return isBytes(member) ? bytesText(Buffer.from(member.data)) : member;
    return bytesText(Buffer.from(member));
  });
}

/** What `toJSON` of a Buffer leaves. */
function isBytes(value: unknown): value is { readonly data: readonly number[] } {
  return (
    Object(value) === value && (value as { type?: unknown }).type === 'Buffer' && 'data' in (value as object)
  );
}

function bytesText(bytes: Buffer): object {
  const text = bytes.toString('latin1');
  return /^[\x20-\x7e\s]*$/.test(text) ? { bytes: text } : { base64: bytes.toString('base64') };
}

/** The first line of an error, and where it was thrown. */
export function failureText(error: unknown): string {
  return error instanceof Error
    ? (error.stack ?? messageOf(error)).split('\n').slice(0, 12).join('\n')
    : messageOf(error);
}
