import type { FrameReader } from '../../core/dialects/dialect.ts';
import type { StreamEvent, StreamFrame } from '../../core/dialects/stream-event.ts';
import { SseSplitter } from '../framing/sse.ts';

/** The events of a frame that says nothing which a tap knows. */
export const opaqueEvents: readonly StreamEvent[] = Object.freeze([{ type: 'opaque' } as const]);

/** Cuts server-sent events into frames and has `read` say what each means. `maxFrameBytes` as for `SseSplitter`. */
export function createSseFrameReader(
  read: (bytes: Buffer) => StreamFrame,
  maxFrameBytes?: number,
): FrameReader {
  let frames: StreamFrame[] = [];
  let ending = false;
  const splitter = new SseSplitter((bytes, whole) => {
    // A last frame may lack its blank line; a piece of a frame that is too long says nothing by itself.
    frames.push(whole || ending ? read(bytes) : { bytes, events: opaqueEvents, unread: true });
  }, maxFrameBytes);
  const take = (): readonly StreamFrame[] => {
    const taken = frames;
    frames = [];
    return taken;
  };
  return {
    push(chunk) {
      splitter.push(chunk);
      return take();
    },
    finish() {
      ending = true;
      splitter.finish();
      return take();
    },
    get heldBytes() {
      return splitter.heldBytes;
    },
  };
}
