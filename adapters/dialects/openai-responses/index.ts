import type { Dialect } from '../../../core/dialects/dialect.ts';
import { writeSseFrame } from '../../framing/sse-frame.ts';
import { FrameScanner } from '../frame-scanner.ts';
import { asBuffer, parseObject } from '../json-reading.ts';
import { encodeErrorJson, encodeOpenAiError, openAiErrorMembers } from '../openai-error.ts';
import { bodyIssue } from '../request-issue.ts';
import { decodeAnswerTexts } from './answer-texts.ts';
import { openAiResponsesClient } from './client.ts';
import { decodeConversation } from './decode-conversation.ts';
import { responsesFrames } from './frames.ts';
import { responseFacts, ResponsesStreamReader, watchedMembers } from './stream-reader.ts';

/** The OpenAI Responses wire as clients speak it. */
export const openAiResponses: Dialect = {
  name: 'openai-responses',
  validateRequest: (_endpoint, body) => bodyIssue(body),
  decodeConversation,
  decodeAnswerTexts,
  chat: openAiResponsesClient,
  scanAnswer(_endpoint, body) {
    const response = parseObject(asBuffer(body).toString('utf8'));
    return response === undefined ? {} : responseFacts(response);
  },
  streamScanner: () => new FrameScanner(new ResponsesStreamReader(), watchedMembers),
  frames: responsesFrames,
  encodeError: encodeOpenAiError,
  encodeStreamError(error) {
    const members = openAiErrorMembers(error);
    const { message, param, code } = members;
    // The documented event is flat; SDKs end a stream when they find an `error` member.
    return writeSseFrame(encodeErrorJson({ type: 'error', code, message, param, error: members }), 'error');
  },
};
