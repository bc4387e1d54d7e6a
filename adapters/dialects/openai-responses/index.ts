import type { Dialect } from '../../../core/dialects/dialect.ts';
import { writeSseFrame } from '../../../core/base/sse.ts';
import { FrameScanner } from '../frame-scanner.ts';
import { asBuffer, parseObject, stringifyExact } from '../json-reading.ts';
import {
  encodeErrorJson,
  encodeOpenAiError,
  encodeOpenAiProviderError,
  openAiErrorMembers,
} from '../openai-shapes.ts';
import { bodyIssue } from '../request-members.ts';
import { decodeAnswerTexts, responseFacts, ResponsesStreamReader, watchedMembers } from './answer.ts';
import { decodeConversation, decodeRequest } from './decode-request.ts';
import { responsesFrames } from './frame-rewriter.ts';
import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type {
  AnswerContext,
  ChatClientCodec,
  ChatEventWriter,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { SequentialParts } from '../../../core/dialects/canonical/sequential-parts.ts';
import { EventLines } from './output-writer.ts';
import { ResponseWriter } from './response-writer.ts';

/** The Responses API on the client side. */
export const openAiResponsesClient: ChatClientCodec = {
  decodeRequest,
  encodeAnswer,
  eventWriter: (context) => new ResponsesEventWriter(context),
  encodeProviderError: (error, { provider }) => Buffer.from(encodeOpenAiProviderError(error, provider)),
};

/** The response object assembled from the events of the answer. */
function encodeAnswer(answer: ChatAnswer, context: AnswerContext): Buffer {
  const writer = new ResponseWriter(context, new EventLines());
  for (const event of answerEvents(answer))
    if (!('choice' in event) || event.choice === 0) writer.write(event);
  return Buffer.from(stringifyExact(writer.response()));
}

class ResponsesEventWriter implements ChatEventWriter {
  readonly contentType = 'text/event-stream';
  private readonly sequence = new SequentialParts();
  private readonly lines = new EventLines();
  private readonly writer: ResponseWriter;

  constructor(context: AnswerContext) {
    this.writer = new ResponseWriter(context, this.lines);
  }

  write(events: readonly ChatEvent[]): Buffer | undefined {
    for (const event of events) for (const ready of this.sequence.push(event)) this.writer.write(ready);
    const text = this.lines.take();
    return text === '' ? undefined : Buffer.from(text);
  }
}

/** The OpenAI Responses wire on the client side. */
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
    // The documented event is flat; SDKs end a stream at an `error` member.
    return writeSseFrame(encodeErrorJson({ type: 'error', code, message, param, error: members }), 'error');
  },
};
