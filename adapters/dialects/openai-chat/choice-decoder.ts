import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatPart, Citation, Extras } from '../../../core/dialects/canonical/chat-part.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import { dataUrls, requestMember } from '../request-members.ts';
import { asArray, asCount, asObject, asText, type JsonObject, stringifyExact } from '../json-reading.ts';
import { chatLogprobs, decodeAnnotations } from './answer.ts';
import { contentBlock } from './decode-messages.ts';
import type { Finish, FinishReason } from '../../../core/dialects/canonical/chat-answer.ts';

/** Finish reasons of the hosts of the family, in lower case. */
const reasons: ReadonlyMap<string, FinishReason> = new Map(
  Object.entries({
    stop: 'stop',
    eos: 'stop',
    eos_token: 'stop',
    end_turn: 'stop',
    end: 'stop',
    complete: 'stop',
    completed: 'stop',
    stop_sequence: 'stop',
    length: 'length',
    max_tokens: 'length',
    max_output_tokens: 'length',
    model_length: 'length',
    max_length: 'length',
    error_limit: 'length',
    tool_calls: 'tool-calls',
    tool_call: 'tool-calls',
    tool_use: 'tool-calls',
    function_call: 'tool-calls',
    content_filter: 'content-filter',
    safety: 'content-filter',
    sensitive: 'content-filter',
    recitation: 'content-filter',
    pause_turn: 'pause',
    error: 'error',
    error_toxic: 'content-filter',
    network_error: 'error',
    abort: 'error',
    aborted: 'error',
    malformed_function_call: 'error',
    insufficient_system_resource: 'error',
  } satisfies Record<string, FinishReason>),
);

/**
 * Finish of a choice. The calls, not the reason, decide whether the client must answer calls: hosts write `stop` beside
 * calls, and `tool_calls` for tools that they ran themselves. `choice` may name the matched stop sequence.
 */
function decodeFinish(raw: string, hasCalls: boolean, choice: JsonObject): Finish {
  const word = reasons.get(raw.toLowerCase()) ?? 'unknown';
  let reason = word;
  if (hasCalls && (word === 'stop' || word === 'unknown')) reason = 'tool-calls';
  else if (!hasCalls && word === 'tool-calls') reason = 'stop';
  const stopSequence = asText(choice.stop_sequence) ?? asText(choice.stop_reason);
  return stopSequence === undefined ? { reason, raw } : { reason, raw, stopSequence };
}

interface CallState {
  readonly key: string;
  /** Number of the call on the wire. */
  readonly index: number | undefined;
  /** Id of the call on the wire. */
  id: string | undefined;
  opened: boolean;
  custom: boolean;
  /** Arguments received before the name. */
  pending: string;
  said: string;
}

/** Reads the calls of one choice, whole or in deltas, with or without indexes, ids and names. */
class ToolCallReader {
  private readonly builder: ChatEventBuilder;
  private readonly newId: (prefix: string) => string;
  private readonly choice: number;
  private readonly calls: CallState[] = [];

  constructor(builder: ChatEventBuilder, choice: number, newId: (prefix: string) => string) {
    this.builder = builder;
    this.choice = choice;
    this.newId = newId;
  }

  /** The choice holds a call that the client must answer. */
  get hasCalls(): boolean {
    return this.calls.some(({ opened }) => opened);
  }

  /** `tool_calls` and `function_call` of a delta or a message. */
  read(delta: JsonObject): void {
    for (const item of asArray(delta.tool_calls)) {
      const call = asObject(item);
      if (call !== undefined) this.readCall(call);
    }
    const legacy = asObject(delta.function_call);
    if (legacy !== undefined) this.readCall({ index: -1, function: legacy });
  }

  /** Handles the end of the choice: a call without a name is still emitted, unless it is empty. */
  finish(): void {
    for (const call of this.calls) if (!call.opened && call.pending !== '') this.open(call, '');
  }

  private readCall(item: JsonObject): void {
    const custom = asObject(item.custom);
    const definition = asObject(item.function) ?? custom ?? item;
    const name = asText(definition.name);
    const call = this.find(item, name);
    call.id ??= asText(item.id);
    if (definition === custom) call.custom = true;
    if (!call.opened && name !== undefined) this.open(call, name);
    const text = call.custom ? definition.input : definition.arguments;
    const members = asObject(text);
    this.append(call, members === undefined ? (asText(text) ?? '') : stringifyExact(members));
    const signature = contentBlock.thoughtSignature(item);
    if (signature !== undefined && call.opened) this.builder.signature(this.choice, call.key, signature);
  }

  private find(item: JsonObject, name: string | undefined): CallState {
    const index = typeof item.index === 'number' ? item.index : undefined;
    const id = asText(item.id);
    let found: CallState | undefined;
    if (index !== undefined) {
      found = this.calls.findLast((call) => call.index === index);
      // Some hosts number every call 0, so that only the id distinguishes them.
      if (found?.id !== undefined && id !== undefined && found.id !== id && name !== undefined)
        found = undefined;
    } else if (id !== undefined) found = this.calls.findLast((call) => call.id === id);
    else if (name === undefined) found = this.calls.at(-1);
    if (found !== undefined) return found;
    const call: CallState = {
      key: `call:${this.calls.length}`,
      index,
      id,
      opened: false,
      custom: false,
      pending: '',
      said: '',
    };
    this.closeComplete();
    this.calls.push(call);
    return call;
  }

  /** A call with complete arguments ends when the next one starts, so that writers need not hold it back. */
  private closeComplete(): void {
    const last = this.calls.at(-1);
    if (last !== undefined && isWhole(last.said)) this.builder.close(this.choice, last.key);
  }

  private open(call: CallState, name: string): void {
    call.opened = true;
    this.builder.closeFlow(this.choice);
    this.builder.open(this.choice, call.key, {
      type: 'tool-call',
      id: call.id ?? this.newId('call_'),
      name,
      kind: call.custom ? 'custom' : 'function',
      arguments: '',
    });
    const { pending } = call;
    call.pending = '';
    this.append(call, pending);
  }

  private append(call: CallState, text: string): void {
    if (text === '') return;
    if (!call.opened) {
      call.pending += text;
      return;
    }
    // A placeholder before the real arguments; when none follow, the builder writes it.
    if (!call.custom && call.said === '' && text === '{}') return;
    // Some hosts repeat the whole arguments in a last event.
    if (!call.custom && text === call.said && isWhole(text)) return;
    call.said += text;
    this.builder.arguments(this.choice, call.key, text);
  }
}

function isWhole(json: string): boolean {
  if (!json.trimEnd().endsWith('}')) return false;
  try {
    JSON.parse(json);
    return true;
  } catch {
    return false;
  }
}

/** Reads `content_blocks`, which another gateway writes beside the plain members with the same content. */
class BlockReader {
  private readonly builder: ChatEventBuilder;
  private readonly choice: number;
  private count = 0;

  constructor(builder: ChatEventBuilder, choice: number) {
    this.builder = builder;
    this.choice = choice;
  }

  /** False when there are none, so that the plain members must be read. */
  read(value: unknown): boolean {
    let found = false;
    for (const item of asArray(value)) {
      const block = asObject(item);
      const delta = asObject(block?.delta);
      if (block === undefined || (delta === undefined && asText(block.type) === undefined)) continue;
      found = true;
      if (delta === undefined) {
        for (const part of contentBlock.decodeContent(block)) this.whole(part, `block:whole:${this.count++}`);
      } else this.delta(delta, `block:${asCount(block.index) ?? ''}`);
    }
    return found;
  }

  private delta(delta: JsonObject, key: string): void {
    const { builder, choice } = this;
    const text = asText(delta.text);
    const thinking = asText(delta.thinking);
    const type = asText(delta.type) ?? '';
    if (text !== undefined) {
      this.open(key, { type: 'text', text: '' });
      builder.text(choice, key, text);
    } else if (thinking !== undefined) {
      this.open(key, { type: 'reasoning', text: '' });
      builder.reasoning(choice, key, thinking);
    } else if (asText(delta.data) !== undefined && (type === '' || type === 'redacted_thinking')) {
      this.whole({ type: 'reasoning', text: '', redacted: asText(delta.data) ?? '' }, key);
    } else if (type !== '') {
      const part = contentBlock.decode(delta, type);
      if (part?.type === 'provider-tool') this.whole(part, key);
    }
    const citation = asObject(delta.citation);
    if (citation !== undefined) this.cite(citation, key);
    const signature = asText(delta.signature);
    if (signature !== undefined) builder.signature(choice, key, signature);
  }

  private cite(citation: JsonObject, key: string): void {
    const [part] = contentBlock.decodeContent({ type: 'text', text: '', citations: [citation] });
    if (part?.type !== 'text') return;
    this.open(key, { type: 'text', text: '' });
    for (const one of part.citations ?? []) this.builder.citation(this.choice, key, one);
  }

  /** Blocks are sequential: the start of one ends the one before it. */
  private open(key: string, head: ChatPart): void {
    if (this.builder.isOpen(this.choice, key)) return;
    this.builder.closeFlow(this.choice);
    this.builder.open(this.choice, key, head);
  }

  private whole(part: ChatPart, key: string): void {
    const { builder, choice } = this;
    const { signature, ...head } = part;
    if (head.type === 'text') {
      const { citations, ...plain } = head;
      this.open(key, { ...plain, text: '' });
      builder.text(choice, key, head.text);
      for (const citation of citations ?? []) builder.citation(choice, key, citation);
    } else if (head.type === 'reasoning') {
      this.open(key, { ...head, text: '' });
      builder.reasoning(choice, key, head.text);
    } else this.open(key, head);
    if (signature !== undefined) builder.signature(choice, key, signature);
    builder.close(choice, key);
  }
}

const knownChoiceMembers: ReadonlySet<string> = new Set([
  ...['index', 'delta', 'message', 'finish_reason', 'logprobs', 'usage', 'stop_sequence', 'stop_reason'],
  // The text of a text completion, which its decoder turns into a delta.
  ...['provider_fields', 'text'],
]);
const knownDeltaMembers: ReadonlySet<string> = new Set([
  ...['index', 'role', 'content', 'reasoning_content', 'reasoning', 'reasoning_details', 'refusal'],
  ...['tool_calls', 'function_call', 'annotations', 'audio', 'images', 'executed_tools', 'content_blocks'],
]);

const audioTypes: ReadonlyMap<string, string> = new Map([
  ['mp3', 'audio/mpeg'],
  ['pcm16', 'audio/pcm'],
]);

/** Reads one choice, in deltas or as a whole message. */
export class ChoiceDecoder {
  readonly index: number;
  private readonly builder: ChatEventBuilder;
  private readonly context: DecodeContext;
  private readonly calls: ToolCallReader;
  private readonly blocks: BlockReader;
  private rawFinish: string | undefined;
  private last: JsonObject = {};
  private extras: JsonObject | undefined;
  private foreign: Extras | undefined;
  private sawDelta = false;
  private isCited = false;
  private wholeParts = 0;

  constructor(builder: ChatEventBuilder, index: number, context: DecodeContext) {
    this.builder = builder;
    this.index = index;
    this.context = context;
    this.calls = new ToolCallReader(builder, index, context.newId);
    this.blocks = new BlockReader(builder, index);
  }

  /** The finish reason has arrived. */
  get finished(): boolean {
    return this.rawFinish !== undefined;
  }

  read(choice: JsonObject): void {
    const delta = asObject(choice.delta);
    if (delta !== undefined) {
      this.sawDelta = true;
      this.readDelta(delta, choice.logprobs);
    } else if (!this.sawDelta) {
      // A whole message; after deltas it only repeats them.
      const message = asObject(choice.message);
      if (message !== undefined) this.readDelta(message, choice.logprobs);
    }
    const reason = asText(choice.finish_reason);
    if (reason !== undefined) {
      this.rawFinish ??= reason;
      this.last = choice;
    }
    this.keep(requestMember.unknown(choice, knownChoiceMembers));
    const foreign = asObject(choice.provider_fields);
    if (foreign !== undefined) this.foreign = mergeExtras(this.foreign, foreign);
  }

  /** `sources` are those of the whole answer, for a text without citations of its own. */
  finish(sources: readonly Citation[]): void {
    const { builder, index } = this;
    this.calls.finish();
    if (!this.isCited && sources.length > 0) {
      const key = builder.flow(index, 'text');
      for (const source of sources) builder.citation(index, key, source);
    }
    const own = this.extras === undefined ? undefined : { 'openai-chat': this.extras };
    const extras = mergeExtras(own, this.foreign);
    builder.finish(index, decodeFinish(this.rawFinish ?? '', this.calls.hasCalls, this.last), extras);
  }

  private readDelta(delta: JsonObject, logprobs: unknown): void {
    if (!this.blocks.read(delta.content_blocks)) {
      this.readThoughts(delta);
      this.readContent(delta.content, logprobs);
    }
    const refusal = asText(delta.refusal);
    if (refusal !== undefined)
      this.builder.text(this.index, this.builder.flow(this.index, 'refusal'), refusal);
    this.readAnnotations(delta.annotations);
    this.readExecutedTools(delta.executed_tools);
    this.readImages(delta.images);
    this.readAudio(delta.audio);
    this.calls.read(delta);
    this.keep(requestMember.unknown(delta, knownDeltaMembers));
  }

  private readThoughts(delta: JsonObject): void {
    const { builder, index } = this;
    const text = asText(delta.reasoning_content) ?? asText(delta.reasoning);
    if (text !== undefined) builder.reasoning(index, builder.flow(index, 'reasoning'), text);
    const details = asArray(delta.reasoning_details);
    for (const item of details) {
      const detail = asObject(item);
      if (detail === undefined) continue;
      const said = asText(detail.text) ?? asText(detail.summary);
      if (said !== undefined && text === undefined) {
        builder.reasoning(index, builder.flow(index, 'reasoning'), said);
      }
      const signature = asText(detail.signature);
      if (signature !== undefined) builder.signature(index, builder.flow(index, 'reasoning'), signature);
      const redacted = asText(detail.data);
      if (redacted !== undefined) this.whole({ type: 'reasoning', text: '', redacted });
    }
  }

  private readContent(content: unknown, logprobs: unknown): void {
    const { builder, index } = this;
    if (typeof content === 'string') {
      const tokens = logprobs === null || logprobs === undefined ? undefined : chatLogprobs.decode(logprobs);
      if (content !== '' || tokens !== undefined) {
        builder.text(index, builder.flow(index, 'text'), content, tokens);
      }
      return;
    }
    for (const item of asArray(content)) {
      const part = asObject(item);
      const text = part === undefined ? asText(item) : part.type === 'text' ? asText(part.text) : undefined;
      if (text !== undefined) builder.text(index, builder.flow(index, 'text'), text);
      else if (part !== undefined && part.type !== 'text') this.readPart(part);
    }
  }

  private readPart(part: JsonObject): void {
    const { builder, index } = this;
    if (part.type === 'thinking') {
      const key = builder.flow(index, 'reasoning');
      builder.reasoning(index, key, contentBlock.thinkingText(part.thinking));
      builder.signature(index, key, asText(part.signature) ?? '');
      return;
    }
    const type = asText(part.type) ?? '';
    if (type === 'image_url') this.readImages([part]);
    else
      this.whole(contentBlock.decode(part, type) ?? { type: 'opaque', dialect: 'openai-chat', value: part });
  }

  private readAnnotations(value: unknown): void {
    const citations = value === undefined ? undefined : decodeAnnotations(value);
    if (citations === undefined) return;
    this.isCited = true;
    const key = this.builder.flow(this.index, 'text');
    for (const citation of citations) this.builder.citation(this.index, key, citation);
  }

  /** Tools that Groq's compound systems ran: first without, then with their output. */
  private readExecutedTools(value: unknown): void {
    for (const [position, item] of asArray(value).entries()) {
      const tool = asObject(item);
      if (tool === undefined) continue;
      const number = typeof tool.index === 'number' ? tool.index : position;
      const id = asText(tool.id) ?? `executed_tool_${number}`;
      const name = asText(tool.name) ?? asText(tool.type) ?? 'tool';
      const { output, search_results, code_results, browser_results, ...call } = tool;
      this.whole(
        { type: 'provider-tool', dialect: 'openai-chat', phase: 'call', id, name, value: call },
        `executed:${id}`,
      );
      const results = requestMember.given<JsonObject>({
        output,
        search_results,
        code_results,
        browser_results,
      });
      if (output === undefined || output === null) continue;
      this.whole(
        { type: 'provider-tool', dialect: 'openai-chat', phase: 'result', id, name, value: results },
        `executed:${id}:result`,
      );
    }
  }

  private readImages(value: unknown): void {
    for (const item of asArray(value)) {
      const image = asObject(item);
      const url = asText(asObject(image?.image_url)?.url) ?? asText(image?.image_url);
      if (url !== undefined) this.whole({ type: 'image', source: dataUrls.source(url, 'image/png') });
    }
  }

  private readAudio(value: unknown): void {
    const audio = asObject(value);
    if (audio === undefined) return;
    const { builder, index } = this;
    if (!builder.isOpen(index, 'audio')) {
      const format = asText(this.context.request.audio?.format) ?? 'wav';
      builder.closeFlow(index);
      builder.open(
        index,
        'audio',
        requestMember.given<ChatPart>({
          type: 'audio',
          id: asText(audio.id),
          expiresAt: asCount(audio.expires_at),
          source: { kind: 'base64', mediaType: audioTypes.get(format) ?? `audio/${format}`, data: '' },
        }),
      );
    }
    builder.audio(index, 'audio', asText(audio.data) ?? '', asText(audio.transcript) ?? '');
  }

  /** A part that arrives whole. `key` prevents a repeated one from counting twice. */
  private whole(part: ChatPart, key = `whole:${this.wholeParts++}`): void {
    this.builder.closeFlow(this.index);
    this.builder.open(this.index, key, part);
    this.builder.close(this.index, key);
  }

  /** The last value of each member counts; empty objects are ignored. */
  private keep(members: JsonObject | undefined): void {
    for (const name in members) {
      const object = asObject(members[name]);
      if (object !== undefined && Object.keys(object).length === 0) continue;
      (this.extras ??= {})[name] = members[name];
    }
  }
}
