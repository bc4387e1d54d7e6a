import type { FrameCodec } from '../../../core/dialects/dialect.ts';
import { assembleAnswer, disassembleAnswer } from './assemble.ts';
import { createFrameReader } from './frame-events.ts';
import { MessageFrameRewriter } from './frame-rewriter.ts';

/** Message streams as frames and events, for taps. */
export const messageFrames: FrameCodec = {
  reader: () => createFrameReader(),
  rewriter: () => new MessageFrameRewriter(),
  assemble: assembleAnswer,
  disassemble: disassembleAnswer,
};
