import type { AnswerFacts } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { asArray, asBuffer, asObject, asText, parseObject, type JsonObject } from '../json-reading.ts';
import { openAiErrorMessage } from '../openai-error.ts';
import { decodeOpenAiUsage } from '../openai-usage.ts';

const usageMember = Buffer.from('"usage"');
const modelMember = Buffer.from('"model"');
/** From this size on an embeddings answer is not parsed: it is nearly all vectors. */
const largeAnswerBytes = 8 * 1024;
/** What surrounds the vectors is short; a `usage` object longer than this is none. */
const maxMemberBytes = 4 * 1024;

/** Facts of a complete answer. Never throws; an answer that is no JSON object has none. */
export function scanAnswer(endpoint: EndpointId, body: Uint8Array): AnswerFacts {
  const bytes = asBuffer(body);
  if (endpoint === 'embeddings' && bytes.length > largeAnswerBytes) {
    const facts = scanAroundVectors(bytes);
    if (facts !== undefined) return facts;
  }
  const json = parseObject(bytes.toString('utf8'));
  if (json === undefined) return {};
  const facts: AnswerFacts = {};
  const usage = usageOf(json);
  if (usage !== undefined) facts.usage = usage;
  const model = asText(json.model);
  if (model !== undefined) facts.model = model;
  const finishReason = finishReasons(json);
  if (finishReason !== '') facts.finishReason = finishReason;
  const errorMessage = openAiErrorMessage(json);
  if (errorMessage !== undefined) facts.errorMessage = errorMessage;
  return facts;
}

/** The finish reasons of all choices, comma-separated. */
function finishReasons(json: JsonObject): string {
  let reasons = '';
  for (const choice of asArray(json.choices)) {
    const reason = asText(asObject(choice)?.finish_reason);
    if (reason !== undefined) reasons = reasons === '' ? reason : `${reasons},${reason}`;
  }
  return reasons;
}

/** The usage of an answer or a stream event, wherever a compatible host puts it. */
export function usageOf(json: JsonObject): Usage | undefined {
  const direct = decodeOpenAiUsage(json.usage) ?? decodeOpenAiUsage(asObject(json.x_groq)?.usage);
  if (direct !== undefined) return direct;
  for (const choice of asArray(json.choices)) {
    const usage = decodeOpenAiUsage(asObject(choice)?.usage);
    if (usage !== undefined) return usage;
  }
  return undefined;
}

/** `usage` and `model` stand before or behind the vectors, which hold no member names of their own. */
function scanAroundVectors(bytes: Buffer): AnswerFacts | undefined {
  const usageText = memberText(bytes, usageMember, '}');
  const usage = usageText === undefined ? undefined : decodeOpenAiUsage(parseObject(`{${usageText}}`)?.usage);
  if (usage === undefined) return undefined;
  const modelText = memberText(bytes, modelMember, '"');
  const model = modelText === undefined ? undefined : asText(parseObject(`{${modelText}}`)?.model);
  return model === undefined ? { usage } : { usage, model };
}

/** A member from its name to the last `closing` from which it can be parsed. */
function memberText(bytes: Buffer, name: Buffer, closing: string): string | undefined {
  const start = bytes.lastIndexOf(name);
  if (start === -1) return undefined;
  const text = bytes.toString('utf8', start, start + maxMemberBytes);
  for (let end = text.indexOf(closing, name.length); end !== -1; end = text.indexOf(closing, end + 1)) {
    const member = text.slice(0, end + 1);
    if (parseObject(`{${member}}`) !== undefined) return member;
  }
  return undefined;
}
