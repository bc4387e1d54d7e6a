import type { FrameCodec } from '../../../core/dialects/dialect.ts';
import { createFrameReader } from './frame-reader.ts';
import { ResponsesFrameRewriter } from './frame-rewriter.ts';
import { assembleResponse, disassembleResponse } from './replay-response.ts';

/** Responses streams as frames and events, for taps. */
export const responsesFrames: FrameCodec = {
  reader: () => createFrameReader(),
  rewriter: () => new ResponsesFrameRewriter(),
  assemble: assembleResponse,
  disassemble: disassembleResponse,
};
