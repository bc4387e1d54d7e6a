import { countTokens } from '../answer-text.ts';
import { jsonAnswer, type MockAnswer } from '../answer.ts';
import type { MockRequest } from '../context.ts';
import {
  isObject,
  member,
  missing,
  optionalInteger,
  textOfContent,
  wrongType,
  type JsonObject,
} from '../json-value.ts';
import { invalid } from '../problem.ts';
import { defaultDimensions, maxDimensions, maxInputs, requireRoom, unitVector } from './embeddings.ts';

/** POST /v1beta/models/{model}:countTokens: of `contents`, or of a whole request. */
export function countGeminiTokens({ json }: MockRequest): MockAnswer {
  const whole = member(json, 'generateContentRequest');
  const request = isObject(whole) ? whole : json;
  const given = member(request, 'contents');
  if (given === undefined) throw missing('contents');
  if (!Array.isArray(given)) throw wrongType('contents', 'an array', given);
  const contents: readonly unknown[] = given;
  const system = member(request, 'systemInstruction');
  const all = system === undefined ? contents : [system, ...contents];
  const tools = member(request, 'tools');
  let tokens = 3 + (tools === undefined ? 0 : countTokens(JSON.stringify(tools)));
  for (const [index, content] of all.entries()) {
    if (!isObject(content)) throw wrongType(`contents[${index}]`, 'an object', content);
    tokens += 4 + countTokens(textOfContent(content['parts']));
  }
  return jsonAnswer({
    totalTokens: tokens,
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: tokens }],
  });
}

/** POST /v1beta/models/{model}:embedContent. */
export function embedGeminiContent({ json }: MockRequest): MockAnswer {
  return jsonAnswer({ embedding: embeddingOf(json) });
}

/** POST /v1beta/models/{model}:batchEmbedContents. */
export function embedGeminiContents({ json }: MockRequest): MockAnswer {
  const requests = member(json, 'requests');
  if (requests === undefined) throw missing('requests');
  if (!Array.isArray(requests)) throw wrongType('requests', 'an array', requests);
  if (requests.length === 0 || requests.length > maxInputs)
    throw invalid('requests', `Invalid 'requests': expected 1 to ${maxInputs} items.`);
  let numbers = 0;
  return jsonAnswer({
    embeddings: requests.map((one: unknown, index) => {
      if (!isObject(one)) throw wrongType(`requests[${index}]`, 'an object', one);
      requireRoom((numbers += dimensionsOf(one)), 'requests');
      return embeddingOf(one);
    }),
  });
}

/** The same vector that the endpoint of OpenAI's wire has for the text. */
function embeddingOf(request: JsonObject): { values: number[] } {
  const content = member(request, 'content');
  if (content === undefined) throw missing('content');
  if (!isObject(content)) throw wrongType('content', 'an object', content);
  const text = textOfContent(content['parts']);
  if (text === '') throw invalid('content', "Invalid 'content': a text must not be empty.");
  return { values: Array.from(unitVector(text, dimensionsOf(request))) };
}

function dimensionsOf(request: JsonObject): number {
  return optionalInteger(request, 'outputDimensionality', 1, maxDimensions) ?? defaultDimensions;
}
