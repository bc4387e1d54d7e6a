import type { AnswerContext, ChatEventWriter } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import type { JsonObject } from '../json-reading.ts';
import { encodeUsage } from '../openai-chat/encode-answer.ts';
import { encodeFinish } from '../openai-chat/finish-reason.ts';
import { encodeOpenAiProviderError } from '../openai-error.ts';
import { encodeLogprobs } from './logprobs.ts';

/** Writes a stream of `text_completion` chunks. One per answer. */
export class CompletionsEventWriter implements ChatEventWriter {
  readonly contentType = 'text/event-stream';
  private readonly context: AnswerContext;
  /** Characters of each choice so far. */
  private readonly lengths: number[] = [];
  /** Everything of a chunk before its `choices`. */
  private head = '';
  private out = '';
  private usage: Usage | undefined;

  constructor(context: AnswerContext) {
    this.context = context;
  }

  write(events: readonly ChatEvent[]): Buffer | undefined {
    for (const event of events) this.writeEvent(event);
    if (this.out === '') return undefined;
    const bytes = Buffer.from(this.out);
    this.out = '';
    return bytes;
  }

  private writeEvent(event: ChatEvent): void {
    switch (event.type) {
      case 'start':
        return this.start(event);
      case 'text-delta': {
        const offset = this.lengths[event.choice] ?? 0;
        this.lengths[event.choice] = offset + event.text.length;
        const { logprobs } = event;
        const tokens = logprobs === undefined ? 'null' : JSON.stringify(encodeLogprobs(logprobs, offset));
        return this.chunk(event.choice, event.text, tokens, 'null');
      }
      case 'finish': {
        const reason = encodeFinish(event.finish, this.context.strict, false);
        return this.chunk(event.choice, '', 'null', JSON.stringify(reason));
      }
      case 'usage':
        this.usage = event.usage;
        return;
      case 'error':
        this.out += `data: ${encodeOpenAiProviderError(event.error, this.context.provider)}\n\n`;
        return;
      case 'end':
        return this.end();
      default:
    }
  }

  private start(event: Extract<ChatEvent, { type: 'start' }>): void {
    const { context } = this;
    const members: JsonObject = {
      id: event.id === '' ? context.newId('cmpl-') : event.id,
      object: 'text_completion',
      created: event.createdAt ?? context.now,
      model: event.model === '' ? context.request.model : event.model,
    };
    if (event.systemFingerprint !== undefined) members.system_fingerprint = event.systemFingerprint;
    this.head = `data: ${JSON.stringify(members).slice(0, -1)},"choices":[`;
    this.usage = event.usage;
  }

  private chunk(choice: number, text: string, logprobs: string, reason: string): void {
    const said = JSON.stringify(text);
    this.out += `${this.head}{"text":${said},"index":${choice},"logprobs":${logprobs},"finish_reason":${reason}}]}\n\n`;
  }

  private end(): void {
    if (this.usage !== undefined && this.context.request.includeUsage === true) {
      const usage = JSON.stringify(encodeUsage(this.usage, this.context.strict));
      this.out += `${this.head}],"usage":${usage}}\n\n`;
    }
    this.out += 'data: [DONE]\n\n';
  }
}
