import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import { parseObject } from '../dialects/json-reading.ts';
import { ReadFailure } from './secret-source.ts';

/** Longest secret: 64 KiB, the limit of AWS. */
export const maxSecretBytes = 65_536;

/** At this age a value is renewed in the background … */
const renewAfterMs = 240_000;
/** … and at this age requests wait for a new one. */
const retireAfterMs = 300_000;
/** Except while the manager is unavailable: then the value is used for up to a day. */
const keepAfterMs = 86_400_000;
/** Pause before an unavailable manager is called again; without a usable value, one second. */
const awayHoldMs = 10_000;
const failureHoldMs = 1_000;
const maxMembers = 64;

/** Dependencies and settings of a held secret. */
interface HeldSecretOptions {
  readonly clock: Clock;
  /** Log with the name of the reference. */
  readonly log: Log;
}

type Read = () => Promise<string>;

/** One secret, cached and renewed. Only one read runs at a time; all waiting callers share it. */
export class HeldSecret {
  readonly #clock: Clock;
  readonly #log: Log;
  #value: SecretValue | undefined;
  #pending: Promise<SecretValue> | undefined;
  #failure: { readonly error: GatewayError; readonly atMs: number; readonly isAway: boolean } | undefined;

  constructor({ clock, log }: HeldSecretOptions) {
    this.#clock = clock;
    this.#log = log;
  }

  /** The value, synchronously when a usable one is cached; else a promise, which rejects with `credentials_failed`. */
  get(read: Read): SecretValue | Promise<SecretValue> {
    const value = this.#value;
    if (value === undefined) return this.#renew(read);
    const age = this.#ageOf(value);
    if (age < renewAfterMs) return value;
    const renewed = this.#renew(read);
    const mayStay = age < retireAfterMs || (this.#failure?.isAway === true && age < keepAfterMs);
    if (!mayStay) return renewed;
    // No request waits for this renewal; the next request that has to wait gets its error.
    renewed.catch(() => undefined);
    return value;
  }

  /**
   * Uses the clock that advanced further: the wall clock may be set back, the monotonic clock stops while the machine
   * sleeps.
   */
  #ageOf({ wallMs, monotonicMs }: SecretValue): number {
    return Math.max(this.#clock.now() - wallMs, this.#clock.monotonic() - monotonicMs);
  }

  #renew(read: Read): Promise<SecretValue> {
    const failure = this.#failure;
    const holdMs = this.#value === undefined ? failureHoldMs : awayHoldMs;
    if (failure !== undefined && this.#clock.monotonic() - failure.atMs < holdMs)
      return Promise.reject(failure.error);
    this.#pending ??= this.#readOnce(read);
    return this.#pending;
  }

  async #readOnce(read: Read): Promise<SecretValue> {
    try {
      const text = await read();
      if (Buffer.byteLength(text) > maxSecretBytes) throw tooLarge();
      if (this.#failure?.isAway === true) this.#log.info('The manager of a secret answers again');
      this.#failure = undefined;
      this.#value = new SecretValue(text, this.#clock);
      return this.#value;
    } catch (thrown) {
      return this.#failed(thrown);
    } finally {
      this.#pending = undefined;
    }
  }

  #failed(thrown: unknown): SecretValue {
    const { error, isAway } = failureOf(thrown);
    const wasAway = this.#failure?.isAway === true;
    this.#failure = { error, isAway, atMs: this.#clock.monotonic() };
    const value = this.#value;
    if (value === undefined) throw error;
    if (isAway && this.#ageOf(value) < keepAfterMs) {
      if (!wasAway) {
        this.#log.warn('The manager of a secret cannot be asked; the value from before stays in use', {
          error: error.message,
        });
      }
      return value;
    }
    this.#value = undefined;
    this.#log.warn('A secret is not used any more: its manager does not give it', { error: error.message });
    throw error;
  }
}

/** A secret value with its requested JSON members. */
class SecretValue {
  readonly text: string;
  readonly wallMs: number;
  readonly monotonicMs: number;
  readonly #members = new RecentMap<string>(maxMembers);

  constructor(text: string, clock: Clock) {
    this.text = text;
    this.wallMs = clock.now();
    this.monotonicMs = clock.monotonic();
  }

  /**
   * The member of this name, as JSON when it is not a text; the whole value for an empty name. Throws
   * `credentials_failed`.
   */
  member(name: string, path: string): string {
    if (name === '') return this.text;
    const known = this.#members.get(name);
    if (known !== undefined) return known;
    const object = parseObject(this.text);
    if (object === undefined) throw noMember(path, 'is no JSON object', name);
    const value = Object.hasOwn(object, name) ? object[name] : undefined;
    if (value === undefined || value === null) throw noMember(path, 'has no such member', name);
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    this.#members.set(name, text);
    return text;
  }
}

function failureOf(thrown: unknown): { readonly error: GatewayError; readonly isAway: boolean } {
  if (thrown instanceof ReadFailure) return thrown;
  // The manager was not reached: no token was available.
  if (GatewayError.is(thrown)) return { error: thrown, isAway: true };
  const error = new GatewayError('credentials_failed', 'A secret cannot be read.', { cause: thrown });
  return { error, isAway: true };
}

function tooLarge(): ReadFailure {
  const message = `A secret is larger than ${maxSecretBytes} bytes. Store a smaller one in its manager.`;
  return new ReadFailure(new GatewayError('credentials_failed', message), false);
}

function noMember(path: string, why: string, name: string): GatewayError {
  return new GatewayError(
    'credentials_failed',
    `The secret "${path}" ${why}, and "${name}" of it is asked for. Check secret_key.`,
  );
}
