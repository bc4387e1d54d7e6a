import type { Dialect, RequestIssue } from '../../../core/dialects/dialect.ts';
import { asObject } from '../json-reading.ts';
import { bodyIssue } from '../request-issue.ts';
import { answerFacts } from './answer-facts.ts';
import { decodeAnswerTexts } from './answer-texts.ts';
import { geminiClient } from './client-codec.ts';
import { decodeConversation } from './decode-conversation.ts';
import { encodeGeminiError, encodeGeminiStreamError } from './error-shape.ts';
import { geminiFrames } from './frames.ts';
import { readModelPath } from './model-path.ts';
import { GeminiStreamScanner } from './stream-scanner.ts';

export { geminiClient } from './client-codec.ts';
export { geminiProvider, googleGeminiHost } from './host.ts';

/** Google's generateContent wire. Model and streaming stand in the path. */
export const googleGemini: Dialect = {
  name: 'google-gemini',
  validateRequest: (endpoint, body) =>
    bodyIssue(body) ?? (endpoint === 'generate-content' ? contentsIssue(body) : undefined),
  decodeConversation,
  decodeAnswerTexts,
  readCall(path) {
    const call = readModelPath(path);
    return { model: call?.model ?? '', stream: call?.method === 'streamGenerateContent' };
  },
  chat: geminiClient,
  scanAnswer: (_endpoint, body) => answerFacts(body),
  streamScanner: () => new GeminiStreamScanner(),
  frames: geminiFrames,
  encodeError: encodeGeminiError,
  encodeStreamError: encodeGeminiStreamError,
};

function contentsIssue(body: unknown): RequestIssue | undefined {
  if (asObject(body)?.contents !== undefined) return undefined;
  return { param: 'contents', message: 'contents is required and was not given.' };
}
