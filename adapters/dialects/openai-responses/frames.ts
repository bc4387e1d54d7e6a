import type { FrameCodec } from '../../../core/dialects/dialect.ts';
import { createFrameReader } from './frame-reader.ts';
import { ResponsesFrameRewriter } from './frame-rewriter.ts';
import { assembleResponse, disassembleResponse } from './replay-response.ts';

/**
 * Responses streams as frames and events, for taps. `rewrite` changes one frame alone: where taps change texts, every
 * frame of the stream must go through one `rewriter`, because later frames repeat what earlier ones said.
 */
export const responsesFrames: FrameCodec = {
  reader: () => createFrameReader(),
  rewrite(frame, events) {
    const frames = new ResponsesFrameRewriter().write(frame, events);
    return frames.length === 0 ? undefined : Buffer.concat(frames.map(({ bytes }) => bytes));
  },
  rewriter: () => new ResponsesFrameRewriter(),
  assemble: assembleResponse,
  disassemble: disassembleResponse,
};
