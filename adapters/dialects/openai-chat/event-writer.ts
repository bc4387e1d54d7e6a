import type { AnswerContext, ChatEventWriter } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { ChatPart, Citation, Extras, ToolCallPart } from '../../../core/dialects/canonical/chat-part.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { type JsonObject, stringifyExact } from '../json-reading.ts';
import { encodeOpenAiProviderError } from '../openai-shapes.ts';
import {
  addExtras,
  blockCitation,
  contentBlock,
  encodeAnnotation,
  encodeAudio,
  encodeFinish,
  encodeImage,
  encodeLogprobs,
  encodeUsage,
  type MessageStyle,
  messageStyle,
  signatureContent,
} from './answer.ts';

type EventOf<Type extends ChatEvent['type']> = Extract<ChatEvent, { type: Type }>;

interface OpenPart {
  readonly head: ChatPart;
  /** Index of a call in `tool_calls`; -1 for one that the legacy form cannot hold. */
  readonly index: number;
  /** Characters of the message's content before this part. */
  readonly offset: number;
  length: number;
  signature: string;
  /** Citations of the whole part: their position is known when it ends. */
  unplaced: Citation[] | undefined;
}

interface ChoiceState {
  readonly parts: (OpenPart | undefined)[];
  calls: number;
  images: number;
  textLength: number;
}

/** Writes a stream of `chat.completion.chunk`s. One per answer. */
export class OpenAiChatEventWriter implements ChatEventWriter {
  readonly contentType = 'text/event-stream';
  private readonly context: AnswerContext;
  private readonly style: MessageStyle;
  private readonly choices: (ChoiceState | undefined)[] = [];
  /** The JSON of a chunk before its `choices`. */
  private head = '';
  private out = '';
  private usage: Usage | undefined;
  private extras: Extras | undefined;

  constructor(context: AnswerContext) {
    this.context = context;
    this.style = messageStyle(context);
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
      case 'part-start':
        return this.partStart(event);
      case 'text-delta':
        return this.text(event);
      case 'reasoning-delta':
        return this.reasoning(event);
      case 'arguments-delta':
        return this.arguments(event);
      case 'audio-delta':
        return this.audio(event);
      case 'signature':
        this.part(event).signature += event.signature;
        return;
      case 'citation':
        return this.citation(event);
      case 'part-end':
        return this.partEnd(event);
      case 'finish':
        return this.finish(event);
      case 'usage':
        this.usage = event.usage;
        return;
      case 'extras':
        this.extras = mergeExtras(this.extras, event.extras);
        return;
      case 'error':
        this.out += `data: ${encodeOpenAiProviderError(event.error, this.context.provider)}\n\n`;
        return;
      case 'end':
        return this.end();
    }
  }

  private start(event: EventOf<'start'>): void {
    const { context } = this;
    const members: JsonObject = {
      id: event.id === '' ? context.newId('chatcmpl-') : event.id,
      object: 'chat.completion.chunk',
      created: event.createdAt ?? context.now,
      model: event.model === '' ? context.request.model : event.model,
    };
    if (event.serviceTier !== undefined) members.service_tier = event.serviceTier;
    if (event.systemFingerprint !== undefined) members.system_fingerprint = event.systemFingerprint;
    this.head = `data: ${JSON.stringify(members).slice(0, -1)},"choices":[`;
    this.usage = event.usage;
  }

  private partStart({ choice, part, head }: EventOf<'part-start'>): void {
    const isCall = head.type === 'tool-call';
    const state = this.choice(choice, isCall ? 'null' : '""');
    const index = !isCall ? 0 : this.style.legacy && state.calls > 0 ? -1 : state.calls++;
    const open: OpenPart = {
      head,
      index,
      offset: state.textLength,
      length: 0,
      signature: '',
      unplaced: undefined,
    };
    state.parts[part] = open;
    if (isCall) return this.callStart(choice, open, head);
    if (head.type === 'image') {
      this.delta(choice, stringifyExact({ images: [encodeImage(head, state.images++)] }));
    } else if (head.type === 'audio') {
      this.delta(choice, stringifyExact({ audio: encodeAudio(head, this.style) }));
    } else if (this.isBlock(head)) {
      const block = contentBlock(head);
      if (block !== undefined) this.block(choice, part, stringifyExact(block));
    }
    if (head.signature !== undefined) open.signature = head.signature;
  }

  /** Blocks are written whole; text and thinking in deltas. */
  private isBlock(head: ChatPart): boolean {
    if (this.style.strict) return false;
    return head.type === 'provider-tool' || (head.type === 'reasoning' && head.redacted !== undefined);
  }

  private callStart(choice: number, { index }: OpenPart, head: ToolCallPart): void {
    if (index === -1) return;
    const name = JSON.stringify(head.name);
    if (this.style.legacy) {
      this.delta(choice, `{"function_call":{"name":${name},"arguments":""}}`);
      return;
    }
    const definition =
      head.kind === 'custom'
        ? `"type":"custom","custom":{"name":${name},"input":""}`
        : `"type":"function","function":{"name":${name},"arguments":""}`;
    const signed =
      head.signature === undefined
        ? ''
        : `,"extra_content":${JSON.stringify(signatureContent(head.signature))}`;
    this.delta(
      choice,
      `{"tool_calls":[{"index":${index},"id":${JSON.stringify(head.id)},${definition}${signed}}]}`,
    );
  }

  private text(event: EventOf<'text-delta'>): void {
    const open = this.part(event);
    const text = JSON.stringify(event.text);
    if (open.head.type === 'refusal') {
      this.delta(event.choice, `{"refusal":${text}}`);
      return;
    }
    open.length += event.text.length;
    this.choice(event.choice).textLength += event.text.length;
    const block = this.style.strict
      ? ''
      : `,"content_blocks":[{"index":${event.part},"delta":{"text":${text}}}]`;
    const { logprobs } = event;
    const said = logprobs === undefined ? '' : JSON.stringify(encodeLogprobs(logprobs));
    this.delta(event.choice, `{"content":${text}${block}}`, said);
  }

  private reasoning({ choice, part, text }: EventOf<'reasoning-delta'>): void {
    const said = JSON.stringify(text);
    const block = this.style.strict
      ? ''
      : `,"content_blocks":[{"index":${part},"delta":{"thinking":${said}}}]`;
    this.delta(choice, `{"reasoning_content":${said}${block}}`);
  }

  private arguments(event: EventOf<'arguments-delta'>): void {
    const { head, index } = this.part(event);
    if (index === -1 || head.type !== 'tool-call') return;
    const text = JSON.stringify(event.text);
    if (this.style.legacy) this.delta(event.choice, `{"function_call":{"arguments":${text}}}`);
    else if (head.kind === 'custom') {
      this.delta(event.choice, `{"tool_calls":[{"index":${index},"custom":{"input":${text}}}]}`);
    } else {
      this.delta(event.choice, `{"tool_calls":[{"index":${index},"function":{"arguments":${text}}}]}`);
    }
  }

  private audio({ choice, data, transcript }: EventOf<'audio-delta'>): void {
    const audio: JsonObject = {};
    if (data !== '') audio.data = data;
    if (transcript !== '') audio.transcript = transcript;
    this.delta(choice, JSON.stringify({ audio }));
  }

  private citation(event: EventOf<'citation'>): void {
    const { citation } = event;
    const open = this.part(event);
    const isPlaced = citation.start !== undefined || citation.end !== undefined;
    if (isPlaced) this.annotate(event.choice, open, citation);
    else (open.unplaced ??= []).push(citation);
    if (this.style.strict) return;
    this.block(event.choice, event.part, stringifyExact({ citation: blockCitation(citation) }));
  }

  private annotate(choice: number, { offset, length }: OpenPart, citation: Citation): void {
    const annotation = encodeAnnotation(citation, offset, length);
    if (annotation !== undefined) this.delta(choice, stringifyExact({ annotations: [annotation] }));
  }

  private partEnd(event: EventOf<'part-end'>): void {
    const open = this.part(event);
    const { head, index, signature } = open;
    this.choice(event.choice).parts[event.part] = undefined;
    if (open.unplaced !== undefined) {
      for (const citation of open.unplaced) this.annotate(event.choice, open, citation);
    }
    if (signature === '') return;
    if (head.type === 'tool-call') {
      if (index === -1 || this.style.legacy) return;
      const extra = JSON.stringify(signatureContent(signature));
      // Clients that validate chunks require the call's own member in every piece of it.
      const nothing = head.kind === 'custom' ? '"custom":{"input":""}' : '"function":{"arguments":""}';
      this.delta(event.choice, `{"tool_calls":[{"index":${index},${nothing},"extra_content":${extra}}]}`);
    } else if (!this.style.strict) {
      this.block(event.choice, event.part, JSON.stringify({ signature }));
    }
  }

  private finish({ choice, finish, extras }: EventOf<'finish'>): void {
    this.choice(choice);
    const members: JsonObject = {
      index: choice,
      delta: {},
      logprobs: null,
      finish_reason: encodeFinish(finish, this.style.strict, this.style.legacy),
    };
    if (!this.style.strict) {
      if (finish.stopSequence !== undefined) members.stop_sequence = finish.stopSequence;
      addExtras(members, extras);
    }
    this.out += `${this.head}${stringifyExact(members)}]}\n\n`;
  }

  private end(): void {
    const members: JsonObject = {};
    if (!this.style.strict) addExtras(members, this.extras);
    if (this.usage !== undefined && this.context.request.includeUsage === true) {
      members.usage = encodeUsage(this.usage, this.style.strict);
    }
    const last = stringifyExact(members).slice(1);
    if (last !== '}') this.out += `${this.head}],${last}\n\n`;
    this.out += 'data: [DONE]\n\n';
  }

  private block(choice: number, part: number, delta: string): void {
    this.delta(choice, `{"content_blocks":[{"index":${part},"delta":${delta}}]}`);
  }

  /** A chunk with this delta (JSON), and log probabilities when there are some. */
  private delta(choice: number, delta: string, logprobs = ''): void {
    const said = logprobs === '' ? 'null' : logprobs;
    this.out += `${this.head}{"index":${choice},"delta":${delta},"logprobs":${said},"finish_reason":null}]}\n\n`;
  }

  private part(event: { readonly choice: number; readonly part: number }): OpenPart {
    const open = this.choice(event.choice).parts[event.part];
    if (open === undefined) throw new RangeError(`Part ${event.part} of choice ${event.choice} is not open.`);
    return open;
  }

  /** The state of a choice; its first chunk holds the role, and null content when calls come first. */
  private choice(index: number, content = '""'): ChoiceState {
    let state = this.choices[index];
    if (state === undefined) {
      state = { parts: [], calls: 0, images: 0, textLength: 0 };
      this.choices[index] = state;
      this.delta(index, `{"role":"assistant","content":${content}}`);
    }
    return state;
  }
}
