import type { FrameCodec } from '../dialects/dialect.ts';
import type { StreamFrame } from '../dialects/stream-event.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { StreamSource, StreamTarget } from './answer.ts';
import { callHook, isPromise, type HookRuntime } from './call-hook.ts';
import type { TapStep } from './compile.ts';
import type { MaybePromise } from './context.ts';
import type { Exchange } from './exchange.ts';
import { judgedTap } from './judge.ts';
import { HoldStage, TapStage, type Stage } from './tap-stage.ts';

/** Frames that may wait while a tap's promise is open, in bytes; the source is paused meanwhile. */
const maxQueuedBytes = 16 * 1024 * 1024;

/** Whose refusal it is: the plugins before `upTo` see it. */
export interface RefusalPlace {
  upTo: number;
}

/**
 * Runs a stream through the taps of its pipeline: bytes → frames → stages → bytes. Works synchronously until a
 * tap returns a promise; then later frames wait and the source is paused.
 */
export class TapChain implements StreamTarget {
  private readonly stages: readonly Stage[];
  private readonly codec: FrameCodec;
  private readonly requestId: string;
  private readonly reader: ReturnType<FrameCodec['reader']>;
  private readonly source: StreamSource;
  private readonly target: StreamTarget & RefusalPlace;
  /** The place of the plugin that answered: a failure of the source concerns every plugin before it. */
  private readonly sourcePlace: number;
  private queue: StreamFrame[] = [];
  private queuedBytes = 0;
  private busy = false;
  private inputEnded = false;
  private begun = false;
  private closed = false;

  constructor(
    stages: readonly Stage[],
    codec: FrameCodec,
    exchange: Exchange,
    source: StreamSource,
    target: StreamTarget & RefusalPlace,
  ) {
    this.stages = stages;
    this.codec = codec;
    this.requestId = exchange.id;
    this.reader = codec.reader(exchange.endpoint.id);
    this.source = source;
    this.target = target;
    this.sourcePlace = target.upTo;
  }

  data(chunk: Buffer): boolean {
    if (this.closed) return false;
    this.enqueue(this.reader.push(chunk));
    return this.pump();
  }

  end(): void {
    if (this.closed) return;
    this.enqueue(this.reader.finish());
    this.inputEnded = true;
    this.pump();
  }

  fail(error: GatewayError, told?: Buffer): void {
    if (this.closed) return;
    this.closed = true;
    this.target.upTo = this.sourcePlace;
    this.target.fail(error, told);
  }

  private enqueue(frames: readonly StreamFrame[]): void {
    for (const frame of frames) {
      this.queue.push(frame);
      this.queuedBytes += frame.bytes.length;
    }
    if (this.queuedBytes > maxQueuedBytes) {
      this.refuse(
        new GatewayError('plugin_failed', 'A plugin is too slow for this stream: too much of it is waiting.'),
      );
    }
  }

  /** True when there is room for more input. */
  private pump(): boolean {
    if (this.busy || this.closed) return false;
    try {
      const frames = this.queue;
      this.queue = [];
      this.queuedBytes = 0;
      const pending = frames.length > 0 ? this.through(frames, 0) : true;
      if (isPromise(pending)) return this.waitFor(pending);
      return this.inputEnded ? this.finishStages(0) : pending;
    } catch (error) {
      this.refuse(error);
      return false;
    }
  }

  private through(frames: readonly StreamFrame[], stage: number): MaybePromise<boolean> {
    let current = frames;
    for (let i = stage; i < this.stages.length; i++) {
      const at = this.stages[i] as Stage;
      this.target.upTo = at.index;
      const next = at.push(current);
      if (isPromise(next)) return next.then((out) => this.through(out, i + 1));
      current = next;
    }
    return this.send(current);
  }

  /** Lets every stage give out what it kept, first to last; each one's remains still pass the later stages. */
  private finishStages(stage: number): boolean {
    for (let i = stage; i < this.stages.length; i++) {
      const at = this.stages[i] as Stage;
      this.target.upTo = at.index;
      const rest = at.finish();
      const pending = isPromise(rest)
        ? rest.then((out) => this.through(out, i + 1))
        : this.through(rest, i + 1);
      if (isPromise(pending)) {
        this.settle(pending, () => this.finishStages(i + 1));
        return false;
      }
    }
    this.closed = true;
    this.target.end();
    return false;
  }

  private waitFor(pending: Promise<boolean>): false {
    this.settle(pending, (room) => {
      // Not while the client is full: its drain resumes the source.
      if (this.pump() && room) this.source.resume();
    });
    return false;
  }

  private settle(pending: Promise<boolean>, then: (room: boolean) => void): void {
    this.busy = true;
    pending.then(
      (room) => {
        this.busy = false;
        if (this.closed) return;
        try {
          then(room);
        } catch (error) {
          this.refuse(error);
        }
      },
      (error: unknown) => this.refuse(error),
    );
  }

  private send(frames: readonly StreamFrame[]): boolean {
    if (this.closed) return false;
    let room = true;
    if (frames.length > 0) this.begun = true;
    for (const frame of frames) {
      const { bytes } = frame;
      room = this.target.data(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    }
    return room;
  }

  private refuse(error: unknown): void {
    if (this.closed) return;
    this.closed = true;
    const refusal = GatewayError.is(error)
      ? error
      : new GatewayError('internal', 'The stream could not be processed.', { cause: error });
    this.source.cancel(refusal);
    const told = this.codec.encodeError?.(refusal, this.requestId, this.begun);
    this.target.fail(refusal, told === undefined ? undefined : Buffer.from(told));
  }
}

/** The stages of an answer, nearest the provider first. A `stream` hook that throws leaves its place in `place`. */
export function buildStages(
  taps: readonly TapStep[],
  exchange: Exchange,
  codec: FrameCodec,
  runtime: HookRuntime,
  place: RefusalPlace,
): readonly Stage[] {
  const { upTo } = place;
  const stages = taps.flatMap((step): Stage[] => {
    if (step.mode === 'hold') return [new HoldStage(step, exchange, codec, runtime)];
    place.upTo = step.index;
    const tap = callHook(step.instance, 'stream', runtime, () => step.instance.hooks.stream?.(exchange));
    if (tap === undefined || isPromise(tap)) return [];
    const isGuardrail = step.instance.definition.capabilities?.guardrail === true;
    const watched = isGuardrail ? judgedTap(tap, exchange, step.instance, runtime.clock) : tap;
    return [new TapStage(step, watched, codec, runtime)];
  });
  place.upTo = upTo;
  return stages;
}

/** The taps of plugins before `upTo`, nearest the provider first. */
export function activeTaps(exchange: Exchange, upTo: number): readonly TapStep[] {
  return exchange.pipeline.taps.filter((step) => step.index < upTo);
}
