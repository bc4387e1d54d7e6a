import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatPart, Citation, Extras } from '../../../core/dialects/canonical/chat-part.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import { sourceOfUrl } from '../data-url.ts';
import { asArray, asCount, asObject, asText, type JsonObject } from '../json-reading.ts';
import { decodeAnnotations } from './annotations.ts';
import { BlockReader } from './block-reader.ts';
import { decodeBlock, thinkingText } from './decode-content.ts';
import { decodeFinish } from './finish-reason.ts';
import { decodeLogprobs } from './logprobs.ts';
import { given, unknownMembers } from './member-reading.ts';
import { ToolCallReader } from './tool-call-reader.ts';

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

/** Reads what one choice says, in deltas or as a whole message. */
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

  /** Its finish reason has come. */
  get finished(): boolean {
    return this.rawFinish !== undefined;
  }

  read(choice: JsonObject): void {
    const delta = asObject(choice.delta);
    if (delta !== undefined) {
      this.sawDelta = true;
      this.readDelta(delta, choice.logprobs);
    } else if (!this.sawDelta) {
      // A whole message; behind deltas it only repeats them.
      const message = asObject(choice.message);
      if (message !== undefined) this.readDelta(message, choice.logprobs);
    }
    const reason = asText(choice.finish_reason);
    if (reason !== undefined) {
      this.rawFinish ??= reason;
      this.last = choice;
    }
    this.keep(unknownMembers(choice, knownChoiceMembers));
    const foreign = asObject(choice.provider_fields);
    if (foreign !== undefined) this.foreign = mergeExtras(this.foreign, foreign);
  }

  /** `sources` are those of the whole answer, for a text that cites none itself. */
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
    this.keep(unknownMembers(delta, knownDeltaMembers));
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
      const tokens = logprobs === null || logprobs === undefined ? undefined : decodeLogprobs(logprobs);
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
      builder.reasoning(index, key, thinkingText(part.thinking));
      builder.signature(index, key, asText(part.signature) ?? '');
      return;
    }
    const type = asText(part.type) ?? '';
    if (type === 'image_url') this.readImages([part]);
    else this.whole(decodeBlock(part, type) ?? { type: 'opaque', dialect: 'openai-chat', value: part });
  }

  private readAnnotations(value: unknown): void {
    const citations = value === undefined ? undefined : decodeAnnotations(value);
    if (citations === undefined) return;
    this.isCited = true;
    const key = this.builder.flow(this.index, 'text');
    for (const citation of citations) this.builder.citation(this.index, key, citation);
  }

  /** Tools that Groq's compound systems ran: first without, then with what came out. */
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
      const results = given<JsonObject>({ output, search_results, code_results, browser_results });
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
      if (url !== undefined) this.whole({ type: 'image', source: sourceOfUrl(url, 'image/png') });
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
        given<ChatPart>({
          type: 'audio',
          id: asText(audio.id),
          expiresAt: asCount(audio.expires_at),
          source: { kind: 'base64', mediaType: audioTypes.get(format) ?? `audio/${format}`, data: '' },
        }),
      );
    }
    builder.audio(index, 'audio', asText(audio.data) ?? '', asText(audio.transcript) ?? '');
  }

  /** A part that comes whole. `key` keeps one that is told twice from counting twice. */
  private whole(part: ChatPart, key = `whole:${this.wholeParts++}`): void {
    this.builder.closeFlow(this.index);
    this.builder.open(this.index, key, part);
    this.builder.close(this.index, key);
  }

  /** The last word of each counts; an empty object says nothing. */
  private keep(members: JsonObject | undefined): void {
    for (const name in members) {
      const object = asObject(members[name]);
      if (object !== undefined && Object.keys(object).length === 0) continue;
      (this.extras ??= {})[name] = members[name];
    }
  }
}
