import { ChatEventBuilder, cutShort } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asCount, asObject, asText } from '../json-reading.ts';
import { CandidateReader } from './candidate-reader.ts';
import { readError } from './error-shape.ts';
import { knownMembers, member, memberObject, otherMembers } from './member.ts';
import { decodeGeminiUsage, joinUsage } from './usage.ts';

const known = knownMembers([
  'candidates',
  'usageMetadata',
  'modelVersion',
  'responseId',
  'createTime',
  'promptFeedback',
]);

/**
 * Turns the objects of an answer (one, or the events of a stream) into canonical events. A candidate finishes when the
 * answer is over, not with its `finishReason`: some hosts send one with every event, and sources may follow it.
 */
export class AnswerReader {
  readonly builder = new ChatEventBuilder();
  private readonly context: DecodeContext;
  private readonly candidates = new Map<number, CandidateReader>();
  private usage: JsonObject | undefined;
  private extras: JsonObject | undefined;
  private feedback: JsonObject | undefined;

  constructor(context: DecodeContext) {
    this.context = context;
  }

  /** Every candidate has come with a reason for its finish. */
  get isComplete(): boolean {
    const begun = [...this.candidates.values()];
    return begun.length > 0 && begun.every(({ isComplete }) => isComplete);
  }

  read(json: JsonObject): void {
    const error = readError(json);
    if (error !== undefined) {
      this.writeUsage();
      this.builder.error(error);
      return;
    }
    this.start(json);
    const usage = memberObject(json, 'usageMetadata');
    if (usage !== undefined) this.usage = joinUsage(this.usage, usage);
    const feedback = memberObject(json, 'promptFeedback');
    if (feedback !== undefined) this.feedback = feedback;
    const candidates = asArray(json.candidates);
    for (let i = 0; i < candidates.length; i++) {
      const candidate = asObject(candidates[i]);
      if (candidate !== undefined) this.candidate(asCount(candidate.index) ?? i).read(candidate);
    }
    const others = otherMembers(json, known);
    if (others !== undefined)
      this.extras = this.extras === undefined ? others : Object.assign(this.extras, others);
  }

  /** The answer is over. */
  finish(): void {
    const { builder } = this;
    if (builder.ended) return;
    const blocked = asText(member(this.feedback ?? {}, 'blockReason'));
    if (this.candidates.size === 0 && blocked !== undefined) this.finishBlocked(blocked);
    for (const candidate of this.candidates.values()) candidate.finish();
    if (this.feedback !== undefined) this.keep({ promptFeedback: this.feedback });
    if (this.extras !== undefined) builder.extras({ 'google-gemini': this.extras });
    this.writeUsage();
    if (this.candidates.size === 0 && blocked === undefined)
      builder.error({ ...cutShort, message: 'The provider answered without a candidate.' });
    else builder.complete();
  }

  private start(json: JsonObject): void {
    if (this.builder.hasStarted) return;
    const { model } = this.context.request;
    const created = Date.parse(asText(member(json, 'createTime')) ?? '');
    const usage = memberObject(json, 'usageMetadata');
    this.builder.start({
      id: asText(member(json, 'responseId')) ?? '',
      model: asText(member(json, 'modelVersion')) ?? model,
      createdAt: Number.isNaN(created) ? undefined : Math.floor(created / 1000),
      serviceTier: usage === undefined ? undefined : asText(member(usage, 'serviceTier')),
    });
  }

  /** The wire answers a blocked prompt without candidates; the client gets a choice that says so. */
  private finishBlocked(reason: string): void {
    const key = this.builder.flow(0, 'refusal');
    const message = asText(member(this.feedback ?? {}, 'blockReasonMessage'));
    this.builder.text(0, key, message ?? `The provider blocked the prompt (${reason}).`);
    this.builder.finish(0, { reason: 'content-filter', raw: reason });
  }

  private keep(members: JsonObject): void {
    this.extras = Object.assign(this.extras ?? {}, members);
  }

  private writeUsage(): void {
    const usage = decodeGeminiUsage(this.usage);
    if (usage !== undefined) this.builder.usage(usage);
  }

  private candidate(index: number): CandidateReader {
    let candidate = this.candidates.get(index);
    if (candidate === undefined) {
      candidate = new CandidateReader(this.builder, index, this.context);
      this.candidates.set(index, candidate);
    }
    return candidate;
  }
}
