/** Requests without a connection: assembled from their parts, and answered into memory. */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { joinChunks } from '../base/bytes.ts';
import type { HeaderList } from '../ports/header-list.ts';

/** Parts of a request. */
interface LocalParts {
  readonly method: string;
  /** Includes the query. */
  readonly path: string;
  /** Without those of the body's length and coding. */
  readonly headers: HeaderList;
  readonly body: Buffer;
}

/** A request whose body is complete. */
export function localMessage({ method, path, headers, body }: LocalParts): IncomingMessage {
  const message = new IncomingMessage(new Socket());
  message.method = method;
  message.url = path;
  const all = [...headers, 'content-length', String(body.length)];
  const names = all.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
  if (!names.includes('content-type')) all.push('content-type', 'application/json');
  message.rawHeaders = all;
  for (let at = 0; at < all.length; at += 2) message.headers[(all[at] ?? '').toLowerCase()] = all[at + 1];
  if (body.length > 0) message.push(body);
  message.push(null);
  message.complete = true;
  return message;
}

/** An answer that stays in memory. `close` follows its end, or `destroy`. */
export class LocalResponse extends ServerResponse {
  readonly #maxBytes: number;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  /** It ended within the bound. */
  isWhole = false;
  /** It exceeded the bound. */
  isTooLong = false;

  constructor(message: IncomingMessage, maxBytes: number) {
    super(message);
    this.#maxBytes = maxBytes;
  }

  get body(): Buffer {
    return joinChunks(this.#chunks);
  }

  override writeHead(status: number): this {
    this.statusCode = status;
    return this;
  }

  override flushHeaders(): void {
    // No client waits for them.
  }

  override write(chunk: unknown, encoding?: unknown): boolean {
    const bytes = Buffer.isBuffer(chunk)
      ? chunk
      : Buffer.from(String(chunk), encoding === 'latin1' ? 'latin1' : 'utf8');
    this.#bytes += bytes.length;
    if (this.#bytes > this.#maxBytes) {
      this.isTooLong = true;
      this.destroy();
    } else this.#chunks.push(bytes);
    return true;
  }

  override end(chunk?: unknown, encoding?: unknown): this {
    if (chunk !== undefined && chunk !== null && typeof chunk !== 'function') this.write(chunk, encoding);
    this.isWhole = !this.isTooLong;
    queueMicrotask(() => {
      this.emit('finish');
      this.emit('close');
    });
    return this;
  }

  override destroy(): this {
    if (this.destroyed) return this;
    this.destroyed = true;
    queueMicrotask(() => this.emit('close'));
    return this;
  }
}
