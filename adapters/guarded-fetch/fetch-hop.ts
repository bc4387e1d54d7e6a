import { GatewayError } from '../../core/errors/gateway-error.ts';
import { headerValue, type HeaderList } from '../../core/ports/header-list.ts';
import type { GuardedAnswer } from '../../core/ports/guarded-fetch.ts';
import { fetchFailed, networkFailure } from './fetch-errors.ts';
import { isEncoded, redirectOf, type FetchStep } from './fetch-step.ts';
import { GuardedHop, type HopSurroundings } from './guarded-hop.ts';

/** What one hop may do and whom it tells. */
export interface HopLimits extends HopSurroundings {
  readonly maxBytes: number;
  /** Asks for room in memory; false when there is none. */
  take(bytes: number): boolean;
  accept?(status: number, headers: HeaderList): void;
}

/** An answer, or where it redirects. */
export type HopResult = GuardedAnswer & { readonly location: string | undefined };

/** One request whose answer is wanted whole. `result` rejects with a `GatewayError`. */
export class FetchHop extends GuardedHop {
  readonly result: Promise<HopResult>;
  readonly #limits: HopLimits;
  #resolve: (result: HopResult) => void = () => undefined;
  #reject: (error: GatewayError) => void = () => undefined;
  #status = 0;
  #headers: HeaderList = [];
  #chunks: Buffer[] = [];
  #size = 0;

  constructor(step: FetchStep, limits: HopLimits) {
    super(step, limits);
    this.#limits = limits;
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  onHeaders(status: number, rawHeaders: Buffer[]): boolean {
    if (this.over || status < 200) return true;
    this.#status = status;
    this.#headers = rawHeaders.map((one) => one.toString('latin1'));
    const location = redirectOf(status, this.#headers);
    if (location !== undefined) this.#succeed(Buffer.alloc(0), location);
    else this.#judgeHead();
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.over) return true;
    this.#size += chunk.length;
    if (this.#size > this.#limits.maxBytes) this.fail(this.#tooLarge());
    else if (!this.#limits.take(chunk.length)) this.fail(this.#noRoom());
    else this.#chunks.push(chunk);
    return true;
  }

  onComplete(): void {
    if (!this.over) this.#succeed(Buffer.concat(this.#chunks), undefined);
  }

  onError(cause: unknown): void {
    this.fail(networkFailure(this.host, cause));
  }

  #judgeHead(): void {
    if (isEncoded(this.#headers)) {
      this.fail(fetchFailed(this.host, 'it sends compressed bytes where plain ones were asked for'));
      return;
    }
    const announced = Number(headerValue(this.#headers, 'content-length') ?? 0);
    if (announced > this.#limits.maxBytes && this.step.method !== 'HEAD') {
      this.fail(this.#tooLarge());
      return;
    }
    try {
      this.#limits.accept?.(this.#status, this.#headers);
    } catch (error) {
      this.fail(
        GatewayError.is(error) ? error : fetchFailed(this.host, 'its answer was not accepted', error),
      );
    }
  }

  #tooLarge(): GatewayError {
    return fetchFailed(this.host, `it is larger than ${this.#limits.maxBytes} bytes`);
  }

  #noRoom(): GatewayError {
    return fetchFailed(this.host, 'the gateway holds as many fetched bytes as it may; try again shortly');
  }

  #succeed(body: Buffer, location: string | undefined): void {
    this.close();
    this.#resolve({ status: this.#status, headers: this.#headers, body, location });
  }

  protected fail(error: GatewayError): void {
    if (this.over) return;
    this.close();
    this.#reject(error);
  }

  protected override close(): void {
    super.close();
    this.#chunks = [];
  }
}
