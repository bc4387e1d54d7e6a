import { asArray } from './json-reading.ts';

/**
 * A vector in the form that `encoding_format` asks for: `base64` packs the numbers as OpenAI does (little-endian floats of
 * 32 bits, what is no number is 0), which its SDKs ask for unless they are told otherwise. Anything else: as it is.
 */
export function encodedVector(vector: unknown, encodingFormat: unknown): unknown {
  if (encodingFormat !== 'base64') return vector;
  const numbers = asArray(vector);
  const bytes = Buffer.alloc(numbers.length * 4);
  numbers.forEach((value, at) => bytes.writeFloatLE(typeof value === 'number' ? value : 0, at * 4));
  return bytes.toString('base64');
}
