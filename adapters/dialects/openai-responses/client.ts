import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type {
  AnswerContext,
  ChatClientCodec,
  ChatEventWriter,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { SequentialParts } from '../../../core/dialects/canonical/sequential-parts.ts';
import { stringifyExact } from '../exact-json.ts';
import { encodeOpenAiProviderError } from '../openai-error.ts';
import { decodeRequest } from './decode-request.ts';
import { EventLines } from './event-lines.ts';
import { ResponseWriter } from './response-writer.ts';

/** The client's side of the Responses API. */
export const openAiResponsesClient: ChatClientCodec = {
  decodeRequest,
  encodeAnswer,
  eventWriter: (context) => new ResponsesEventWriter(context),
  encodeProviderError: (error, { provider }) => Buffer.from(encodeOpenAiProviderError(error, provider)),
};

/** The response object that the events of the answer add up to. */
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
