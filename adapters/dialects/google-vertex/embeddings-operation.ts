import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { OperationAnswer, OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { stringifyExact } from '../exact-json.ts';
import { embeddingsAnswer } from '../embeddings-answer.ts';
import { textsOf } from '../google-gemini/embeddings-operation.ts';
import { decodeGeminiError } from '../google-gemini/error-shape.ts';
import { reportUnknown, requireAnswer } from '../google-gemini/operation-body.ts';
import { asArray, asCount, asObject } from '../json-reading.ts';
import { readVertexModel, vertexPath } from './model-name.ts';

/** Embeddings through `:predict`. What stands under `provider_options.google-vertex` goes into every instance. */
export const vertexEmbeddings: OperationCodec = {
  encodeRequest(body, host, report) {
    const own = asObject(asObject(body.provider_options)?.['google-vertex']);
    const instances = textsOf(body.input).map((content) => ({ content, ...own }));
    reportUnknown(body, ['model', 'input', 'dimensions', 'encoding_format'], report);
    const request: JsonObject = { instances };
    if (body.dimensions !== undefined) request.parameters = { outputDimensionality: body.dimensions };
    return {
      path: vertexPath(host, readVertexModel(host.model), 'predict'),
      body: stringifyExact(request),
    };
  },
  decodeAnswer,
  decodeError: decodeGeminiError,
};

function decodeAnswer(body: Buffer, _contentType: string, request: JsonObject): OperationAnswer {
  let tokens: number | undefined;
  const vectors = asArray(requireAnswer(body).predictions).map((value) => {
    const embedding = asObject(asObject(value)?.embeddings);
    const counted = asCount(asObject(embedding?.statistics)?.token_count);
    if (counted !== undefined) tokens = (tokens ?? 0) + counted;
    return asArray(embedding?.values);
  });
  return embeddingsAnswer(vectors, request, tokens);
}
