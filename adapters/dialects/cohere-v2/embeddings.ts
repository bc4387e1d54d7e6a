import type { OperationAnswer, OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { parseExactObject, stringifyExact } from '../exact-json.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { applyQuirks } from '../apply-quirks.ts';
import { decodeCohereError } from './decode-error.ts';
import { decodeUsage } from './usage.ts';

/** Members that are said under the same name. */
const same = ['input_type', 'truncate', 'max_tokens', 'images', 'inputs', 'priority', 'output_dimension'];
const handled: ReadonlySet<string> = new Set([
  ...same,
  ...['model', 'input', 'encoding_format', 'dimensions', 'embedding_types', 'provider_options'],
]);

/** Embeddings in OpenAI's shape at `POST /v2/embed`: https://docs.cohere.com/reference/embed */
export const cohereEmbeddings: OperationCodec = {
  encodeRequest(body, host, report) {
    const wire: JsonObject = { model: host.model };
    for (const name of same) if (body[name] !== undefined) wire[name] = body[name];
    encodeInput(wire, body.input);
    // The wire requires it and OpenAI's has no such distinction: what is embedded is most often what will be searched.
    wire.input_type ??= wire.images === undefined ? 'search_document' : 'image';
    wire.embedding_types = embeddingTypes(body);
    if (body.dimensions !== undefined) wire.output_dimension = body.dimensions;
    for (const name of Object.keys(body)) if (!handled.has(name)) report.drop(name);
    applyQuirks(wire, host.quirks, report);
    Object.assign(wire, asObject(asObject(body.provider_options)?.['cohere-v2']));
    return { path: host.quirks.paths?.embeddings ?? '/v2/embed', body: stringifyExact(wire) };
  },
  decodeAnswer(body, _contentType, request) {
    return decodeEmbeddings(body, request);
  },
  decodeError: decodeCohereError,
};

function embeddingTypes(body: JsonObject): unknown {
  if (Array.isArray(body.embedding_types)) return body.embedding_types;
  return [body.encoding_format === 'base64' ? 'base64' : 'float'];
}

function encodeInput(wire: JsonObject, input: unknown): void {
  if (input === undefined) return;
  const items = Array.isArray(input) ? (input as unknown[]) : [input];
  if (items.every((item) => typeof item === 'string')) {
    wire.texts = items;
    return;
  }
  wire.inputs = items.map((item, index) => ({ content: inputContent(item, index) }));
}

/** One thing to embed that is more than text: `{ text, image }`, or content parts as in a chat. */
function inputContent(item: unknown, index: number): unknown[] {
  if (typeof item === 'string') return [{ type: 'text', text: item }];
  const object = asObject(item);
  if (object === undefined) {
    throw new GatewayError(
      'invalid_request',
      `input[${index}] must be text or an object with "text" or "image": Cohere does not take token numbers.`,
      { param: 'input' },
    );
  }
  if (Array.isArray(object.content)) return object.content as unknown[];
  if (object.type !== undefined) return [object];
  const content: unknown[] = [];
  if (object.text !== undefined) content.push({ type: 'text', text: object.text });
  const image = asObject(object.image) ?? {};
  const url = asText(object.image) ?? asText(image.url) ?? asText(image.base64);
  if (url !== undefined) content.push({ type: 'image_url', image_url: { url } });
  return content;
}

function decodeEmbeddings(body: Buffer, request: JsonObject): OperationAnswer {
  const json = parseExactObject(body.toString('utf8'));
  const byType = asObject(json?.embeddings);
  const vectors = byType === undefined ? json?.embeddings : firstOf(byType);
  if (json === undefined || !Array.isArray(vectors)) {
    throw new GatewayError(
      'upstream_invalid',
      'The provider answered with something that are no Cohere embeddings: "embeddings" was expected.',
    );
  }
  const usage = decodeUsage(json.meta);
  const tokens = usage?.promptTokens ?? 0;
  const model = asText(request.model) ?? '';
  const answer: JsonObject = {
    object: 'list',
    data: vectors.map((embedding: unknown, index) => ({ object: 'embedding', index, embedding })),
    model,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
  // Several kinds were asked for: OpenAI's shape has a place for one.
  if (byType !== undefined && Object.keys(byType).length > 1) answer.embeddings = byType;
  return usage === undefined ? { body: answer, model } : { body: answer, model, usage };
}

/** The kind that OpenAI clients read, or whichever there is. */
function firstOf(byType: JsonObject): unknown {
  return [byType.float, byType.base64, ...Object.values(byType)].find((one) => asArray(one).length > 0) ?? [];
}
