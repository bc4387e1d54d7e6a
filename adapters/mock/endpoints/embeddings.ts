import { createHash } from 'node:crypto';
import { jsonAnswer, type MockAnswer } from '../answer.ts';
import type { MockRequest } from '../context.ts';
import { member, optionalInteger, requiredModel } from '../json-value.ts';
import { invalid } from '../problem.ts';
import { promptCount, readPrompts, type Prompt } from './prompts.ts';

export const maxInputs = 2048;
export const maxDimensions = 3072;
export const defaultDimensions = 1536;
/** 2048 inputs of 1024 dimensions; about 20 MiB of JSON. */
const maxNumbers = 2_097_152;

/** POST /embeddings: the same text always gets the same vector, of length 1. */
export function answerEmbeddings(request: MockRequest): MockAnswer {
  const body = request.json;
  const model = requiredModel(body);
  const inputs = readPrompts(body, 'input', maxInputs);
  if (inputs.includes('')) throw invalid('input', "Invalid 'input': a text must not be empty.");
  const dimensions = optionalInteger(body, 'dimensions', 1, maxDimensions) ?? defaultDimensions;
  requireRoom(inputs.length * dimensions, 'input');
  const format = member(body, 'encoding_format') ?? 'float';
  if (format !== 'float' && format !== 'base64') {
    throw invalid('encoding_format', "Invalid 'encoding_format': expected float or base64.");
  }
  const count = promptCount(inputs);
  const usage = { prompt_tokens: count, total_tokens: count };
  return jsonAnswer({
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

/** Throws a 400 for more numbers than one answer holds. */
export function requireRoom(numbers: number, param: string): void {
  if (numbers <= maxNumbers) return;
  throw invalid(
    param,
    `The mock provider answers with at most ${maxNumbers} numbers: send fewer inputs or ask for fewer dimensions.`,
  );
}

/** A vector of length 1 whose direction comes from a hash of the input. */
export function unitVector(input: Prompt, dimensions: number): Float32Array {
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

/** Four bytes a number, least significant first, as OpenAI packs them. */
function base64(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * 4);
  for (let i = 0; i < vector.length; i++) bytes.writeFloatLE(vector[i] as number, i * 4);
  return bytes.toString('base64');
}
