import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Deadline } from '../../core/base/deadline.ts';
import type { HeaderList } from '../../core/ports/header-list.ts';
import type {
  UpgradeAnswer,
  UpgradeCall,
  UpstreamCall,
  UpstreamRequest,
} from '../../core/ports/transport.ts';
import type { Connection } from './connection.ts';
import { type HttpCallEnvironment, toHeaderList, wireHeaders } from './http-call.ts';
import type { OriginPool } from './origin-pool.ts';
import { answerTimedOut, connectTimedOut, transportError, type FailurePlace } from './transport-errors.ts';

/** Upper bound of an HTTP answer to a WebSocket upgrade, in bytes. */
const maxDeclinedBytes = 1_048_576;

/** `open`: the protocol was switched, and the connection is open. */
type UpgradePhase = 'connecting' | 'head' | 'body' | 'open' | 'done';

/**
 * One WebSocket upgrade request, always on a connection of its own. It counts as a call to its origin until the
 * switched connection has closed.
 */
export class HttpUpgrade implements UpgradeCall, UpstreamCall, Dispatcher.DispatchHandler {
  readonly answer: Promise<UpgradeAnswer>;
  readonly #request: UpstreamRequest;
  readonly #pool: OriginPool;
  readonly #environment: HttpCallEnvironment;
  readonly #deadline: Deadline;
  readonly #connection: Connection;
  #resolve: (answer: UpgradeAnswer) => void = () => undefined;
  #reject: (error: GatewayError) => void = () => undefined;
  #phase: UpgradePhase = 'connecting';
  #switched: Duplex | undefined;
  #status = 0;
  #headers: HeaderList = [];
  #chunks: Buffer[] = [];
  #receivedBytes = 0;

  constructor(request: UpstreamRequest, pool: OriginPool, environment: HttpCallEnvironment) {
    this.#request = request;
    this.#pool = pool;
    this.#environment = environment;
    this.#deadline = environment.deadlines.create(() => this.#timedOut());
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#connection = pool.open();
    this.#connection.call = this;
    pool.pending += 1;
  }

  start(): void {
    const { method, path, headers, connectTimeoutMs } = this.#request;
    this.#deadline.set(connectTimeoutMs);
    this.#connection.dispatch(
      { method, path, headers: wireHeaders(headers, true) as string[], body: null, upgrade: 'websocket' },
      this,
    );
  }

  resume(): void {
    // It never pauses: an HTTP answer is collected, and a switched connection belongs to its receiver.
  }

  abort(error: GatewayError): void {
    if (this.#phase === 'open') this.#switched?.destroy();
    else this.#fail(error);
  }

  onConnect(): void {
    if (this.#phase !== 'connecting') return;
    this.#phase = 'head';
    this.#pool.pending -= 1;
    this.#pool.running += 1;
    this.#connection.requestStarts();
    this.#deadline.set(this.#request.headTimeoutMs);
  }

  onUpgrade(_status: number, rawHeaders: Buffer[] | string[] | null, socket: Duplex): void {
    if (this.#phase !== 'head') {
      socket.destroy();
      return;
    }
    this.#phase = 'open';
    this.#deadline.clear();
    this.#connection.switched();
    this.#switched = socket;
    socket.once('close', () => this.#release());
    this.#resolve({ kind: 'switched', headers: headerList(rawHeaders), connection: socket });
  }

  onHeaders(status: number, rawHeaders: Buffer[]): boolean {
    if (this.#phase !== 'head' || status < 200) return true;
    this.#phase = 'body';
    this.#status = status;
    this.#headers = headerList(rawHeaders);
    this.#deadline.set(this.#request.idleTimeoutMs);
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.#phase !== 'body') return true;
    this.#deadline.refresh();
    this.#receivedBytes += chunk.length;
    if (this.#receivedBytes > maxDeclinedBytes) this.#fail(declinedTooLargeError(this.#pool.peer));
    else this.#chunks.push(chunk);
    return true;
  }

  onComplete(): void {
    if (this.#phase !== 'body') return;
    this.#phase = 'done';
    this.#deadline.clear();
    this.#pool.running -= 1;
    this.#connection.answerEnds();
    const body = Buffer.concat(this.#chunks);
    this.#resolve({ kind: 'declined', status: this.#status, headers: this.#headers, body });
  }

  onError(cause: unknown): void {
    if (this.#phase === 'open' || this.#phase === 'done') return;
    this.#fail(transportError(cause, this.#place()));
  }

  #timedOut(): void {
    const { connectTimeoutMs, headTimeoutMs, idleTimeoutMs } = this.#request;
    if (this.#phase === 'connecting') this.#fail(connectTimedOut(this.#pool.peer, connectTimeoutMs));
    else this.#fail(answerTimedOut(this.#place(), this.#phase === 'head' ? headTimeoutMs : idleTimeoutMs));
  }

  #place(): FailurePlace {
    const phase = this.#phase === 'open' ? 'body' : this.#phase;
    return { peer: this.#pool.peer, phase, receivedBytes: this.#receivedBytes };
  }

  #fail(error: GatewayError): void {
    if (this.#phase === 'done') return;
    this.#release();
    this.#chunks = [];
    this.#environment.countFailure(error.code);
    this.#reject(error);
  }

  #release(): void {
    if (this.#phase === 'connecting') this.#pool.pending -= 1;
    else this.#pool.running -= 1;
    // First, because releasing the connection makes undici report its end.
    this.#phase = 'done';
    this.#deadline.clear();
    this.#connection.call = null;
    this.#connection.destroy();
  }
}

/** undici passes an upgrade's headers unchanged; its typings allow for texts, too. */
function headerList(rawHeaders: Buffer[] | string[] | null): HeaderList {
  const list: Buffer[] = [];
  for (const item of rawHeaders ?? [])
    list.push(typeof item === 'string' ? Buffer.from(item, 'latin1') : item);
  return toHeaderList(list);
}

function declinedTooLargeError(peer: string): GatewayError {
  return new GatewayError(
    'upstream_too_large',
    `${peer} declined WebSocket with an answer of more than ${maxDeclinedBytes} bytes; check that base_url and path serve WebSocket`,
    { source: 'provider' },
  );
}
