import type { Dialect } from '../../../core/dialects/dialect.ts';
import { FrameScanner } from '../frame-scanner.ts';
import { asBuffer, parseObject } from '../json-reading.ts';
import { bodyIssue } from '../request-members.ts';
import {
  decodeAnswerTexts,
  encodeAnswer,
  messageFacts,
  MessageStreamReader,
  watchedMembers,
} from './answer.ts';
import { decodeConversation, decodeRequest } from './decode-request.ts';
import { encodeAnthropicError, encodeAnthropicStreamError, providerErrorJson } from './errors.ts';
import { messageFrames } from './frame-rewriter.ts';
import type { ChatClientCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { MessageEventWriter } from './event-writer.ts';

/** The Messages wire on the client side. */
export const anthropicClient: ChatClientCodec = {
  decodeRequest,
  encodeAnswer,
  eventWriter: (context) => new MessageEventWriter(context),
  encodeProviderError: (error, context) => Buffer.from(providerErrorJson(error, context)),
};

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
