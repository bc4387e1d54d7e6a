import type { Asking, GatewayProcess } from './gateway-process.ts';

/** How much a `SteadyLoad` asks. */
interface LoadOptions {
  /** Requests started each second. Default 50. */
  readonly perSecond?: number;
  /** Streams that are open at any time. Default 4. */
  readonly streams?: number;
  readonly asking?: Asking;
}

const maxInFlight = 64;

/** Steady requests and always-open streams until it is stopped; whatever does not end well is kept. */
export class SteadyLoad {
  /** What failed, in words. */
  readonly failures: string[] = [];
  /** Requests that were answered with 200, whole. */
  answered = 0;
  /** Streams that came to their end marker. */
  streamed = 0;
  readonly #gateway: GatewayProcess;
  readonly #asking: Asking;
  readonly #timer: NodeJS.Timeout;
  readonly #streams: Promise<void>[];
  readonly #inFlight = new Set<Promise<void>>();
  #running = true;

  constructor(gateway: GatewayProcess, { perSecond = 50, streams = 4, asking = {} }: LoadOptions = {}) {
    this.#gateway = gateway;
    this.#asking = asking;
    this.#timer = setInterval(() => this.#send(), 1000 / perSecond);
    this.#streams = Array.from({ length: streams }, (_, index) => this.#stream(20 + 5 * index));
  }

  /** Starts nothing more, and resolves when everything has ended. */
  async stop(): Promise<void> {
    this.#running = false;
    clearInterval(this.#timer);
    await Promise.all([...this.#inFlight, ...this.#streams]);
  }

  #send(): void {
    if (this.#inFlight.size >= maxInFlight) return;
    const request = this.#request().finally(() => this.#inFlight.delete(request));
    this.#inFlight.add(request);
  }

  async #request(): Promise<void> {
    try {
      const { status, text } = await this.#gateway.ask(this.#asking);
      if (status === 200 && text.includes('"finish_reason":"stop"')) this.answered += 1;
      else this.failures.push(`a request: ${status} ${text}`);
    } catch (error) {
      this.failures.push(`a request: ${describe(error)}`);
    }
  }

  async #stream(tokens: number): Promise<void> {
    while (this.#running) {
      try {
        const model = `mock:tokens=${tokens},chunk_latency_ms=40`;
        const { status, text } = await this.#gateway.ask({ ...this.#asking, model, stream: true });
        if (status === 200 && /"finish_reason":"stop"[^]*data: \[DONE\]\n\n$/.test(text)) this.streamed += 1;
        else this.failures.push(`a stream: ${status} ${text}`);
      } catch (error) {
        this.failures.push(`a stream: ${describe(error)}`);
      }
    }
  }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}
