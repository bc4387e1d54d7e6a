import type { Dialect, RequestIssue } from '../../../core/dialects/dialect.ts';
import { asObject } from '../json-reading.ts';
import { bodyIssue } from '../request-members.ts';
import { answerFacts, encodeGeminiAnswer, GeminiStreamScanner } from './answer.ts';
import { decodeAnswerTexts } from './frame-reader.ts';
import { decodeConversation, decodeGeminiRequest } from './decode-request.ts';
import { encodeGeminiError, encodeGeminiStreamError, providerErrorJson } from './errors.ts';
import { geminiFrames } from './frame-rewriter.ts';
import { readModelPath } from './model-path.ts';
import type { ChatClientCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { GeminiEventWriter } from './event-writer.ts';

/** Client codec of `generateContent` and `streamGenerateContent`. */
export const geminiClient: ChatClientCodec = {
  decodeRequest: decodeGeminiRequest,
  encodeAnswer: encodeGeminiAnswer,
  eventWriter: (context) => new GeminiEventWriter(context),
  encodeProviderError: (error, context) => Buffer.from(providerErrorJson(error, context)),
};

export { geminiProvider, googleGeminiHost } from './host.ts';

/** Google's generateContent wire. The path names the model and streaming. */
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
