import type { OperationAnswer, OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { stringifyExact } from '../exact-json.ts';
import { asObject, type JsonObject } from '../json-reading.ts';
import { decodeOpenAiError } from '../openai-error.ts';
import { decodeOpenAiUsage } from '../openai-usage.ts';
import { embeddingsAnswer } from '../embeddings-answer.ts';
import { unreadable } from '../openai-chat/member-reading.ts';
import { parseResult } from './provider.ts';
import { runPath } from './run-path.ts';

const handled: ReadonlySet<string> = new Set(['model', 'input', 'encoding_format', 'provider_options']);

/** Embeddings in OpenAI's shape at `POST /run/{model}` with `{ text: [...] }`. */
export const workersAiEmbeddings: OperationCodec = {
  encodeRequest(body, host, report) {
    const wire: JsonObject = { text: textsOf(body.input) };
    for (const name of Object.keys(body)) if (!handled.has(name)) report.drop(name);
    Object.assign(wire, asObject(asObject(body.provider_options)?.['workers-ai']));
    return { path: runPath(host), body: stringifyExact(wire) };
  },
  decodeAnswer(body, _contentType, request) {
    return decodeEmbeddings(body, request);
  },
  decodeError: decodeOpenAiError,
};

function textsOf(input: unknown): readonly string[] {
  if (typeof input === 'string') return [input];
  if (
    Array.isArray(input) &&
    input.length > 0 &&
    input.every((item): item is string => typeof item === 'string')
  ) {
    return input;
  }
  throw unreadable('input', 'be a string or an array of strings: Workers AI takes no token numbers', input);
}

function decodeEmbeddings(body: Buffer, request: JsonObject): OperationAnswer {
  const json = parseResult(body, 'no embeddings');
  const result = asObject(json.result) ?? json;
  if (!Array.isArray(result.data)) {
    throw new GatewayError(
      'upstream_invalid',
      'The provider answered with something that are no embeddings: "data" was expected.',
      { source: 'provider' },
    );
  }
  return embeddingsAnswer(
    result.data as readonly unknown[][],
    request,
    decodeOpenAiUsage(result.usage)?.promptTokens,
  );
}
