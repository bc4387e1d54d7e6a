import { countTokens } from '../answer-text.ts';
import { invalid, jsonAnswer, type MockAnswer } from '../answer.ts';
import {
  type MockContext,
  type MockRequest,
  optionalInteger,
  optionalText,
  requiredText,
} from '../request.ts';

/** A PNG of one transparent pixel. */
const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
const outputTokens = 1;

/** POST /images/generations: a tiny PNG, as base64 or (`response_format: url`) as a data URL. */
export function answerImages(request: MockRequest, context: MockContext): MockAnswer {
  const body = request.json;
  const prompt = requiredText(body, 'prompt');
  const n = optionalInteger(body, 'n', 1, 10) ?? 1;
  const format = optionalText(body, 'response_format') ?? 'b64_json';
  if (format !== 'b64_json' && format !== 'url') {
    throw invalid('response_format', "Invalid 'response_format': expected url or b64_json.");
  }
  const image = format === 'url' ? { url: `data:image/png;base64,${pixel}` } : { b64_json: pixel };
  const input = countTokens(prompt);
  const usage = {
    input_tokens: input,
    input_tokens_details: { text_tokens: input, image_tokens: 0 },
    output_tokens: n * outputTokens,
    total_tokens: input + n * outputTokens,
  };
  return jsonAnswer({
    created: context.nowSeconds(),
    data: Array.from({ length: n }, () => image),
    ...(request.faults.usage === 'none' ? {} : { usage }),
  });
}
