import type { UsageStripper } from '../../../core/dialects/dialect.ts';
import { readSseFrame } from '../../framing/sse-frame.ts';
import { SseSplitter } from '../../framing/sse.ts';
import { hasMember, watch } from '../frame-scanner.ts';
import { asObject, parseObject } from '../json-reading.ts';

const usageObject = watch('usage', 'object');

/**
 * Removes exactly the event that `stream_options.include_usage` adds: no choices, and a usage object. Everything
 * else stays byte for byte, also an event without choices that says something else. Stands behind the scanner,
 * which reads the usage, and before the client. Holds back only an unfinished frame, `maxFrameBytes` at the most
 * (default 4 MiB); a longer one is forwarded as it comes.
 */
export function createUsageStripper(maxFrameBytes?: number): UsageStripper {
  let kept: Buffer[] = [];
  let removed = false;
  const splitter = new SseSplitter((frame, whole) => {
    if (whole && isUsageEvent(frame)) removed = true;
    else kept.push(frame);
  }, maxFrameBytes);

  const take = (): Buffer | undefined => {
    const frames = kept;
    kept = [];
    removed = false;
    return frames.length > 1 ? Buffer.concat(frames) : frames[0];
  };
  return {
    push(chunk) {
      const heldBefore = splitter.heldBytes;
      splitter.push(chunk);
      // Frames that begin and end in this chunk leave as one view of it.
      if (heldBefore === 0 && !removed && kept.length > 1) {
        kept = [chunk.subarray(0, chunk.length - splitter.heldBytes)];
      }
      return take();
    },
    finish() {
      splitter.finish();
      return take();
    },
  };
}

function isUsageEvent(frame: Buffer): boolean {
  if (!hasMember(frame.toString('latin1'), usageObject)) return false;
  const { data } = readSseFrame(frame);
  const json = data === undefined ? undefined : parseObject(data);
  if (json === undefined || asObject(json.usage) === undefined || json.error !== undefined) return false;
  return Array.isArray(json.choices) && json.choices.length === 0;
}
