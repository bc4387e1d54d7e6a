import type { TokenCounting } from '../count-tokens.ts';
import { stringifyExact } from '../exact-json.ts';
import { geminiBody, type ModelPathOf } from './encode-request.ts';
import { decodeGeminiError } from './error-shape.ts';
import { modelResource } from './model-path.ts';

/** Gemini's `:countTokens` of a whole request. */
export function geminiTokenCounting(pathOf: ModelPathOf): TokenCounting {
  return {
    encode(request, host, report) {
      const whole = { model: modelResource(host.model), ...geminiBody(request, host, report) };
      return { path: pathOf(host, 'countTokens'), body: stringifyExact({ generateContentRequest: whole }) };
    },
    member: 'totalTokens',
    decodeError: decodeGeminiError,
  };
}
