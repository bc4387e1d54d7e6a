import type { FrameCodec, StreamFramings } from '../../../core/dialects/dialect.ts';
import { errorJson } from './error-shape.ts';
import { arrayFraming, eventFraming } from './frame-json.ts';
import { createArrayReader, createEventReader } from './frame-reader.ts';
import { GeminiFrameRewriter } from './frame-rewriter.ts';
import { arrayEnd, assembleAnswer, disassembleAnswer } from './replay-answer.ts';
import { streamContentType } from './stream-content-type.ts';

const framings: StreamFramings = {
  contentTypeFor: streamContentType,
  codecFor: (contentType) => (/^application\/json/i.test(contentType) ? geminiArrayFrames : geminiFrames),
};

/** Gemini streams as frames and events, for taps: server-sent events, and by `framings` arrays. */
export const geminiFrames: FrameCodec = {
  reader: () => createEventReader(),
  rewriter: () => new GeminiFrameRewriter(eventFraming),
  assemble: (_endpoint, frames, usage) => assembleAnswer(eventFraming, frames, usage),
  disassemble: (_endpoint, answer) => [disassembleAnswer(eventFraming, answer)],
  framings,
};

/** Streams without `alt=sse`: one JSON array. */
export const geminiArrayFrames: FrameCodec = {
  reader: () => createArrayReader(),
  rewriter: () => new GeminiFrameRewriter(arrayFraming),
  assemble: (_endpoint, frames, usage) => assembleAnswer(arrayFraming, frames, usage),
  disassemble: (_endpoint, answer) => [disassembleAnswer(arrayFraming, answer), arrayEnd],
  encodeError: (error, requestId, begun) =>
    Buffer.from(`${begun ? ',\n' : '['}${errorJson(error, requestId)}\n]\n`),
  framings,
};
