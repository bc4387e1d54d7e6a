import type { Dialect } from '../../../core/dialects/dialect.ts';
import { FrameScanner } from '../frame-scanner.ts';
import { asBuffer, parseObject } from '../json-reading.ts';
import { bodyIssue } from '../request-issue.ts';
import { decodeConversation } from './decode-conversation.ts';
import { encodeAnthropicError, encodeAnthropicStreamError } from './encode-error.ts';
import { messageFacts } from './message-facts.ts';
import { MessageStreamReader, watchedMembers } from './stream-reader.ts';

/** The Anthropic Messages wire. Streams are passed through and scanned; it has no frame codec. */
export const anthropicMessages: Dialect = {
  name: 'anthropic-messages',
  validateRequest: (_endpoint, body) => bodyIssue(body),
  decodeConversation,
  scanAnswer(_endpoint, body) {
    const message = parseObject(asBuffer(body).toString('utf8'));
    return message === undefined ? {} : messageFacts(message);
  },
  streamScanner: () => new FrameScanner(new MessageStreamReader(), watchedMembers),
  encodeError: encodeAnthropicError,
  encodeStreamError: encodeAnthropicStreamError,
};
