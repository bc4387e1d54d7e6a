import type { TokenCounting } from '../count-tokens.ts';
import { stringifyExact } from '../exact-json.ts';
import type { JsonObject } from '../json-reading.ts';
import { decodeOpenAiError } from '../openai-error.ts';
import { responsesBody } from './encode-request.ts';

/** What counts of a Responses request: https://platform.openai.com/docs/api-reference/responses/input-tokens */
const counted = 'model input instructions tools tool_choice parallel_tool_calls reasoning text truncation';

/** OpenAI's count of the input of a Responses request. */
export const responsesTokenCounting: TokenCounting = {
  encode(request, host, report) {
    const whole = responsesBody(request, host, report);
    const body: JsonObject = {};
    for (const name of counted.split(' ')) if (whole[name] !== undefined) body[name] = whole[name];
    return { path: '/responses/input_tokens', body: stringifyExact(body) };
  },
  member: 'input_tokens',
  decodeError: decodeOpenAiError,
};
