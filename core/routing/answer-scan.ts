import type { Transform } from 'node:stream';
import { createDecoder, decodeWhole, type Coding } from '../connection/content-encoding.ts';
import type { AnswerFacts, StreamScanner, UsageStripper } from '../dialects/dialect.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { learnFacts } from './learn-facts.ts';
import { isStreamType } from './stream-type.ts';

/** Copies of answers that are kept for scanning stay under this; a longer one goes unscanned. */
const maxScanBytes = 1024 * 1024;
/** Compressed bytes of a stream that may wait to be decoded for the scan. */
const maxBacklogBytes = 4 * 1024 * 1024;
/** A compressed copy may grow to this. */
const maxDecodedBytes = 16 * 1024 * 1024;

/**
 * Reads usage, model and finish reason from an answer beside its way to the client. The bytes that leave are
 * never touched, except that the one usage event which the gateway asked for is taken out again.
 */
export class AnswerScan {
  private readonly exchange: Exchange;
  private readonly coding: Coding | 'identity' | 'unknown';
  private readonly scanner: StreamScanner | undefined;
  private readonly decoder: Transform | undefined;
  private readonly stripper: UsageStripper | undefined;
  private readonly keepsCopy: boolean;
  private copy: Buffer[] = [];
  private copied = 0;
  private decodedToken = false;

  constructor(
    exchange: Exchange,
    contentType: string,
    coding: Coding | 'identity' | 'unknown',
    stripUsage: boolean,
  ) {
    this.exchange = exchange;
    this.coding = coding;
    const { dialect, endpoint } = exchange;
    const eventStream = isStreamType(exchange, contentType);
    this.keepsCopy = !eventStream && contentType.includes('json') && coding !== 'unknown';
    if (!eventStream || coding === 'unknown') return;
    this.scanner = dialect.streamScanner(endpoint.id);
    if (coding === 'identity') this.stripper = stripUsage ? dialect.usageStripper?.() : undefined;
    else this.decoder = this.decodeCopy(createDecoder(coding), this.scanner);
  }

  /** Bytes leave through `strip` instead of as they are. */
  get strips(): boolean {
    return this.stripper !== undefined;
  }

  /** `push` will tell when a token comes. */
  get tellsTokens(): boolean {
    return this.scanner !== undefined;
  }

  /** Returns true once a token has been seen. */
  push(chunk: Buffer): boolean {
    if (this.decoder) {
      // A copy that falls far behind its original would fill the memory: then usage stays unknown.
      if (this.decoder.writableLength > maxBacklogBytes) this.decoder.destroy();
      else this.decoder.write(chunk);
      return this.decodedToken;
    }
    if (this.scanner) return this.scanner.scan(chunk);
    if (this.keepsCopy && this.copied <= maxScanBytes) {
      this.copied += chunk.length;
      this.copy.push(chunk);
    }
    return false;
  }

  strip(chunk: Buffer): Buffer | undefined {
    return this.stripper?.push(chunk);
  }

  stripRest(): Buffer | undefined {
    return this.stripper?.finish();
  }

  /** A collected answer, at once. Returns what it tells; undefined when it has to be decoded first. */
  pushWhole(body: Buffer): AnswerFacts | undefined {
    if (this.coding === 'identity') {
      const { exchange } = this;
      const found = exchange.dialect.scanAnswer(exchange.endpoint.id, body);
      // Large embeddings are scanned around their vectors and not parsed; for the others usage proves a whole parse.
      exchange.answerIsJson = found.usage !== undefined && exchange.endpoint.id !== 'embeddings';
      learnFacts(this.exchange, found);
      return found;
    }
    if (this.coding !== 'unknown') this.learnLater(body, this.coding);
    return undefined;
  }

  /** The stream is over, however it ended. */
  finish(): void {
    if (this.decoder) this.decoder.end();
    else if (this.scanner) learnFacts(this.exchange, this.scanner.facts);
    else if (this.copied > 0 && this.copied <= maxScanBytes) this.pushWhole(Buffer.concat(this.copy));
    this.copy = [];
  }

  private decodeCopy(decoder: Transform, scanner: StreamScanner): Transform {
    decoder.on('data', (chunk: Buffer) => {
      if (scanner.scan(chunk)) this.decodedToken = true;
    });
    // The answer has left as it came; a copy that cannot be decoded only means that nothing is known of it.
    this.exchange.pendingFacts = new Promise((resolve) => {
      const done = (): void => {
        learnFacts(this.exchange, scanner.facts);
        resolve();
      };
      decoder.once('end', done).once('error', done).once('close', done);
    });
    return decoder;
  }

  private learnLater(body: Buffer, coding: Coding): void {
    const { dialect, endpoint } = this.exchange;
    this.exchange.pendingFacts = decodeWhole(body, coding, maxDecodedBytes).then(
      (decoded) => learnFacts(this.exchange, dialect.scanAnswer(endpoint.id, decoded)),
      () => undefined,
    );
  }
}
