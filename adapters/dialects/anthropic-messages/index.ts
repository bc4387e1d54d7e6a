import type { Dialect } from '../../../core/dialects/dialect.ts';
import { FrameScanner } from '../frame-scanner.ts';
import { asBuffer, parseObject } from '../json-reading.ts';
import { bodyIssue } from '../request-issue.ts';
import { decodeAnswerTexts } from './answer-texts.ts';
import { anthropicClient } from './client.ts';
import { decodeConversation } from './decode-conversation.ts';
import { encodeAnthropicError, encodeAnthropicStreamError } from './encode-error.ts';
import { messageFrames } from './frames.ts';
import { messageFacts } from './message-facts.ts';
import { MessageStreamReader, watchedMembers } from './stream-reader.ts';

/** The Anthropic Messages wire. */
export const anthropicMessages: Dialect = {
  name: 'anthropic-messages',
  validateRequest: (_endpoint, body) => bodyIssue(body),
  decodeConversation,
  decodeAnswerTexts,
  chat: anthropicClient,
  scanAnswer(_endpoint, body) {
    const message = parseObject(asBuffer(body).toString('utf8'));
    return message === undefined ? {} : messageFacts(message);
  },
  streamScanner: () => new FrameScanner(new MessageStreamReader(), watchedMembers),
  frames: messageFrames,
  encodeError: encodeAnthropicError,
  encodeStreamError: encodeAnthropicStreamError,
};
