import { readFile } from 'node:fs/promises';
import { type Provider, updatePrices } from '@pydantic/genai-prices';
import { writeDurably } from '../../core/base/durable-file.ts';
import { sha256 } from '../../core/base/bytes.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import type { Log } from '../../core/ports/log.ts';
import type { GuardedFetch } from '../../core/ports/transport.ts';

const freshForMs = 3_600_000;
const firstRetryMs = 60_000;
const timeoutMs = 30_000;
const maxBytes = 20_000_000;
/** Data with fewer kinds of providers count as an error. */
const fewestProviders = 5;

/** Source of price data. */
interface PriceSource {
  readonly url: string;
  readonly fetch: GuardedFetch;
}

/** Options of `openPriceData`. */
interface PriceDataOptions {
  /** Copy of the most recently read data, for a start without the address. */
  readonly file: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Called with the edition of the data that is in use from now on. */
  readonly changed: (edition: string) => void;
}

/**
 * Uses the copy stored by a gateway, if there is one, and returns its edition. For commands that run beside gateways or
 * without them.
 */
export async function usePriceCopy(file: string): Promise<string | undefined> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch {
    return undefined;
  }
  return takeData(text).edition;
}

/** Price data that follows an address. */
interface PriceData {
  /** Sets the source; undefined: the present data stay in use until the next start. */
  use(source: PriceSource | undefined): void;
  close(): void;
}

/**
 * Keeps the price data in memory for an hour, and then reads the next source: the address; while that fails, the copy
 * of the most recently read data; without one, the data of the installed package. After a failure, the address is read
 * again after one minute, two, four … up to an hour.
 */
export function openPriceData(options: PriceDataOptions): PriceData {
  return new FollowedPriceData(options);
}

class FollowedPriceData implements PriceData {
  readonly #options: PriceDataOptions;
  #source: PriceSource | undefined;
  #etag = '';
  #edition = '';
  #retryMs = firstRetryMs;
  #cancel: () => void = () => undefined;
  #isClosed = false;

  constructor(options: PriceDataOptions) {
    this.#options = options;
  }

  use(source: PriceSource | undefined): void {
    const isSame = source?.url === this.#source?.url;
    this.#source = source;
    if (isSame) return;
    this.#cancel();
    this.#etag = '';
    if (source !== undefined) void this.#read();
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  async #read(): Promise<void> {
    const source = this.#source;
    if (source === undefined) return;
    let waitMs = freshForMs;
    try {
      await this.#fetch(source);
      this.#retryMs = firstRetryMs;
    } catch (error) {
      waitMs = this.#retryMs;
      this.#retryMs = Math.min(2 * this.#retryMs, freshForMs);
      const kept = this.#edition !== '' || (await this.#readCopy());
      this.#options.log.warn(
        `Price data cannot be read; ${kept ? 'what was read last' : 'the data of the installed version'} is used until it can`,
        { error },
      );
    }
    // Another address has its own fetch.
    if (this.#isClosed || this.#source?.url !== source.url) return;
    this.#cancel = this.#options.clock.after(waitMs, () => void this.#read());
  }

  async #fetch({ url, fetch }: PriceSource): Promise<void> {
    const headers = ['accept', 'application/json'];
    if (this.#etag !== '') headers.push('if-none-match', this.#etag);
    const {
      status,
      headers: answered,
      body,
    } = await fetch.fetch({ url, headers, timeoutMs, maxBytes }).answer;
    if (status === 304) return;
    if (status !== 200) throw new Error(`the address answered ${status}`);
    this.#take(body.toString('utf8'));
    this.#etag = headerValue(answered, 'etag') ?? '';
    try {
      await writeDurably(this.#options.file, body);
    } catch (error) {
      this.#options.log.warn('Price data that was read cannot be kept; it is used all the same', { error });
    }
  }

  async #readCopy(): Promise<boolean> {
    const { file, log } = this.#options;
    let text: string;
    try {
      text = await readFile(file, 'utf8');
    } catch {
      return false;
    }
    try {
      this.#take(text);
      return true;
    } catch (error) {
      log.warn('The copy of price data is damaged and is not used', { file, error });
      return false;
    }
  }

  #take(text: string): void {
    if (editionOf(text) === this.#edition) return;
    const { edition, providers } = takeData(text);
    this.#edition = edition;
    this.#options.changed(edition);
    this.#options.log.info('Price data was read', { edition, providers });
  }
}

function editionOf(text: string): string {
  return sha256(text, 'base64url').slice(0, 12);
}

/** Activates data. Throws when they are invalid; the earlier data then stay in use. */
function takeData(text: string): { readonly edition: string; readonly providers: number } {
  const data: unknown = JSON.parse(text);
  if (!isData(data)) throw new Error('it is no price data: a list of providers with models was expected');
  updatePrices(({ setProviderData }) => setProviderData(data));
  return { edition: editionOf(text), providers: data.length };
}

function isData(value: unknown): value is Provider[] {
  if (!Array.isArray(value) || value.length < fewestProviders) return false;
  return value.every((one: unknown) => {
    if (typeof one !== 'object' || one === null) return false;
    const { id, models } = one as { id?: unknown; models?: unknown };
    return typeof id === 'string' && Array.isArray(models);
  });
}
