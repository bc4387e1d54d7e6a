import type { AnswerFacts } from '../dialects/dialect.ts';
import type { DialectName } from '../dialects/endpoint.ts';
import { joinChunks } from '../base/bytes.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type { Duplex } from 'node:stream';
import { createDecoder, type Coding } from '../connection/content-encoding.ts';
import type { RequestFacts } from './facts.ts';

/** Where streamed bytes go. */
export interface StreamTarget {
  /** Returns false to pause the source; `resume` of the source continues it. */
  data(chunk: Buffer): boolean;
  end(): void;
  /** The source broke: the client must notice. `told`: bytes that report it on the stream's wire, when the source has them. */
  fail(error: GatewayError, told?: Buffer): void;
}

/** Bytes that are still on their way. */
export interface StreamSource {
  /** Starts the flow; called once at the most. Nothing flows before. */
  pipe(target: StreamTarget): void;
  /** Resumes a paused flow. May be called at any time: it does nothing to a flow that is not paused. */
  resume(): void;
  /** Stops the flow and releases what feeds it; the target is not called any more. */
  cancel(error: GatewayError): void;
}

/** An answer on its way to the client. */
export interface Answer {
  readonly status: number;
  readonly headers: HeaderList;
  /** Null: no body at all (HEAD, 204, 304). */
  readonly body: Buffer | StreamSource | null;
  /** Author of the answer. Default `gateway`. */
  readonly source?: 'gateway' | 'provider';
  /** The body is known to be one JSON object, so that the log need not escape it. */
  readonly isJson?: boolean;
  /** Facts that have already been read from a whole body. */
  readonly facts?: AnswerFacts;
  /** The wire format of a streamed body, when taps may read it. */
  readonly dialect?: DialectName;
  /** The provider's connection, when it switched to WebSocket (status 101, no body). */
  readonly switched?: SwitchedProvider;
}

/** Takes an answer in the place of the client that sent the request. */
export interface AnswerReceiver {
  /** Once, before everything else. `contentType` is empty for an answer without a body. */
  head(status: number, contentType: string): void;
  /** False: stop until `drained` of the diversion is called. */
  write(chunk: Buffer): boolean;
  /** The answer is whole. The last call, unless `cut` is. */
  end(): void;
  /** The rest of the answer does not come. */
  cut(): void;
}

/** A request whose answer goes elsewhere. */
export interface Diversion {
  /** The receiver has room again. */
  drained(): void;
  /** The answer is not wanted any more: as if the client had left. Nothing more is received. */
  abort(): void;
}

/** A provider's connection that has left HTTP. */
export interface SwitchedProvider {
  readonly connection: Duplex;
  /** Longest time without a byte in either direction, in milliseconds; 0 for no bound. */
  readonly idleTimeoutMs: number;
}

export function isStreamSource(body: Answer['body']): body is StreamSource {
  return body !== null && !Buffer.isBuffer(body);
}

/** Error in the log for a client that did not wait for its whole answer. */
export function clientLeft(): GatewayError {
  return new GatewayError('client_closed', 'The client left before its answer was complete.');
}

/** Error in the log for a client that accepted no byte for too long and was cut. */
export function clientStalled(): GatewayError {
  return new GatewayError('client_stalled', 'The client stopped reading its answer.');
}

/** The same stream, decompressed as it comes. */
export function decodedSource(source: StreamSource, coding: Coding): StreamSource {
  const decoder = createDecoder(coding);
  let target: StreamTarget | undefined;
  let over = false;

  const stop = (error: GatewayError): void => {
    if (over) return;
    over = true;
    decoder.destroy();
    target?.fail(error);
  };

  return {
    pipe(next) {
      target = next;
      decoder.on('data', (chunk: Buffer) => {
        if (!next.data(chunk)) decoder.pause();
      });
      decoder.on('end', () => {
        if (over) return;
        over = true;
        next.end();
      });
      decoder.on('error', (cause) => {
        const error = new GatewayError(
          'upstream_invalid',
          `The provider's answer is no valid ${coding} data.`,
          { cause, source: 'provider' },
        );
        source.cancel(error);
        stop(error);
      });
      decoder.on('drain', () => source.resume());
      source.pipe({
        data: (chunk) => decoder.write(chunk),
        end: () => void decoder.end(),
        fail: stop,
      });
    },
    resume() {
      decoder.resume();
    },
    cancel(error) {
      over = true;
      decoder.destroy();
      source.cancel(error);
    },
  };
}

/** Bytes of a replayed stream that are passed on at once. */
const replayedBytes = 16_384;

/** Bytes as a stream, at the pace of its reader. */
export class ReplayedStream implements StreamSource {
  private readonly bytes: Buffer;
  private target: StreamTarget | undefined;
  private sent = 0;
  private flowing = false;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  pipe(target: StreamTarget): void {
    this.target = target;
    this.resume();
  }

  resume(): void {
    // A target may call `resume` while it receives a chunk.
    if (this.flowing) return;
    this.flowing = true;
    let room = true;
    while (room && this.target !== undefined && this.sent < this.bytes.length) {
      const piece = this.bytes.subarray(this.sent, this.sent + replayedBytes);
      this.sent += piece.length;
      room = this.target.data(piece);
    }
    this.flowing = false;
    if (this.target === undefined || this.sent < this.bytes.length) return;
    const { target } = this;
    this.target = undefined;
    target.end();
  }

  cancel(): void {
    this.target = undefined;
  }
}

/**
 * The whole of a stream. Rejects with its failure, with `upstream_too_large` (or what `excess` says) beyond `maxBytes`, and
 * when the client leaves meanwhile.
 */
export function collectSource(
  context: { onAbort(run: () => void): () => void; readonly failure?: GatewayError | undefined },
  source: StreamSource,
  maxBytes: number,
  excess: (maxBytes: number) => GatewayError = tooLarge,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const stop = (error: GatewayError): false => {
      source.cancel(error);
      reject(error);
      return false;
    };
    const forget = context.onAbort(() => stop(context.failure ?? clientLeft()));
    source.pipe({
      data(chunk) {
        size += chunk.length;
        if (size > maxBytes) return stop(excess(maxBytes));
        chunks.push(chunk);
        return true;
      },
      end() {
        forget();
        resolve(joinChunks(chunks));
      },
      fail(error) {
        forget();
        reject(error);
      },
    });
  });
}

function tooLarge(maxBytes: number): GatewayError {
  return new GatewayError(
    'upstream_too_large',
    `The answer is larger than ${maxBytes} bytes, too large for the plugins that have to read it.`,
    { source: 'provider' },
  );
}

/** Part of an `Exchange` that these headers report. */
interface ToldRequest {
  readonly facts: RequestFacts;
  /** Flat: name, value. */
  readonly responseHeaders: readonly string[];
  /** Further prefixes of the request's own headers, beside the first. */
  readonly aliasRanks: Iterable<number> | undefined;
}

/** Names of one alias that are remembered; plugins choose some of them. */
const maxRemembered = 256;

/** The gateway's own headers of its answers. Their names are made once, not per request. */
export class AnswerHeaders {
  readonly requestId: string;
  readonly traceId: string;
  private readonly provider: string;
  private readonly cacheStatus: string;
  private readonly retries: string;
  private readonly option: string;
  private readonly aliases: readonly AliasSpelling[];

  /** `prefixes` are the gateway's own, each with its dash (`x-service-`), the preferred one first. */
  constructor(prefixes: readonly string[]) {
    const [prefix = ''] = prefixes;
    this.requestId = `${prefix}request-id`;
    this.traceId = `${prefix}trace-id`;
    this.provider = `${prefix}provider`;
    this.cacheStatus = `${prefix}cache-status`;
    this.retries = `${prefix}retry-attempt-count`;
    this.option = `${prefix}last-used-option-index`;
    this.aliases = prefixes.map((alias) => new AliasSpelling(prefix, alias));
  }

  /**
   * Adds the headers of every answer of this request to a list: those that were set for it, then, once a provider has
   * been chosen, its outcome. A request whose own headers came under an alias gets all of them under the alias as well.
   */
  append({ facts, responseHeaders, aliasRanks }: ToldRequest, list: string[]): void {
    const start = list.length;
    const { cacheStatus } = this;
    const isProxied = facts.provider !== '';
    for (let i = 0; i < responseHeaders.length; i += 2) {
      const name = responseHeaders[i] as string;
      // Added once, from the facts: each attempt has its own verdict, and the last one counts.
      if (isProxied && name === cacheStatus) continue;
      list.push(name, responseHeaders[i + 1] as string);
    }
    if (isProxied) {
      list.push(this.provider, facts.provider, cacheStatus, facts.cacheStatus || 'DISABLED');
      list.push(this.retries, String(facts.retries), this.option, facts.option);
    }
    if (aliasRanks === undefined) return;
    const end = list.length;
    for (const rank of aliasRanks) this.aliases[rank]?.repeat(list, start, end);
  }
}

/** The same headers under another prefix. */
class AliasSpelling {
  private readonly prefix: string;
  private readonly alias: string;
  private readonly known = new Map<string, string | undefined>();

  constructor(prefix: string, alias: string) {
    this.prefix = prefix;
    this.alias = alias;
  }

  repeat(list: string[], from: number, to: number): void {
    for (let i = from; i < to; i += 2) {
      const name = this.of(list[i] as string);
      if (name !== undefined) list.push(name, list[i + 1] as string);
    }
  }

  /** Undefined for a name that is not under the gateway's prefix. */
  private of(name: string): string | undefined {
    if (this.known.has(name)) return this.known.get(name);
    const own = name.toLowerCase().startsWith(this.prefix);
    const spelling = own ? this.alias + name.slice(this.prefix.length) : undefined;
    if (this.known.size < maxRemembered) this.known.set(name, spelling);
    return spelling;
  }
}
