import type { Dialect } from '../../../core/dialects/dialect.ts';
import { FrameScanner } from '../frame-scanner.ts';
import { encodeOpenAiError, encodeOpenAiProviderError, encodeOpenAiStreamError } from '../openai-shapes.ts';
import { ChatStreamReader, decodeAnswerTexts, scanAnswer, watchedMembers } from './answer-facts.ts';
import { assembleAnswer, disassembleAnswer } from './replay-answer.ts';
import { decodeConversation, decodeRequest } from './decode-request.ts';
import { createFrameReader, createUsageStripper, rewriteFrame } from './frames.ts';
import { validateRequest } from './validate-request.ts';
import type { ChatClientCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { encodeAnswer } from './answer.ts';
import { OpenAiChatEventWriter } from './event-writer.ts';

/** Chat completions on the client side. */
export const openAiChatClient: ChatClientCodec = {
  decodeRequest,
  encodeAnswer,
  eventWriter: (context) => new OpenAiChatEventWriter(context),
  encodeProviderError: (error, { provider }) => Buffer.from(encodeOpenAiProviderError(error, provider)),
};

/** The OpenAI wire: chat, completions, embeddings, moderations, rerank, and every other proxied path. */
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
