import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { AnswerContext, ChatEventWriter } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type {
  ChatPart,
  Citation,
  Extras,
  ToolCallPart,
  ImagePart,
  AudioPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { type JsonObject, stringifyExact } from '../json-reading.ts';
import { openAiErrors } from '../openai-shapes.ts';
import { dataUrls } from '../request-members.ts';
import { answerPart, chatLogprobs } from './answer.ts';

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
        this.out += `data: ${openAiErrors.encodeProvider(event.error, this.context.provider)}\n\n`;
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
        : `,"extra_content":${JSON.stringify(answerPart.signature(head.signature))}`;
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
    const said = logprobs === undefined ? '' : JSON.stringify(chatLogprobs.encode(logprobs));
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
      const extra = JSON.stringify(answerPart.signature(signature));
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
      finish_reason: answerPart.finish(finish, this.style.strict, this.style.legacy),
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
      members.usage = answerPart.usage(this.usage, this.style.strict);
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

/** A complete answer as a `chat.completion`. */
export function encodeAnswer(answer: ChatAnswer, context: AnswerContext): Buffer {
  const { strict } = context;
  const style = messageStyle(context);
  const body: JsonObject = {
    id: answer.id === '' ? context.newId('chatcmpl-') : answer.id,
    object: 'chat.completion',
    created: answer.createdAt ?? context.now,
    model: answer.model === '' ? context.request.model : answer.model,
    choices: answer.choices.map(({ index, parts, finish, logprobs, extras }) => {
      const choice: JsonObject = {
        index,
        message: encodeMessage(parts, style),
        logprobs: chatLogprobs.encode(logprobs),
        finish_reason: answerPart.finish(finish, strict, style.legacy),
      };
      if (!strict) {
        if (finish.stopSequence !== undefined) choice.stop_sequence = finish.stopSequence;
        addExtras(choice, extras);
      }
      return choice;
    }),
  };
  if (answer.usage !== undefined) body.usage = answerPart.usage(answer.usage, strict);
  if (answer.serviceTier !== undefined) body.service_tier = answer.serviceTier;
  if (answer.systemFingerprint !== undefined) body.system_fingerprint = answer.systemFingerprint;
  if (!strict) addExtras(body, answer.extras);
  return Buffer.from(stringifyExact(body));
}

/** The `message` of a choice. */
function encodeMessage(parts: readonly ChatPart[], style: MessageStyle): JsonObject {
  const message: JsonObject = { role: 'assistant', content: null, refusal: null };
  const annotations: JsonObject[] = [];
  const calls: ToolCallPart[] = [];
  const images: JsonObject[] = [];
  for (const part of parts) {
    switch (part.type) {
      case 'text': {
        const before = (message.content as string | null) ?? '';
        message.content = before + part.text;
        for (const citation of part.citations ?? []) {
          const annotation = encodeAnnotation(citation, before.length, part.text.length);
          if (annotation !== undefined) annotations.push(annotation);
        }
        break;
      }
      case 'refusal':
        message.refusal = ((message.refusal as string | null) ?? '') + part.text;
        break;
      case 'reasoning':
        if (part.text !== '') {
          message.reasoning_content = ((message.reasoning_content as string | undefined) ?? '') + part.text;
        }
        break;
      case 'tool-call':
        calls.push(part);
        break;
      case 'audio':
        message.audio = encodeAudio(part, style);
        break;
      case 'image':
        images.push(encodeImage(part, images.length));
        break;
      default:
    }
  }
  if (annotations.length > 0) message.annotations = annotations;
  if (images.length > 0) message.images = images;
  addCalls(message, calls, style);
  if (!style.strict) {
    const blocks = parts.map(contentBlock).filter((block) => block !== undefined);
    if (blocks.length > 0) message.content_blocks = blocks;
  }
  return message;
}

function addCalls(message: JsonObject, calls: readonly ToolCallPart[], style: MessageStyle): void {
  const [first] = calls;
  if (first === undefined) return;
  if (style.legacy) message.function_call = { name: first.name, arguments: first.arguments };
  else message.tool_calls = calls.map(answerPart.toolCall);
}

/** Message form of this exchange. */
function messageStyle({ request, strict, now, newId }: AnswerContext): MessageStyle {
  return { strict, legacy: request.legacyFunctions === true, expiresAt: now, newId };
}

/** Adds extras: this wire's members in their place, those of others under `provider_fields`. */
function addExtras(holder: JsonObject, extras: Extras | undefined): void {
  if (extras === undefined) return;
  const { 'openai-chat': own, ...others } = extras;
  for (const [name, value] of Object.entries(own ?? {})) {
    if (!(name in holder)) holder[name] = value;
  }
  if (Object.keys(others).length > 0) holder.provider_fields = others;
}

/** Options that decide the form of a message. */
interface MessageStyle {
  /**
   * Only documented members and the two that nearly every client supports (`reasoning_content`, thought signatures).
   */
  readonly strict: boolean;
  /** One `function_call` instead of `tool_calls`. */
  readonly legacy: boolean;
  /** Expiry of a recording in Unix seconds, when the provider gives none. */
  readonly expiresAt: number;
  readonly newId: (prefix: string) => string;
}

/** An element of `images`, the form of hosts whose chat models generate images. */
function encodeImage(part: ImagePart, index: number): JsonObject {
  const { source } = part;
  const url = source.kind === 'url' ? source.url : source.kind === 'base64' ? dataUrls.encode(source) : '';
  return { type: 'image_url', image_url: { url }, index };
}

/** The `audio` member of a message or the first delta. */
function encodeAudio(part: AudioPart, style: Pick<MessageStyle, 'expiresAt' | 'newId'>): JsonObject {
  return {
    id: part.id ?? style.newId('audio_'),
    data: part.source.kind === 'base64' ? part.source.data : '',
    transcript: part.transcript ?? '',
    expires_at: part.expiresAt ?? style.expiresAt,
  };
}

/**
 * A part as an element of `content_blocks`, the form in which clients beyond the OpenAI wire get thinking with its
 * signatures, cited text and provider-run tools; undefined for parts with members of their own (calls, audio, images).
 * `text` replaces the part's own in the first event of a stream.
 */
function contentBlock(part: ChatPart): JsonObject | undefined {
  switch (part.type) {
    case 'text': {
      const block: JsonObject = { type: 'text', text: part.text };
      if (part.citations !== undefined) block.citations = part.citations.map(blockCitation);
      if (part.signature !== undefined) block.signature = part.signature;
      return block;
    }
    case 'reasoning':
      if (part.redacted !== undefined) return { type: 'redacted_thinking', data: part.redacted };
      return part.signature === undefined
        ? { type: 'thinking', thinking: part.text }
        : { type: 'thinking', thinking: part.text, signature: part.signature };
    case 'provider-tool': {
      if (part.dialect === 'anthropic-messages') return part.value;
      const { dialect, phase, id, name, value } = part;
      return { type: 'provider_tool', dialect, phase, id, name, value };
    }
    default:
      return undefined;
  }
}

/** A citation within such a block: in its own wire's form, else in general members. */
function blockCitation(citation: Citation): JsonObject {
  if (citation.raw?.dialect === 'anthropic-messages') return citation.raw.value;
  const { kind, url, title, quote, document } = citation;
  const block: JsonObject = { type: kind };
  if (url !== undefined) block.url = url;
  if (title !== undefined) block.title = title;
  if (quote !== undefined) block.cited_text = quote;
  if (document !== undefined) block.document_index = document;
  return block;
}

/**
 * A citation as an element of `annotations`; undefined without a URL, which the form requires. `offset` is the start of
 * the part's text within the message's content, `end` the end within the part: a citation without a position covers the
 * whole part.
 */
function encodeAnnotation(citation: Citation, offset: number, end: number): JsonObject | undefined {
  if (citation.raw?.dialect === 'openai-chat' && offset === 0) return citation.raw.value;
  if (citation.url === undefined) return undefined;
  return {
    type: 'url_citation',
    url_citation: {
      url: citation.url,
      title: citation.title ?? '',
      start_index: offset + (citation.start ?? citation.end ?? 0),
      end_index: offset + (citation.end ?? end),
      ...(citation.quote !== undefined && { content: citation.quote }),
    },
  };
}
