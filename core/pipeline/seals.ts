import type { Static, TSchema } from 'typebox';
import { Envelopes } from '../base/envelope.ts';
import type { Scope } from './plugin.ts';

/** What a sealed text is for: one for another purpose does not open. */
type Purpose = 'ticket' | 'browser' | 'state' | 'client' | 'consent' | 'code' | 'refresh';

/** Longest sealed text that is opened. */
const longestSealed = 24_576;
const longestLifeMs = 900_000;

/**
 * Keeps nothing: what has to be remembered between two requests leaves the gateway, sealed, and comes back with the next
 * one. Any gateway with the same secret key goes on with it.
 */
export class Seals {
  readonly #envelopes: Envelopes;
  readonly #counters: Scope['counters'];
  readonly #owner: string;

  /** `owner`: texts of another one do not open. */
  constructor(scope: Pick<Scope, 'secrets' | 'clock' | 'counters'>, owner: string) {
    this.#envelopes = new Envelopes(scope, { longest: longestSealed });
    this.#counters = scope.counters;
    this.#owner = owner;
  }

  /**
   * Characters that need no escaping in URLs and cookies. `lifetimeMs`: 15 minutes at the most; without one the text opens
   * as long as the secret key is known, and cannot be spent.
   */
  seal(purpose: Purpose, value: object, lifetimeMs?: number): string {
    const ms = lifetimeMs === undefined ? undefined : Math.min(lifetimeMs, longestLifeMs);
    return this.#envelopes.seal(this.#context(purpose), value, ms).text;
  }

  /** The value; undefined for a text that was not sealed here for this purpose, or whose time is over. */
  open<T extends TSchema>(
    purpose: Purpose,
    text: string | undefined,
    schema: T,
  ): { readonly id: string; readonly value: Static<T> } | undefined {
    return this.#envelopes.open(this.#context(purpose), text, schema);
  }

  /**
   * True the first time for this id: for all gateways that share `storage.counters`, and for this process where there
   * is no shared store, or it does not answer.
   */
  async spend(id: string): Promise<boolean> {
    // The same length every time: a window of another length counts for itself.
    const window = { key: `mcp-seal:${id}`, group: 'mcp-seal', limit: 1, windowMs: longestLifeMs };
    return (await this.#counters.take([window], 1, 'local')).allowed;
  }

  #context(purpose: Purpose): string {
    return `mcp-seal/${purpose}/${this.#owner}`;
  }
}
