import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { OperationAnswer, OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { stringifyExact } from '../exact-json.ts';
import { asArray, asCount, asObject } from '../json-reading.ts';
import { embeddingsAnswer } from '../embeddings-answer.ts';
import { describeValue } from '../request-issue.ts';
import type { ModelPathOf } from './encode-request.ts';
import { decodeGeminiError } from './error-shape.ts';
import { modelResource } from './model-path.ts';
import { reportUnknown, requireAnswer } from './operation-body.ts';

/** Texts of one request; OpenAI takes no more either. */
const maxTexts = 2048;

/** Embeddings through `:batchEmbedContents`, which takes one text as well as many. */
export function createGeminiEmbeddings(pathOf: ModelPathOf): OperationCodec {
  return {
    encodeRequest(body, host, report) {
      const requests = textsOf(body.input).map((text) => embedRequest(body, host, text));
      reportUnknown(body, ['model', 'input', 'dimensions', 'encoding_format'], report);
      return { path: pathOf(host, 'batchEmbedContents'), body: stringifyExact({ requests }) };
    },
    decodeAnswer,
    decodeError: decodeGeminiError,
  };
}

function embedRequest(body: JsonObject, { model }: HostFacts, text: string): JsonObject {
  const request: JsonObject = { model: modelResource(model), content: { parts: [{ text }] } };
  if (body.dimensions !== undefined) request.outputDimensionality = body.dimensions;
  return Object.assign(request, asObject(asObject(body.provider_options)?.['google-gemini']));
}

/** The texts of `input`. Throws `invalid_request` for token numbers: they mean something to their own tokenizer alone. */
export function textsOf(input: unknown): readonly string[] {
  const list = typeof input === 'string' ? [input] : asArray(input);
  const texts = list.filter((text) => typeof text === 'string');
  if (texts.length === 0 || texts.length < list.length)
    throw new GatewayError(
      'invalid_request',
      `input must be a string or an array of strings for this provider; found ${describeValue(input)}.`,
      { param: 'input' },
    );
  if (texts.length > maxTexts)
    throw new GatewayError(
      'invalid_request',
      `input must hold at most ${maxTexts} texts; found ${texts.length}.`,
      {
        param: 'input',
      },
    );
  return texts;
}

function decodeAnswer(body: Buffer, _contentType: string, request: JsonObject): OperationAnswer {
  const answer = requireAnswer(body);
  const embeddings = asArray(answer.embeddings).map((one) => asArray(asObject(one)?.values));
  const tokens = asCount(asObject(answer.usageMetadata)?.promptTokenCount);
  return embeddingsAnswer(embeddings, request, tokens);
}
