import type { Dialect } from '../../../core/dialects/dialect.ts';
import { FrameScanner } from '../frame-scanner.ts';
import { encodeOpenAiError, encodeOpenAiStreamError } from '../openai-error.ts';
import { scanAnswer } from './answer-facts.ts';
import { decodeAnswerTexts } from './answer-texts.ts';
import { assembleAnswer, disassembleAnswer } from './assemble.ts';
import { openAiChatClient } from './client.ts';
import { decodeConversation } from './decode-conversation.ts';
import { createFrameReader } from './frame-events.ts';
import { rewriteFrame } from './rewrite-frame.ts';
import { ChatStreamReader, watchedMembers } from './stream-reader.ts';
import { createUsageStripper } from './usage-strip.ts';
import { validateRequest } from './validate-request.ts';

/** The OpenAI wire: chat, completions, embeddings, moderations, rerank, and whatever else is proxied. */
export const openAiChat: Dialect = {
  name: 'openai-chat',
  validateRequest,
  decodeConversation,
  decodeAnswerTexts,
  chat: openAiChatClient,
  scanAnswer,
  streamScanner: () => new FrameScanner(new ChatStreamReader(), watchedMembers),
  usageStripper: () => createUsageStripper(),
  frames: {
    reader: () => createFrameReader(),
    rewrite: rewriteFrame,
    assemble: assembleAnswer,
    disassemble: disassembleAnswer,
  },
  encodeError: encodeOpenAiError,
  encodeStreamError: encodeOpenAiStreamError,
};
