import type { Finish, FinishReason } from '../../../core/dialects/canonical/chat-answer.ts';

/** The wire's words that do not mean that the model simply stopped. */
const meanings: Readonly<Record<string, FinishReason>> = {
  STOP: 'stop',
  MAX_TOKENS: 'length',
  SAFETY: 'content-filter',
  RECITATION: 'content-filter',
  BLOCKLIST: 'content-filter',
  PROHIBITED_CONTENT: 'content-filter',
  SPII: 'content-filter',
  MODEL_ARMOR: 'content-filter',
  IMAGE_SAFETY: 'content-filter',
  IMAGE_PROHIBITED_CONTENT: 'content-filter',
  IMAGE_RECITATION: 'content-filter',
  MALFORMED_FUNCTION_CALL: 'error',
  MALFORMED_RESPONSE: 'error',
  UNEXPECTED_TOOL_CALL: 'error',
  TOO_MANY_TOOL_CALLS: 'error',
  MISSING_THOUGHT_SIGNATURE: 'error',
  NO_IMAGE: 'error',
  LANGUAGE: 'unknown',
  OTHER: 'unknown',
  IMAGE_OTHER: 'unknown',
  FINISH_REASON_UNSPECIFIED: 'unknown',
};

const words: Readonly<Record<FinishReason, string>> = {
  stop: 'STOP',
  'tool-calls': 'STOP',
  length: 'MAX_TOKENS',
  'content-filter': 'SAFETY',
  pause: 'OTHER',
  error: 'OTHER',
  unknown: 'OTHER',
};

/** What a `finishReason` says. The wire has no word for "answer these calls": a stop with calls means it. */
export function decodeFinishReason(raw: string, hasCalls: boolean): Finish {
  const reason = Object.hasOwn(meanings, raw) ? (meanings[raw] as FinishReason) : 'unknown';
  return { reason: reason === 'stop' && hasCalls ? 'tool-calls' : reason, raw };
}

/** The wire's word for a finish; one of its own stays as it was. */
export function encodeFinishReason({ reason, raw }: Finish): string {
  return Object.hasOwn(meanings, raw) ? raw : words[reason];
}
