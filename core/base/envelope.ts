import { randomBytes } from 'node:crypto';
import { type Static, type TSchema, Type } from 'typebox';
import { Value } from 'typebox/value';
import type { Clock } from '../ports/clock.ts';
import type { SecretBox } from '../ports/secret-managers.ts';

const nameBytes = 16;

const Content = Type.Object({
  id: Type.String({ maxLength: 64 }),
  /** Milliseconds since the epoch; absent for never. */
  until: Type.Optional(Type.Number()),
  value: Type.Unknown(),
});

/** What an envelope holds. */
interface Opened<T> {
  /** Random, of this envelope alone. */
  readonly id: string;
  /** End of its time, in milliseconds since the epoch; Infinity for none. */
  readonly until: number;
  readonly value: T;
}

/** A new random name, of characters that need no escaping in URLs and cookies. */
export function randomName(): string {
  return randomBytes(nameBytes).toString('base64url');
}

/**
 * Values that leave the gateway sealed and come back later; every gateway with the same secret key opens them. A text that
 * was sealed for one purpose does not open for another one.
 */
export class Envelopes {
  readonly #secrets: SecretBox;
  readonly #clock: Clock;
  readonly #longest: number;

  /** `longest`: longest text that is opened, in characters. */
  constructor(
    { secrets, clock }: { readonly secrets: SecretBox; readonly clock: Clock },
    { longest }: { readonly longest: number },
  ) {
    this.#secrets = secrets;
    this.#clock = clock;
    this.#longest = longest;
  }

  /**
   * Characters that need no escaping in URLs and cookies. Without `lifetimeMs`, in milliseconds, the text opens as long as
   * the secret key is known.
   */
  seal<T extends object>(purpose: string, value: T, lifetimeMs = Infinity): Opened<T> & { text: string } {
    const id = randomName();
    const until = this.#clock.now() + lifetimeMs;
    const content = { id, ...(until !== Infinity && { until }), value };
    return { id, until, value, text: this.#secrets.seal(JSON.stringify(content), purpose) };
  }

  /** The content; undefined for a text that was not sealed here for this purpose, or whose time is over. */
  open<T extends TSchema>(
    purpose: string,
    text: string | undefined,
    schema: T,
  ): Opened<Static<T>> | undefined {
    if (text === undefined || text === '' || text.length > this.#longest) return undefined;
    let content: unknown;
    try {
      content = JSON.parse(this.#secrets.open(text, purpose));
    } catch {
      return undefined;
    }
    if (!Value.Check(Content, content) || !Value.Check(schema, content.value)) return undefined;
    const { id, value, until = Infinity } = content;
    return this.#clock.now() < until ? { id, until, value } : undefined;
  }
}
