import { noUsage } from '../../core/dialects/usage.ts';
import type { OperationAnswer } from '../../core/dialects/upstream-plan.ts';
import { asText, type JsonObject } from './json-reading.ts';
import { encodedVector } from './packed-vector.ts';

/** Vectors in OpenAI's shape. Its clients read `usage`: where the host counts nothing it says zero, and no usage is recorded. */
export function embeddingsAnswer(
  embeddings: readonly (readonly unknown[])[],
  request: JsonObject,
  tokens: number | undefined,
): OperationAnswer {
  const model = asText(request.model) ?? '';
  const data = embeddings.map((vector, index) => ({
    ...{ object: 'embedding', index },
    embedding: encodedVector(vector, request.encoding_format),
  }));
  const usage = { prompt_tokens: tokens ?? 0, total_tokens: tokens ?? 0 };
  const body: JsonObject = { object: 'list', data, model, usage };
  if (tokens === undefined) return { body, model };
  return { body, model, usage: { ...noUsage, promptTokens: tokens, totalTokens: tokens } };
}
