/** A transport without a network: scripted providers on a clock that tests move. `tests/conformance/transport.ts` keeps it true. */
import { Readable } from 'node:stream';
import { RequestBody } from '../../adapters/transport/http-call.ts';
import {
  type CallPhase,
  type FailurePlace,
  transportErrors,
} from '../../adapters/transport/transport-errors.ts';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import type {
  Transport,
  UpstreamCall,
  UpstreamHandler,
  UpstreamRequest,
} from '../../core/ports/transport.ts';
import { refuses, type SceneStep, type UpstreamScene } from './upstream-scenes.ts';

/** Scenes by origin, one per call; the last one is played again for further calls. An unknown origin refuses. */
type UpstreamScript = Readonly<Record<string, readonly UpstreamScene[]>>;

/** What a test sees of one call. */
export interface ScriptedCallRecord {
  readonly request: UpstreamRequest;
  /** Milliseconds on the clock. */
  readonly startedAt: number;
  readonly endedAt: number | undefined;
  /** Undefined while it is open. */
  readonly ended: 'end' | 'fail' | undefined;
  /** Why it failed. */
  readonly error: GatewayError | undefined;
  /** What it was aborted with while it was open. */
  readonly aborted: GatewayError | undefined;
  readonly phase: CallPhase;
  /** Bytes of the answer's body that its receiver has taken. */
  readonly receivedBytes: number;
  /** The request's body as far as it came. */
  readonly body: Buffer;
}

/** A transport whose providers play scenes. */
export interface ScriptedTransport extends Transport {
  /** Every call in the order of sending. */
  readonly calls: readonly ScriptedCallRecord[];
  /** Calls that have neither ended nor failed. */
  readonly open: number;
  /** What receivers threw; the network's transport logs it. */
  readonly thrown: readonly unknown[];
  /** Replaces the scenes of an origin for the calls that come. */
  script(origin: string, ...scenes: readonly UpstreamScene[]): void;
}

/** Plays `script` on `clock`, in the order of callbacks and with the errors of the transport over the network. */
export function createScriptedTransport(clock: Clock, script: UpstreamScript = {}): ScriptedTransport {
  return new PlayedTransport(clock, script);
}

class PlayedTransport implements ScriptedTransport {
  readonly calls: ScriptedCall[] = [];
  readonly thrown: unknown[] = [];
  readonly clock: Clock;
  /** Above zero inside a receiver's callback, where nothing may be delivered. */
  depth = 0;
  private readonly scenes: Map<string, { readonly list: readonly UpstreamScene[]; played: number }>;
  private closed = false;

  constructor(clock: Clock, script: UpstreamScript) {
    this.clock = clock;
    this.scenes = new Map(Object.entries(script).map(([origin, list]) => [origin, { list, played: 0 }]));
  }

  get open(): number {
    return this.calls.filter(({ ended }) => ended === undefined).length;
  }

  script(origin: string, ...list: readonly UpstreamScene[]): void {
    this.scenes.set(origin, { list, played: 0 });
  }

  send(request: UpstreamRequest, handler: UpstreamHandler): UpstreamCall {
    const call = new ScriptedCall(this, request, handler, this.next(request.origin));
    this.calls.push(call);
    if (this.closed) queueMicrotask(() => call.abort(transportErrors.closed()));
    else call.start();
    return call;
  }

  close(): Promise<void> {
    this.closed = true;
    for (const call of this.calls) call.abort(transportErrors.closed());
    return Promise.resolve();
  }

  private next(origin: string): UpstreamScene {
    const scenes = this.scenes.get(origin);
    if (scenes === undefined) return refuses();
    return scenes.list[Math.min(scenes.played++, scenes.list.length - 1)] ?? refuses();
  }
}

class ScriptedCall implements UpstreamCall, ScriptedCallRecord {
  readonly request: UpstreamRequest;
  readonly startedAt: number;
  endedAt: number | undefined;
  ended: 'end' | 'fail' | undefined;
  error: GatewayError | undefined;
  aborted: GatewayError | undefined;
  phase: CallPhase = 'connecting';
  body = Buffer.alloc(0);
  private readonly transport: PlayedTransport;
  private readonly handler: UpstreamHandler;
  private readonly scene: UpstreamScene;
  private upload: RequestBody | undefined;
  /** What the provider has sent and nobody has taken. */
  private readonly wire: SceneStep[] = [];
  private played = 0;
  private paused = false;
  receivedBytes = 0;
  /** Bytes that the body still lacks; undefined where its end is told otherwise. */
  private missing: number | undefined;
  private untilClose = false;
  private passedBytes = 0;
  private stopLimit: () => void = () => undefined;
  private stopScene: () => void = () => undefined;

  constructor(
    transport: PlayedTransport,
    request: UpstreamRequest,
    handler: UpstreamHandler,
    scene: UpstreamScene,
  ) {
    this.transport = transport;
    this.request = request;
    this.handler = handler;
    this.scene = scene;
    this.startedAt = transport.clock.monotonic();
  }

  start(): void {
    const { connect = 0 } = this.scene;
    this.limit(this.request.connectTimeoutMs);
    if (connect === 'never') return;
    if (connect !== 'refused' && connect > 0) {
      this.stopScene = this.transport.clock.after(connect, () => this.connected());
      return;
    }
    const turn = setImmediate(() => {
      if (connect === 'refused') this.broken(networkError('ECONNREFUSED'));
      else this.connected();
    });
    this.stopScene = () => clearImmediate(turn);
  }

  resume(): void {
    if (this.transport.depth > 0) {
      queueMicrotask(() => this.resume());
      return;
    }
    if (!this.paused || this.phase === 'done') return;
    this.paused = false;
    if (this.phase === 'body') this.limit(this.request.idleTimeoutMs);
    this.deliver();
    if (!this.paused && this.phase === 'draining') this.finish(undefined, false);
  }

  abort(error: GatewayError): void {
    if (this.phase === 'done') return;
    this.aborted = error;
    this.finish(error, false);
  }

  private connected(): void {
    this.phase = 'head';
    this.limit(this.request.headTimeoutMs);
    const { body } = this.request;
    if (!(body instanceof Readable)) {
      if (body !== null) this.body = Buffer.from(body);
      this.play();
      return;
    }
    const upload = new RequestBody(body, (cause) => this.finish(transportErrors.bodyBroken(cause), false));
    this.upload = upload;
    upload.on('error', () => undefined);
    upload.on('data', (chunk: Buffer) => (this.body = Buffer.concat([this.body, chunk])));
    upload.once('end', () => {
      if (this.phase === 'head') this.limit(this.request.headTimeoutMs);
      this.play();
    });
  }

  /** The provider's side, up to its next wait. */
  private play(): void {
    while (this.phase !== 'done') {
      const step = this.scene.steps[this.played];
      if (step === undefined) return;
      this.played += 1;
      if ('wait' in step) {
        this.stopScene = this.transport.clock.after(step.wait, () => this.play());
        return;
      }
      // It overtakes what has been sent; only an answer that is complete already stays so.
      if ('then' in step && step.then === 'reset') {
        if (this.phase !== 'draining') this.broken(networkError('UND_ERR_SOCKET'));
        return;
      }
      this.wire.push(step);
      this.deliver();
    }
  }

  private deliver(): void {
    while (!this.paused && this.phase !== 'done') {
      const step = this.wire.shift();
      if (step === undefined) return;
      if ('head' in step) this.takeHead(step.head, step.headers);
      else if ('data' in step) this.take(step.data);
      else if ('then' in step) this.takeEnd(step.then);
    }
  }

  private takeHead(status: number, headers: readonly string[]): void {
    if (this.phase !== 'head') return;
    this.phase = 'body';
    this.limit(this.request.idleTimeoutMs);
    const length = headerValue(headers, 'content-length');
    this.missing = length === undefined ? undefined : Number(length);
    this.untilClose = length === undefined && headerValue(headers, 'transfer-encoding') === undefined;
    const bodiless = this.request.method === 'HEAD' || status === 204 || status === 304;
    if (bodiless) this.missing = 0;
    this.inHandler(() => this.handler.head(status, [...headers]));
    if (this.missing === 0) this.complete();
  }

  private take(bytes: Buffer): void {
    if (this.phase !== 'body') return;
    // Bytes beyond the announced length are no part of this answer.
    const chunk = this.missing === undefined ? bytes : bytes.subarray(0, this.missing);
    if (this.missing !== undefined) this.missing -= chunk.length;
    this.receivedBytes += chunk.length;
    this.limit(this.request.idleTimeoutMs);
    this.inHandler(() => (this.paused = !this.handler.data(chunk)));
    if (this.missing === 0) this.complete();
  }

  private takeEnd(how: 'end' | 'close' | 'reset'): void {
    if (how === 'end' || (this.untilClose && this.phase === 'body')) this.complete();
    else this.broken(networkError('UND_ERR_SOCKET'));
  }

  private complete(): void {
    if (this.phase !== 'body') return;
    if (!this.paused) {
      this.finish(undefined, false);
      return;
    }
    this.phase = 'draining';
    this.stopLimit();
  }

  private inHandler(run: () => void): void {
    this.transport.depth += 1;
    try {
      run();
    } catch (cause) {
      this.transport.thrown.push(cause);
      this.finish(transportErrors.of(cause, this.place()), false);
    } finally {
      this.transport.depth -= 1;
    }
  }

  private broken(cause: Error): void {
    const stale = this.phase === 'head' && this.scene.reused === true;
    this.finish(transportErrors.of(cause, this.place()), stale);
  }

  /** One limit at a time, as long as the present phase allows; 0 is none. */
  private limit(ms: number): void {
    this.stopLimit();
    this.stopLimit = ms > 0 ? this.transport.clock.after(ms, () => this.timedOut()) : () => undefined;
  }

  private timedOut(): void {
    const { connectTimeoutMs, headTimeoutMs, idleTimeoutMs } = this.request;
    if (this.phase === 'connecting') {
      this.finish(transportErrors.connectTimedOut(this.place().peer, connectTimeoutMs), false);
    } else if (this.phase === 'head') {
      if (this.uploading()) this.limit(headTimeoutMs);
      else this.finish(transportErrors.answerTimedOut(this.place(), headTimeoutMs), false);
    } else if (this.phase === 'body' && !this.paused) {
      this.finish(transportErrors.answerTimedOut(this.place(), idleTimeoutMs), false);
    }
  }

  /** The body is still coming, and it is not the provider that holds it up. */
  private uploading(): boolean {
    const { upload } = this;
    if (upload === undefined || upload.readableEnded) return false;
    const progressed = upload.waiting || upload.passedBytes !== this.passedBytes;
    this.passedBytes = upload.passedBytes;
    return progressed;
  }

  private place(): FailurePlace {
    const { hostname, port, protocol } = new URL(this.request.origin);
    const peer = `${hostname}:${port === '' ? (protocol === 'https:' ? '443' : '80') : port}`;
    return { peer, phase: this.phase, receivedBytes: this.receivedBytes };
  }

  private finish(error: GatewayError | undefined, stale: boolean): void {
    if (this.phase === 'done') return;
    this.phase = 'done';
    this.stopLimit();
    this.stopScene();
    this.upload?.destroy();
    this.wire.length = 0;
    this.error = error;
    this.ended = error === undefined ? 'end' : 'fail';
    this.endedAt = this.transport.clock.monotonic();
    this.transport.depth += error === undefined ? 1 : 0;
    try {
      if (error === undefined) this.handler.end();
      else this.handler.fail(error, { stale });
    } catch (cause) {
      this.transport.thrown.push(cause);
    } finally {
      this.transport.depth -= error === undefined ? 1 : 0;
    }
  }
}

function networkError(code: string): Error {
  return Object.assign(new Error(code === 'ECONNREFUSED' ? 'connect ECONNREFUSED' : 'other side closed'), {
    code,
  });
}
