import type { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import { AudioJoiner } from './audio-joiner.ts';
import { CallReader } from './call-reader.ts';
import { decodeFinishReason } from './finish-reason.ts';
import { decodeGrounding } from './grounding.ts';
import { decodeLogprobs } from './logprobs.ts';
import { decodeFileData, decodeInlineData } from './media.ts';
import { knownMembers, member, memberObject, otherMembers } from './member.ts';
import { decodeOwnPart, signed, unsigned, type ToolNumbers } from './provider-tool.ts';

const known = knownMembers(['content', 'finishReason', 'index', 'logprobsResult']);

/** What one candidate of a stream says, event by event; a complete answer is one event. */
export class CandidateReader {
  private readonly builder: ChatEventBuilder;
  private readonly choice: number;
  private readonly calls: CallReader;
  private readonly numbers: ToolNumbers;
  private extras: JsonObject | undefined;
  private reason: string | undefined;
  /** The text part that is open, and its text so far: segments of sources are found in it. */
  private textKey = '';
  private texts: string[] = [];
  /** The open text or thought bears a signature: what follows is another part. */
  private sealed = false;
  private audio: { readonly key: string; readonly joiner: AudioJoiner } | undefined;
  private whole = 0;

  constructor(builder: ChatEventBuilder, choice: number, context: DecodeContext) {
    this.builder = builder;
    this.choice = choice;
    this.calls = new CallReader(builder, choice, context);
    this.numbers = { lastId: '', newId: context.newId };
  }

  /** A reason for the finish has come. */
  get isComplete(): boolean {
    return this.reason !== undefined;
  }

  read(candidate: JsonObject): void {
    let logprobs = decodeLogprobs(member(candidate, 'logprobsResult'));
    const content = asObject(candidate.content);
    for (const value of asArray(content?.parts)) {
      const part = asObject(value);
      if (part !== undefined && this.readPart(part, logprobs)) logprobs = undefined;
    }
    // A candidate without text tells the probabilities of nothing.
    if (logprobs !== undefined && this.textKey !== '')
      this.builder.text(this.choice, this.textKey, '', logprobs);
    this.reason = asText(member(candidate, 'finishReason')) ?? this.reason;
    const others = otherMembers(candidate, known);
    if (others !== undefined)
      this.extras = this.extras === undefined ? others : Object.assign(this.extras, others);
  }

  /** The stream is over: ends what is open, and the choice when a reason has come. */
  finish(): void {
    const { builder, choice, extras, reason } = this;
    this.calls.end();
    this.endAudio();
    const grounding = extras === undefined ? undefined : memberObject(extras, 'groundingMetadata');
    if (grounding !== undefined && builder.isOpen(choice, this.textKey))
      for (const citation of decodeGrounding(grounding, this.texts.join('')))
        builder.citation(choice, this.textKey, citation);
    if (reason === undefined) return;
    const finish = decodeFinishReason(reason, this.calls.hasCalls);
    if (finish.reason === 'content-filter' && this.whole === 0 && this.textKey === '') this.refuse(reason);
    builder.finish(choice, finish, extras === undefined ? undefined : { 'google-gemini': extras });
  }

  /** Says in a sentence that nothing was answered. */
  refuse(reason: string): void {
    const message = this.extras === undefined ? undefined : asText(member(this.extras, 'finishMessage'));
    const key = this.builder.flow(this.choice, 'refusal');
    this.builder.text(this.choice, key, message ?? `The provider blocked the answer (${reason}).`);
  }

  /** Returns true when the log probabilities were given out. */
  private readPart(part: JsonObject, logprobs: readonly TokenLogprob[] | undefined): boolean {
    const signature = asText(member(part, 'thoughtSignature'));
    if (typeof part.text === 'string') return this.readText(part, part.text, signature, logprobs);
    const call = memberObject(part, 'functionCall');
    if (call !== undefined) {
      this.endAudio();
      this.calls.read(call, signature);
      return false;
    }
    this.calls.end();
    // A picture within the thoughts is a draft, no part of the answer.
    const blob = part.thought === true ? undefined : memberObject(part, 'inlineData');
    const media = blob === undefined ? undefined : decodeInlineData(blob);
    if (media?.type === 'audio' && media.source.kind === 'base64') {
      this.readAudio(media.source.mediaType, media.source.data);
      return false;
    }
    this.endAudio();
    const file = memberObject(part, 'fileData');
    const decoded =
      media ?? (file === undefined ? decodeOwnPart(unsigned(part), this.numbers) : decodeFileData(file));
    const key = `whole:${this.whole++}`;
    this.builder.closeFlow(this.choice);
    this.builder.open(this.choice, key, signed(decoded, undefined));
    if (signature !== undefined) this.builder.signature(this.choice, key, signature);
    this.builder.close(this.choice, key);
    return false;
  }

  private readText(
    part: JsonObject,
    text: string,
    signature: string | undefined,
    logprobs: readonly TokenLogprob[] | undefined,
  ): boolean {
    if (text === '' && signature === undefined) return false;
    const { builder, choice } = this;
    this.calls.end();
    this.endAudio();
    if (this.sealed) builder.closeFlow(choice);
    this.sealed = signature !== undefined;
    const isThought = part.thought === true;
    const key = builder.flow(choice, isThought ? 'reasoning' : 'text');
    if (isThought) builder.reasoning(choice, key, text);
    else {
      if (key !== this.textKey) this.texts = [];
      this.textKey = key;
      this.texts.push(text);
      builder.text(choice, key, text, logprobs);
    }
    if (signature !== undefined) builder.signature(choice, key, signature);
    return !isThought;
  }

  private readAudio(mediaType: string, data: string): void {
    if (this.audio === undefined) {
      const key = `whole:${this.whole++}`;
      this.audio = { key, joiner: new AudioJoiner() };
      this.builder.closeFlow(this.choice);
      const source = { kind: 'base64', mediaType, data: '' } as const;
      this.builder.open(this.choice, key, { type: 'audio', source });
    }
    this.builder.audio(this.choice, this.audio.key, this.audio.joiner.push(data), '');
  }

  private endAudio(): void {
    const { audio } = this;
    if (audio === undefined) return;
    this.audio = undefined;
    this.builder.audio(this.choice, audio.key, audio.joiner.finish(), '');
    this.builder.close(this.choice, audio.key);
  }
}
