import type { Finish, FinishReason } from '../../../core/dialects/canonical/chat-answer.ts';

const reasons: Readonly<Record<string, FinishReason>> = {
  COMPLETE: 'stop',
  STOP_SEQUENCE: 'stop',
  MAX_TOKENS: 'length',
  TOOL_CALL: 'tool-calls',
  ERROR: 'error',
  TIMEOUT: 'error',
  ERROR_LIMIT: 'length',
  ERROR_TOXIC: 'content-filter',
};

/** Why an answer ended; it waits for tools exactly when it holds calls (`hasCalls`). */
export function decodeFinish(raw: string, hasCalls: boolean): Finish {
  const reason = Object.hasOwn(reasons, raw) ? (reasons[raw] as FinishReason) : 'unknown';
  if (reason === 'tool-calls' && !hasCalls) return { reason: 'stop', raw };
  return { reason: reason === 'stop' && hasCalls ? 'tool-calls' : reason, raw };
}
