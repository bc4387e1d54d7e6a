import { createHash } from 'node:crypto';
import { answerOf, answerTexts, invalid, type MockAnswer } from '../answer.ts';
import { fields, type JsonObject, type MockRequest } from '../request.ts';
import { isJsonObject } from '../../../core/base/json.ts';

/** Prompts of completions, as texts or as tokens. */
export const givenPrompts = { read: readPrompts, count: promptCount };

/** The small operations of the Gemini API. */
export const gemini = {
  countTokens: countGeminiTokens,
  embedContent: embedGeminiContent,
  embedContents: embedGeminiContents,
};

const maxInputs = 2048;
const maxDimensions = 3072;
const defaultDimensions = 1536;
/** 2048 inputs of 1024 dimensions; about 20 MiB of JSON. */
const maxNumbers = 2_097_152;

/** POST /embeddings: the same text always gets the same vector, of length 1. */
export function answerEmbeddings(request: MockRequest): MockAnswer {
  const body = request.json;
  const model = fields.requiredModel(body);
  const inputs = readPrompts(body, 'input', maxInputs);
  if (inputs.includes('')) throw invalid('input', "Invalid 'input': a text must not be empty.");
  const dimensions = fields.optionalInteger(body, 'dimensions', 1, maxDimensions) ?? defaultDimensions;
  requireRoom(inputs.length * dimensions, 'input');
  const format = fields.member(body, 'encoding_format') ?? 'float';
  if (format !== 'float' && format !== 'base64') {
    throw invalid('encoding_format', "Invalid 'encoding_format': expected float or base64.");
  }
  const count = promptCount(inputs);
  const usage = { prompt_tokens: count, total_tokens: count };
  return answerOf.json({
    object: 'list',
    data: inputs.map((input, index) => {
      const vector = unitVector(input, dimensions);
      const embedding = format === 'base64' ? base64(vector) : Array.from(vector);
      return { object: 'embedding', index, embedding };
    }),
    model,
    ...(request.faults.usage === 'none' ? {} : { usage }),
  });
}

/** Throws a 400 for more numbers than one answer may hold. */
function requireRoom(numbers: number, param: string): void {
  if (numbers <= maxNumbers) return;
  throw invalid(
    param,
    `The mock provider answers with at most ${maxNumbers} numbers: send fewer inputs or ask for fewer dimensions.`,
  );
}

/** A vector of length 1 whose direction comes from a hash of the input. */
function unitVector(input: Prompt, dimensions: number): Float32Array {
  const text = typeof input === 'string' ? `text ${input}` : `tokens ${input.join(' ')}`;
  let state = createHash('sha256').update(text).digest().readUInt32LE(0) || 1;
  const vector = new Float32Array(dimensions);
  let square = 0;
  for (let i = 0; i < dimensions; i++) {
    // Xorshift: fast, and the same on every machine.
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    const value = state / 2_147_483_648;
    vector[i] = value;
    square += value * value;
  }
  const length = Math.sqrt(square);
  for (let i = 0; i < dimensions; i++) vector[i] = (vector[i] as number) / length;
  return vector;
}

/** Four bytes per number, least significant first, as OpenAI packs them. */
function base64(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * 4);
  for (let i = 0; i < vector.length; i++) bytes.writeFloatLE(vector[i] as number, i * 4);
  return bytes.toString('base64');
}

/** POST /v1beta/models/{model}:countTokens: of `contents`, or of a whole request. */
function countGeminiTokens({ json }: MockRequest): MockAnswer {
  const whole = fields.member(json, 'generateContentRequest');
  const request = isJsonObject(whole) ? whole : json;
  const given = fields.member(request, 'contents');
  if (given === undefined) throw fields.missing('contents');
  if (!Array.isArray(given)) throw fields.wrongType('contents', 'an array', given);
  const contents: readonly unknown[] = given;
  const system = fields.member(request, 'systemInstruction');
  const all = system === undefined ? contents : [system, ...contents];
  const tools = fields.member(request, 'tools');
  let tokens = 3 + (tools === undefined ? 0 : answerTexts.countTokens(JSON.stringify(tools)));
  for (const [index, content] of all.entries()) {
    if (!isJsonObject(content)) throw fields.wrongType(`contents[${index}]`, 'an object', content);
    tokens += 4 + answerTexts.countTokens(fields.textOfContent(content['parts']));
  }
  return answerOf.json({
    totalTokens: tokens,
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: tokens }],
  });
}

/** POST /v1beta/models/{model}:embedContent. */
function embedGeminiContent({ json }: MockRequest): MockAnswer {
  return answerOf.json({ embedding: embeddingOf(json) });
}

/** POST /v1beta/models/{model}:batchEmbedContents. */
function embedGeminiContents({ json }: MockRequest): MockAnswer {
  const requests = fields.member(json, 'requests');
  if (requests === undefined) throw fields.missing('requests');
  if (!Array.isArray(requests)) throw fields.wrongType('requests', 'an array', requests);
  if (requests.length === 0 || requests.length > maxInputs)
    throw invalid('requests', `Invalid 'requests': expected 1 to ${maxInputs} items.`);
  let numbers = 0;
  return answerOf.json({
    embeddings: requests.map((one: unknown, index) => {
      if (!isJsonObject(one)) throw fields.wrongType(`requests[${index}]`, 'an object', one);
      requireRoom((numbers += dimensionsOf(one)), 'requests');
      return embeddingOf(one);
    }),
  });
}

/** The same vector as on OpenAI's wire. */
function embeddingOf(request: JsonObject): { values: number[] } {
  const content = fields.member(request, 'content');
  if (content === undefined) throw fields.missing('content');
  if (!isJsonObject(content)) throw fields.wrongType('content', 'an object', content);
  const text = fields.textOfContent(content['parts']);
  if (text === '') throw invalid('content', "Invalid 'content': a text must not be empty.");
  return { values: Array.from(unitVector(text, dimensionsOf(request))) };
}

function dimensionsOf(request: JsonObject): number {
  return fields.optionalInteger(request, 'outputDimensionality', 1, maxDimensions) ?? defaultDimensions;
}

/** A text, or the numbers of its tokens. */
export type Prompt = string | readonly number[];

/** A text, a list of texts, a list of token numbers or a list of such lists, always as a list; throws a 400. */
function readPrompts(body: JsonObject, name: string, most: number): readonly Prompt[] {
  const value = fields.member(body, name);
  if (value === undefined) throw fields.missing(name);
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value)) throw fields.wrongType(name, 'a string or an array', value);
  const list: readonly unknown[] = value;
  if (list.length === 0) throw invalid(name, `Invalid '${name}': empty array.`, 'empty_array');
  if (isTokens(list)) return [list];
  if (list.length > most) {
    throw invalid(name, `Invalid '${name}': at most ${most} items, but got ${list.length} instead.`);
  }
  return list.map((item, index) => {
    if (typeof item === 'string') return item;
    const tokens: readonly unknown[] = Array.isArray(item) ? item : [];
    if (tokens.length > 0 && isTokens(tokens)) return tokens;
    throw fields.wrongType(`${name}[${index}]`, 'a string or an array of tokens', item);
  });
}

/** Token count of all prompts together. */
function promptCount(prompts: readonly Prompt[]): number {
  let count = 0;
  for (const prompt of prompts)
    count += typeof prompt === 'string' ? answerTexts.countTokens(prompt) : prompt.length;
  return count;
}

function isTokens(list: readonly unknown[]): list is readonly number[] {
  return list.every((item) => typeof item === 'number' && Number.isInteger(item) && item >= 0);
}
