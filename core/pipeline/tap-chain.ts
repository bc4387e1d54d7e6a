import type { FrameCodec, FrameRewriter } from '../dialects/dialect.ts';
import type { StreamEvent, StreamFrame } from '../dialects/stream-event.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { StreamSource, StreamTarget } from './answer.ts';
import { isPromise } from '../base/turns.ts';
import {
  callHook,
  type GuardedCall,
  type HookRuntime,
  runWithVerdict,
  tapWithVerdict,
  notJudged,
} from './call-hook.ts';
import type { TapStep } from './compile.ts';
import type { MaybePromise } from './context.ts';
import type { Exchange } from './exchange.ts';
import type { EndpointId } from '../dialects/endpoint.ts';
import type { StreamTap } from './plugin.ts';
import { EditableResponse } from './held-answer.ts';

/** One plugin's place in the stream: frames in, frames out, in order. */
interface Stage {
  /** The plugin's position in the file. */
  readonly index: number;
  push(frames: readonly StreamFrame[]): MaybePromise<readonly StreamFrame[]>;
  finish(): MaybePromise<readonly StreamFrame[]>;
}

/** Most text that a tap or a held stream may keep back, in bytes. */
const maxHeldBytes = 8 * 1024 * 1024;

/** A tap that has begun is not bypassed: it may hold back a part of the stream. */
const midway: GuardedCall = { part: 'midway' };

/** Runs a plugin's stream tap event by event; a frame whose events come out unchanged keeps its very bytes. */
class TapStage implements Stage {
  readonly index: number;
  private readonly step: TapStep;
  private readonly tap: StreamTap;
  private readonly codec: FrameCodec;
  private readonly rewriter: FrameRewriter | undefined;
  private readonly runtime: HookRuntime;
  private emitted: StreamEvent[] = [];
  private template: StreamFrame = { bytes: new Uint8Array(), events: [] };
  private textSeen = false;
  private heldBytes = 0;
  private ended = false;
  private readonly emit = (event: StreamEvent): void => {
    // A plugin may emit more than it took; that must not allow it to hold more later.
    this.heldBytes = Math.max(0, this.heldBytes - textLength(event));
    this.emitted.push(event);
  };

  constructor(step: TapStep, tap: StreamTap, codec: FrameCodec, runtime: HookRuntime) {
    this.index = step.index;
    this.step = step;
    this.tap = tap;
    this.codec = codec;
    this.rewriter = codec.rewriter?.();
    this.runtime = runtime;
  }

  push(frames: readonly StreamFrame[]): MaybePromise<readonly StreamFrame[]> {
    return this.from(frames, 0, []);
  }

  finish(): MaybePromise<readonly StreamFrame[]> {
    if (this.ended) return [];
    const pending = this.callEnd();
    const flush = (): readonly StreamFrame[] => this.lateFrames();
    return isPromise(pending) ? pending.then(flush) : flush();
  }

  private from(
    frames: readonly StreamFrame[],
    start: number,
    out: StreamFrame[],
  ): MaybePromise<readonly StreamFrame[]> {
    for (let i = start; i < frames.length; i++) {
      const frame = frames[i] as StreamFrame;
      const pending = this.frame(frame, 0, out);
      if (isPromise(pending)) return pending.then(() => this.from(frames, i + 1, out));
    }
    return out;
  }

  private frame(frame: StreamFrame, start: number, out: StreamFrame[]): MaybePromise<void> {
    if (frame.unread && this.step.judges) throw unreadable(this.step);
    for (let i = start; i < frame.events.length; i++) {
      const event = frame.events[i] as StreamEvent;
      const pending = event.type === 'done' ? this.beforeDone(event, out) : this.event(event);
      if (isPromise(pending)) return pending.then(() => this.frame(frame, i + 1, out));
    }
    this.closeFrame(frame, out);
    return undefined;
  }

  private event(event: StreamEvent): MaybePromise<void> {
    this.heldBytes += textLength(event);
    if (this.heldBytes > maxHeldBytes) {
      throw new GatewayError(
        'plugin_failed',
        `The plugin "${this.step.instance.name}" holds back more than ${maxHeldBytes} bytes of the stream.`,
      );
    }
    const emittedBefore = this.emitted.length;
    return this.guarded(
      () => this.tap.event(event, this.emit),
      () => {
        // A skipped tap lets the event pass instead of swallowing it.
        if (this.emitted.length === emittedBefore) this.emit(event);
      },
    );
  }

  /** Events that a tap held back must leave before the end marker: after it no client reads on. */
  private beforeDone(done: StreamEvent, out: StreamFrame[]): MaybePromise<void> {
    // The frame may carry more than its end; those events stay.
    const own = this.emitted;
    this.emitted = [];
    const pending = this.callEnd();
    const then = (): void => {
      // Late events belong behind the frame's own events; the rewriter keeps that order within the frame.
      if (this.rewriter !== undefined && own.some((event) => 'text' in event)) own.push(...this.emitted);
      else for (const late of this.lateFrames()) out.push(late);
      own.push(done);
      this.emitted = own;
    };
    return isPromise(pending) ? pending.then(then) : then();
  }

  private callEnd(): MaybePromise<void> {
    if (this.ended) return undefined;
    this.ended = true;
    return this.guarded(
      () => this.tap.end?.(this.emit),
      () => undefined,
    );
  }

  private guarded(call: () => MaybePromise<void>, onSkip: () => void): MaybePromise<void> {
    let finished = false;
    const run = (): MaybePromise<void> => {
      const result = call();
      if (!isPromise(result)) finished = true;
      return isPromise(result) ? result.then(() => void (finished = true)) : result;
    };
    const outcome = callHook(this.step.instance, 'stream', this.runtime, run, midway);
    const check = (): void => {
      if (!finished) onSkip();
    };
    return isPromise(outcome) ? outcome.then(check) : check();
  }

  private closeFrame(frame: StreamFrame, out: StreamFrame[]): void {
    const events = this.emitted;
    this.emitted = [];
    const isSame = sameEvents(events, frame.events);
    if (this.rewriter !== undefined) {
      for (const written of this.rewriter.write(frame, isSame ? frame.events : events)) out.push(written);
      return;
    }
    this.remember(frame);
    if (isSame) {
      out.push(frame);
      return;
    }
    if (events.length === 0) return;
    const bytes = this.codec.rewrite?.(frame, events);
    if (bytes !== undefined) out.push({ bytes, events });
  }

  /** Late events are written into a copy of the last frame with text; before there is one, of the last frame of any kind. */
  private remember(frame: StreamFrame): void {
    const hasText = frame.events.some((event) => 'text' in event);
    if (!hasText && (this.textSeen || frame.unread || frame.events[0]?.type === 'done')) return;
    this.textSeen ||= hasText;
    this.template = frame;
  }

  /** Frames for events that were emitted outside of a frame of their own. */
  private lateFrames(): readonly StreamFrame[] {
    const events = this.emitted;
    this.emitted = [];
    if (this.rewriter !== undefined) return this.rewriter.late(events);
    if (events.length === 0) return [];
    const bytes = this.codec.rewrite?.(this.template, events);
    return bytes === undefined ? [] : [{ bytes, events }];
  }
}

/** Collects a whole stream, runs the plugin's `response` hook on the answer it adds up to, and replays it. */
class HoldStage implements Stage {
  readonly index: number;
  private readonly step: TapStep;
  private readonly exchange: Exchange;
  private readonly codec: FrameCodec;
  private readonly runtime: HookRuntime;
  private readonly frames: StreamFrame[] = [];
  private heldBytes = 0;

  constructor(step: TapStep, exchange: Exchange, codec: FrameCodec, runtime: HookRuntime) {
    this.index = step.index;
    this.step = step;
    this.exchange = exchange;
    this.codec = codec;
    this.runtime = runtime;
  }

  push(frames: readonly StreamFrame[]): readonly StreamFrame[] {
    for (const frame of frames) {
      if (frame.unread) throw unreadable(this.step);
      this.heldBytes += frame.bytes.length;
      if (this.heldBytes > maxHeldBytes) {
        throw new GatewayError(
          'plugin_failed',
          `The stream is longer than the ${maxHeldBytes} bytes that the plugin "${this.step.instance.name}" may hold.`,
        );
      }
      this.frames.push(frame);
    }
    return [];
  }

  finish(): MaybePromise<readonly StreamFrame[]> {
    const endpoint: EndpointId = this.exchange.endpoint.id;
    const { instance } = this.step;
    const answer = Buffer.from(this.codec.assemble(endpoint, this.frames));
    const view = new EditableResponse(
      { status: 200, headers: [], bytes: answer },
      'provider',
      this.exchange,
      true,
    );
    this.exchange.response = view;
    const call = (): MaybePromise<void> => instance.hooks.response?.(this.exchange);
    const isGuardrail = instance.definition.capabilities?.guardrail === true;
    const judged = callHook(
      instance,
      'response',
      this.runtime,
      () =>
        isGuardrail ? runWithVerdict(this.exchange, instance, 'stream', this.runtime.clock, call) : call(),
      isGuardrail ? notJudged(this.exchange, instance, 'stream') : undefined,
    );
    const replay = (): readonly StreamFrame[] =>
      view.bytes === answer ? this.frames : this.reread(this.codec.disassemble(endpoint, view.bytes));
    return isPromise(judged) ? judged.then(replay) : replay();
  }

  private reread(pieces: readonly Uint8Array[]): readonly StreamFrame[] {
    const reader = this.codec.reader(this.exchange.endpoint.id);
    return [...pieces.flatMap((piece) => reader.push(piece)), ...reader.finish()];
  }
}

function unreadable({ instance }: TapStep): GatewayError {
  return new GatewayError(
    'upstream_invalid',
    `The provider's stream holds a frame that is torn, too long or malformed, and the plugin "${instance.name}" may not let it pass unread.`,
    { source: 'provider', plugin: instance.name },
  );
}

function sameEvents(left: readonly StreamEvent[], right: readonly StreamEvent[]): boolean {
  return left.length === right.length && left.every((event, index) => event === right[index]);
}

function textLength(event: StreamEvent): number {
  return 'text' in event ? event.text.length : 0;
}

/** Frames that may wait while a tap's promise is open, in bytes; the source is paused meanwhile. */
const maxQueuedBytes = 16 * 1024 * 1024;

/** Origin of a refusal: the plugins before `upTo` see it. */
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

  /** Lets every stage emit its held text, first to last; it still passes the later stages. */
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
    const isGuardrail = step.instance.definition.capabilities?.guardrail === true;
    const tap = callHook(step.instance, 'stream', runtime, () => step.instance.hooks.stream?.(exchange), {
      part: 'begin',
      ...(isGuardrail && notJudged(exchange, step.instance, 'stream')),
    });
    if (tap === undefined || isPromise(tap)) return [];
    const watched = isGuardrail ? tapWithVerdict(tap, exchange, step.instance, runtime.clock) : tap;
    return [new TapStage(step, watched, codec, runtime)];
  });
  place.upTo = upTo;
  return stages;
}
