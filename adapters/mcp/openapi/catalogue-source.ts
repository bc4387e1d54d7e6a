import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { startThread } from '../../../core/base/start-thread.ts';
import { GatewayError, withFullStop } from '../../../core/errors/gateway-error.ts';
import type { Log } from '../../../core/ports/log.ts';
import type { McpTarget } from '../../../core/ports/mcp.ts';
import { ApiCall, type CallSurroundings } from './api-call.ts';
import type { Catalogue, CatalogueSettings } from './catalogue.ts';
import type { ReadDocument, ReadOrder } from './read-document.ts';

export type OpenapiTarget = Extract<McpTarget, { readonly type: 'openapi' }>;

/** Bounds of a document and of its reading. */
const maxBytes = 8_388_608;
const fetchTimeoutMs = 30_000;
const readTimeoutMs = 60_000;
const maxMegabytes = 768;
/** Pauses between attempts after failures: the first, and the longest one. */
const firstPauseMs = 1_000;
const longestPauseMs = 300_000;

/** Parts of the gateway that the source needs. */
export interface SourceSurroundings extends CallSurroundings {
  readonly log: Log;
}

/**
 * The tools of one document. It is read with the first call of `get`, once; after a failure again, with pauses that grow
 * from a second to five minutes, in which the failure is repeated.
 */
export class CatalogueSource {
  readonly #target: OpenapiTarget;
  readonly #around: SourceSurroundings;
  #reading: Promise<Catalogue> | undefined;
  #failures = 0;
  /** When a failure is over; undefined without one. By the monotonic clock. */
  #retryAt: number | undefined;
  #end: ((error: GatewayError) => void) | undefined;

  constructor(target: OpenapiTarget, around: SourceSurroundings) {
    this.#target = target;
    this.#around = around;
  }

  /** Rejects with `mcp_failed`, which names the mistake in the document. */
  get(): Promise<Catalogue> {
    if (this.#retryAt !== undefined && this.#retryAt <= this.#around.clock.monotonic())
      this.#reading = undefined;
    if (this.#reading === undefined) {
      this.#retryAt = undefined;
      this.#reading = this.#read();
    }
    return this.#reading;
  }

  /** Ends the reading that is under way. */
  close(): void {
    this.#end?.(new GatewayError('shutting_down', 'The gateway is shutting down; send the request again.'));
  }

  async #read(): Promise<Catalogue> {
    const { log, clock } = this.#around;
    const { name: server, document } = this.#target;
    try {
      const bytes = isUrl(document) ? await this.#fetched(new URL(document)) : await fileBytes(document);
      const catalogue = await this.#understood(bytes);
      this.#failures = 0;
      const { tools, leftOut } = catalogue;
      if (leftOut.length > 0) log.warn('Operations of an API are no tools', { server, document, leftOut });
      log.info('An API is served as tools', { server, tools: tools.length });
      return catalogue;
    } catch (error) {
      const pause = Math.min(longestPauseMs, firstPauseMs * 2 ** this.#failures);
      this.#failures += 1;
      this.#retryAt = clock.monotonic() + pause;
      const failure = documentFailure(server, error);
      log.warn('The OpenAPI document of an MCP server cannot be used', {
        server,
        document,
        message: failure.message,
        cause: failure.cause,
        retryInMs: pause,
      });
      throw failure;
    } finally {
      this.#end = undefined;
    }
  }

  async #fetched(url: URL): Promise<Buffer> {
    const { baseUrl, headers } = this.#target;
    // Credentials go to the API alone, and a document may be elsewhere.
    const isOfApi = baseUrl !== undefined && new URL(baseUrl).origin === url.origin;
    const accept = 'application/json, application/yaml;q=0.9, */*;q=0.5';
    const call = new ApiCall(
      {
        place: { url, guarded: false },
        method: 'GET',
        path: url.pathname + url.search,
        headers: ['user-agent', 'weir', 'accept', accept, ...(isOfApi ? headers : [])],
        body: null,
        headTimeoutMs: fetchTimeoutMs,
        idleTimeoutMs: fetchTimeoutMs,
        timeoutMs: fetchTimeoutMs,
        maxBytes,
      },
      this.#around,
    );
    this.#end = (error) => call.abort(error);
    const { status, body } = await call.answer;
    if (status === 200) return body;
    const remedy =
      status === 401 || status === 403
        ? 'its "headers" are sent for the document when "base_url" has the same origin'
        : 'give the URL that answers with the document itself';
    throw new Unusable(`its URL answered ${status}; ${remedy}`);
  }

  async #understood(bytes: Buffer): Promise<Catalogue> {
    const { document, baseUrl, include, exclude, maxTools, headers } = this.#target;
    const settings: CatalogueSettings = {
      documentUrl: isUrl(document) ? document : undefined,
      baseUrl,
      include,
      exclude,
      maxTools,
      headerNames: headers.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase()),
    };
    const told = await this.#askThread({ bytes: Uint8Array.from(bytes), settings });
    if ('mistake' in told) throw new Unusable(told.mistake);
    return told.catalogue;
  }

  async #askThread(order: ReadOrder): Promise<ReadDocument> {
    const { clock } = this.#around;
    const worker = startThread(new URL('./read-document.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: maxMegabytes },
    });
    worker.unref();
    let cancelTimer: () => void = () => undefined;
    try {
      return await new Promise<ReadDocument>((resolve, reject) => {
        this.#end = reject;
        cancelTimer = clock.after(readTimeoutMs, () =>
          reject(new Unusable(`it takes more than ${readTimeoutMs / 1000} seconds to read; make it smaller`)),
        );
        worker.once('message', resolve);
        worker.once('error', reject);
        worker.once('exit', () => reject(new Error('The thread that reads the document ended.')));
        worker.postMessage(order);
      });
    } finally {
      cancelTimer();
      await worker.terminate();
    }
  }
}

/** A document that cannot be used, in words that continue "cannot be used: ". */
class Unusable extends Error {}

function documentFailure(server: string, cause: unknown): GatewayError {
  if (GatewayError.is(cause) && cause.code === 'shutting_down') return cause;
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  const reason =
    cause instanceof Unusable || GatewayError.is(cause)
      ? cause.message
      : code === 'ERR_WORKER_OUT_OF_MEMORY'
        ? `it takes more than ${maxMegabytes} MiB of memory to read; make it smaller`
        : 'it cannot be read';
  const message = withFullStop(`The OpenAPI document of "${server}" cannot be used: ${reason}`);
  return new GatewayError('mcp_failed', message, { cause });
}

function isUrl(document: string): boolean {
  return /^https?:\/\//i.test(document);
}

const fileReasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file; check "document"',
  EACCES: 'the gateway may not read the file; check its permissions',
  ENOTDIR: 'a part of its path is no folder; check "document"',
};

async function fileBytes(path: string): Promise<Buffer> {
  try {
    // Without waiting for the other end of a pipe.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const facts = await file.stat();
      if (!facts.isFile()) throw new Unusable('"document" is no file');
      if (facts.size > maxBytes) throw new Unusable(`it is larger than ${maxBytes} bytes; make it smaller`);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(facts.size), 0, facts.size, 0);
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    const reason = fileReasons[code];
    if (reason === undefined) throw error;
    throw new Unusable(reason);
  }
}
