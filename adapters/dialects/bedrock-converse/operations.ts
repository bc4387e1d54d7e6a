import type { EncodedRequest, EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import {
  asArray,
  asCount,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import { bedrockModel } from './bedrock-model.ts';
import type { OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { embeddingsAnswer, type TokenCounting } from '../host-endpoints.ts';
import { bedrockErrors } from './errors.ts';
import { converseBody } from './encode-request.ts';

/**
 * Pictures of Titan, Nova Canvas and Stability through `InvokeModel`. They always arrive as base64; the answer has no
 * `created`, which a pure codec cannot know.
 */
const imagesOperation: OperationCodec = {
  encodeRequest(body, host, report) {
    const members = new RequestMembers(body);
    const prompt = asText(members.take('prompt'));
    if (prompt === undefined) throw unsupportedRequest('"prompt" must be a text.', 'prompt');
    const format = members.take('response_format');
    if (format !== undefined && format !== 'b64_json') report.drop('response_format');
    return members.invoke(encodePrompt(prompt, members, host, report), host, report);
  },
  decodeAnswer(body) {
    const answer = answerObject(body);
    const images = imagesOf(answer);
    if (images.length === 0) throw refusal(answer);
    return { body: { data: images.map((image) => ({ b64_json: image })) } };
  },
  decodeError: bedrockErrors.decode,
};

function encodePrompt(
  prompt: string,
  members: RequestMembers,
  host: HostFacts,
  report: EncodeReport,
): JsonObject {
  const { vendor, name } = bedrockModel.ofHost(host);
  const size = readSize(members.take('size'));
  if (vendor === 'amazon' && (name.startsWith('titan-image') || name.startsWith('nova-canvas'))) {
    return amazonImage(prompt, members, size, report);
  }
  if (vendor !== 'stability') throw unknownModel(host, 'images');
  const count = members.take('n');
  if (typeof count === 'number' && count > 1) report.drop('n');
  if (name.startsWith('stable-diffusion-xl')) return legacyStability(prompt, members, size);
  const body: JsonObject = {
    prompt,
    ...members.takeAll(['negative_prompt', 'seed', 'aspect_ratio', 'output_format', 'mode']),
  };
  if (size !== undefined && body.aspect_ratio === undefined) {
    const { ratio, exact } = nearestRatio(size);
    body.aspect_ratio = ratio;
    if (!exact) report.emulate('size');
  }
  return body;
}

interface Size {
  readonly width: number;
  readonly height: number;
}

function readSize(value: unknown): Size | undefined {
  if (value === undefined || value === 'auto') return undefined;
  const match = typeof value === 'string' ? /^(\d{1,5})x(\d{1,5})$/.exec(value) : null;
  if (match === null)
    throw unsupportedRequest('"size" must be "auto" or say width and height ("1024x1024").', 'size');
  return { width: Number(match[1]), height: Number(match[2]) };
}

const qualities: Readonly<Record<string, string>> = {
  standard: 'standard',
  low: 'standard',
  medium: 'standard',
  hd: 'premium',
  high: 'premium',
  premium: 'premium',
};

function amazonImage(
  prompt: string,
  members: RequestMembers,
  size: Size | undefined,
  report: EncodeReport,
): JsonObject {
  const config: JsonObject = { ...size, ...members.takeAll(['seed', 'cfgScale']) };
  const count = members.take('n');
  if (count !== undefined) config.numberOfImages = count;
  const quality = asText(members.take('quality'));
  if (quality !== undefined && Object.hasOwn(qualities, quality)) config.quality = qualities[quality];
  else if (quality !== undefined && quality !== 'auto') report.drop('quality');
  const params: JsonObject = { text: prompt };
  const negative = members.take('negative_prompt');
  if (negative !== undefined) params.negativeText = negative;
  return {
    taskType: 'TEXT_IMAGE',
    textToImageParams: params,
    ...(Object.keys(config).length > 0 ? { imageGenerationConfig: config } : {}),
  };
}

function legacyStability(prompt: string, members: RequestMembers, size: Size | undefined): JsonObject {
  const negative = asText(members.take('negative_prompt'));
  return {
    text_prompts: [
      { text: prompt, weight: 1 },
      ...(negative === undefined ? [] : [{ text: negative, weight: -1 }]),
    ],
    ...size,
    ...members.takeAll(['seed', 'cfg_scale', 'steps', 'samples', 'sampler', 'style_preset']),
  };
}

/** Stability's newer models accept an aspect ratio, no size. */
const ratios = ['1:1', '16:9', '21:9', '2:3', '3:2', '4:5', '5:4', '9:16', '9:21'];

function nearestRatio({ width, height }: Size): { readonly ratio: string; readonly exact: boolean } {
  const wanted = Math.log(width / height);
  const distances = ratios.map((ratio) => {
    const [across, up] = ratio.split(':').map(Number) as [number, number];
    return { ratio, distance: Math.abs(Math.log(across / up) - wanted) };
  });
  const best = distances.reduce((a, b) => (b.distance < a.distance ? b : a));
  return { ratio: best.ratio, exact: best.distance < 0.01 };
}

function imagesOf(answer: JsonObject): readonly string[] {
  const legacy = asArray(answer.artifacts).map((artifact) => asObject(artifact)?.base64);
  return [...asArray(answer.images), ...legacy].filter(
    (image) => typeof image === 'string' && image !== '',
  ) as string[];
}

/** Reason why an answer has no pictures. */
function refusal(answer: JsonObject): GatewayError {
  const filtered = asArray(answer.finish_reasons).map(asText);
  const legacy = asArray(answer.artifacts).map((artifact) => asText(asObject(artifact)?.finishReason));
  const reason = asText(answer.error) ?? [...filtered, ...legacy].find((one) => one !== undefined);
  if (reason === undefined) return noAnswer('it holds no image');
  return new GatewayError('invalid_request', `The provider made no image: ${reason}`, {
    param: 'prompt',
    source: 'provider',
  });
}

/** Members of a Converse request that count. */
const counted = ['messages', 'system', 'toolConfig', 'additionalModelRequestFields'];

/** Bedrock's `CountTokens`. It counts for models, not for inference profiles. */
const bedrockTokenCounting: TokenCounting = {
  encode(request, host, report) {
    const whole = converseBody(request, host, report);
    const converse: JsonObject = {};
    for (const name of counted) if (whole[name] !== undefined) converse[name] = whole[name];
    const { id, vendor, name } = bedrockModel.ofHost(host);
    return {
      path: bedrockModel.path(vendor === '' ? id : `${vendor}.${name}`, 'count-tokens'),
      body: stringifyExact({ input: { converse } }),
    };
  },
  member: 'inputTokens',
  decodeError: bedrockErrors.decode,
};

/**
 * Reranking by Cohere's and Amazon's models through `InvokeModel`. The documents for `return_documents` are those of
 * the request: the models return none.
 */
const rerankOperation: OperationCodec = {
  encodeRequest(body, host, report) {
    const { vendor, name } = bedrockModel.ofHost(host);
    if (!name.startsWith('rerank') || (vendor !== 'cohere' && vendor !== 'amazon'))
      throw unknownModel(host, 'reranking');
    const members = new RequestMembers(body);
    members.take('return_documents');
    const query = asText(members.take('query'));
    if (query === undefined) throw unsupportedRequest('"query" must be a text.', 'query');
    const documents = readDocuments(members.take('documents'));
    const request: JsonObject = { query, documents, ...members.takeAll(['top_n']) };
    if (vendor === 'cohere') {
      Object.assign(request, { api_version: 2 }, members.takeAll(['max_tokens_per_doc']));
    }
    return members.invoke(request, host, report);
  },
  decodeAnswer(body, _contentType, request) {
    const answer = answerObject(body);
    if (!Array.isArray(answer.results)) throw noAnswer('it has no "results"');
    const documents = request.return_documents === true ? asArray(request.documents) : undefined;
    const results = asArray(answer.results).flatMap((value) => {
      const result = asObject(value);
      const index = asCount(result?.index);
      if (result === undefined || index === undefined) return [];
      const told: JsonObject = { index, relevance_score: result.relevance_score ?? result.relevanceScore };
      const document = documents?.[index];
      if (document !== undefined)
        told.document = typeof document === 'string' ? { text: document } : document;
      return [told];
    });
    const told: JsonObject = { ...answer, model: request.model, results };
    return { body: told };
  },
  decodeError: bedrockErrors.decode,
};

/** Texts, or the `text` of objects; other objects are sent as JSON text. */
function readDocuments(value: unknown): readonly string[] {
  if (!Array.isArray(value) || value.length === 0)
    throw unsupportedRequest('"documents" must be a list with at least one document.', 'documents');
  return value.map((document: unknown, at) => {
    if (typeof document === 'string') return document;
    const members = asObject(document);
    if (members === undefined)
      throw unsupportedRequest(`documents[${at}] must be a text or an object.`, `documents[${at}]`);
    return asText(members.text) ?? stringifyExact(members);
  });
}

/** One input to embed. */
interface EmbeddingInput {
  readonly text?: string;
  /** Base64. */
  readonly image?: string;
}

/** Embeddings of Titan, Nova and Cohere through `InvokeModel`, in OpenAI's shape. */
const embeddingsOperation: OperationCodec = {
  encodeRequest(body, host, report) {
    const members = new RequestMembers(body);
    // The gateway itself packs the numbers.
    members.take('encoding_format');
    const inputs = readInputs(members.take('input'));
    return members.invoke(encodeInputs(host, members, inputs, report), host, report);
  },
  decodeAnswer(body, _contentType, request) {
    const answer = answerObject(body);
    const vectors = vectorsOf(answer);
    if (vectors.length === 0) throw noAnswer('it holds no embedding');
    // Only Titan counts its tokens in the answer.
    return embeddingsAnswer(vectors, request, asCount(answer.inputTextTokenCount));
  },
  decodeError: bedrockErrors.decode,
};

/** Operations besides chat. */
export const bedrockOperations = {
  images: imagesOperation,
  tokenCounting: bedrockTokenCounting,
  rerank: rerankOperation,
  embeddings: embeddingsOperation,
};

function encodeInputs(
  host: HostFacts,
  members: RequestMembers,
  inputs: readonly EmbeddingInput[],
  report: EncodeReport,
): JsonObject {
  const { vendor, name } = bedrockModel.ofHost(host);
  if (vendor === 'cohere') return cohere(name, members, inputs, report);
  if (vendor === 'amazon' && name.startsWith('titan-embed-image'))
    return titanImage(members, only(inputs, host));
  if (vendor === 'amazon' && name.startsWith('titan-embed'))
    return titanText(name, members, only(inputs, host));
  if (vendor === 'amazon' && name.includes('embeddings')) return nova(members, only(inputs, host));
  throw unknownModel(host, 'embeddings');
}

/** These models embed one input per request. */
function only(inputs: readonly EmbeddingInput[], host: HostFacts): EmbeddingInput {
  const [input] = inputs;
  if (input !== undefined && inputs.length === 1) return input;
  throw unsupportedRequest(
    `The model "${host.model}" embeds one input a request, and this one has ${inputs.length}. Send one request for each, or use a model that takes lists (cohere.embed-…).`,
    'input',
  );
}

function textOf(input: EmbeddingInput): string {
  if (input.text !== undefined && input.image === undefined) return input.text;
  throw unsupportedRequest('This model embeds text only. Send "input" as a string.', 'input');
}

function titanText(name: string, members: RequestMembers, input: EmbeddingInput): JsonObject {
  const body: JsonObject = { inputText: textOf(input) };
  // The first generation has one length.
  if (!name.startsWith('titan-embed-text-v2')) return body;
  const dimensions = members.take('dimensions');
  if (dimensions !== undefined) body.dimensions = dimensions;
  return { ...body, ...members.takeAll(['normalize', 'embeddingTypes']) };
}

function titanImage(members: RequestMembers, input: EmbeddingInput): JsonObject {
  const body: JsonObject = {};
  if (input.text !== undefined) body.inputText = input.text;
  if (input.image !== undefined) body.inputImage = input.image;
  const dimensions = members.take('dimensions');
  if (dimensions !== undefined) body.embeddingConfig = { outputEmbeddingLength: dimensions };
  return body;
}

function nova(members: RequestMembers, input: EmbeddingInput): JsonObject {
  const dimensions = members.take('dimensions');
  const purpose = asText(members.take('embeddingPurpose')) ?? 'GENERIC_INDEX';
  const params: JsonObject = {
    embeddingPurpose: purpose,
    text: { truncationMode: asText(members.take('truncationMode')) ?? 'END', value: textOf(input) },
  };
  if (dimensions !== undefined) params.embeddingDimension = dimensions;
  return { taskType: 'SINGLE_EMBEDDING', singleEmbeddingParams: params };
}

function cohere(
  name: string,
  members: RequestMembers,
  inputs: readonly EmbeddingInput[],
  report: EncodeReport,
): JsonObject {
  const given = members.take('input_type');
  // The API requires it; OpenAI's clients do not have it.
  if (given === undefined) report.emulate('input_type');
  const body: JsonObject = { texts: inputs.map(textOf), input_type: given ?? 'search_document' };
  if (name.startsWith('embed-v4')) {
    const dimensions = members.take('dimensions');
    if (dimensions !== undefined) body.output_dimension = dimensions;
  }
  return { ...body, ...members.takeAll(['truncate', 'embedding_types', 'max_tokens']) };
}

function readInputs(value: unknown): readonly EmbeddingInput[] {
  const items = Array.isArray(value) ? (value as readonly unknown[]) : [value];
  return items.map((item, at) => {
    if (typeof item === 'string') return { text: item };
    const members = asObject(item);
    const text = asText(members?.text);
    const image = asText(asObject(members?.image)?.base64);
    if (text === undefined && image === undefined) {
      const place = Array.isArray(value) ? `input[${at}]` : 'input';
      throw unsupportedRequest(
        `${place} must be a string, or an object with "text" or "image.base64". Bedrock takes no tokens.`,
        place,
      );
    }
    return { ...(text === undefined ? {} : { text }), ...(image === undefined ? {} : { image }) };
  });
}

/** Titan: `embedding`; Nova: `embeddings` of objects; Cohere: `embeddings` of lists, or of lists by type. */
function vectorsOf(answer: JsonObject): readonly (readonly unknown[])[] {
  if (Array.isArray(answer.embedding)) return [answer.embedding];
  const byType = asObject(answer.embeddings);
  if (byType !== undefined) return vectorsOf({ embeddings: byType.float ?? Object.values(byType)[0] });
  const single = asObject(answer.embeddingsByType);
  if (single !== undefined) return vectorsOf({ embedding: single.float ?? Object.values(single)[0] });
  return asArray(answer.embeddings).flatMap((item) => {
    const vector = Array.isArray(item) ? (item as unknown[]) : asObject(item)?.embedding;
    return Array.isArray(vector) ? [vector as unknown[]] : [];
  });
}

/**
 * Members of an OpenAI-shaped request that are not used yet. Unused members are reported; members under
 * `provider_options` are the caller's options in the model's own terms.
 */
class RequestMembers {
  readonly #rest: JsonObject;
  readonly #own: JsonObject;

  constructor(body: JsonObject) {
    this.#rest = { ...body };
    delete this.#rest.model;
    this.#own = asObject(asObject(this.take('provider_options'))?.['bedrock-converse']) ?? {};
  }

  /** Returns the member and marks it as used; null counts as absent. */
  take(name: string): unknown {
    const value = this.#rest[name];
    delete this.#rest[name];
    return value ?? undefined;
  }

  /** Takes those of the members that keep their name. */
  takeAll(names: readonly string[]): JsonObject {
    const taken: JsonObject = {};
    for (const name of names) {
      const value = this.take(name);
      if (value !== undefined) taken[name] = value;
    }
    return taken;
  }

  /** `InvokeModel` with this body and the caller's own members; unused members are reported. */
  invoke(body: JsonObject, host: HostFacts, report: EncodeReport): EncodedRequest {
    for (const [name, value] of Object.entries(this.#rest)) {
      if (value !== undefined && value !== null) report.drop(name);
    }
    return { path: bedrockModel.path(host.model, 'invoke'), body: stringifyExact({ ...body, ...this.#own }) };
  }
}

/** This model cannot express the request. */
function unsupportedRequest(message: string, param: string): GatewayError {
  return new GatewayError('invalid_request', message, { param });
}

/** Refusal for a model with another purpose, or whose id does not show its purpose. */
function unknownModel(host: HostFacts, operation: string): GatewayError {
  return unsupportedRequest(
    `The model "${host.model}" is not known to have ${operation} on Bedrock. Name a model that has, or say with aws_bedrock_model which model stands behind this id.`,
    'model',
  );
}

/** The JSON object of an answer; throws for anything else. */
function answerObject(body: Buffer): JsonObject {
  const answer = parseExactObject(body.toString('utf8'));
  if (answer === undefined) throw noAnswer('it is no JSON object');
  return answer;
}

/** The provider's answer does not have the shape of its model. */
function noAnswer(reason: string): GatewayError {
  return new GatewayError('upstream_invalid', `The provider's answer cannot be read: ${reason}.`);
}
