import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { asArray, asCount, asObject, asText } from '../json-reading.ts';
import { embeddingsAnswer } from '../embeddings-answer.ts';
import { modelOfHost } from './bedrock-model.ts';
import { decodeBedrockError } from './decode-error.ts';
import { answerObject, cannotAsk, noAnswer, RequestMembers, unknownModel } from './invoke.ts';

/** One thing to embed. */
interface EmbeddingInput {
  readonly text?: string;
  /** Base64. */
  readonly image?: string;
}

/** Embeddings of Titan, Nova and Cohere through `InvokeModel`, asked for and answered in OpenAI's shape. */
export const embeddingsOperation: OperationCodec = {
  encodeRequest(body, host, report) {
    const members = new RequestMembers(body);
    // The gateway itself packs the numbers.
    members.take('encoding_format');
    const inputs = readInputs(members.take('input'));
    return members.invoke(encodeFor(host, members, inputs, report), host, report);
  },
  decodeAnswer(body, _contentType, request) {
    const answer = answerObject(body);
    const vectors = vectorsOf(answer);
    if (vectors.length === 0) throw noAnswer('it holds no embedding');
    // Only Titan counts its tokens in the answer.
    return embeddingsAnswer(vectors, request, asCount(answer.inputTextTokenCount));
  },
  decodeError: decodeBedrockError,
};

function encodeFor(
  host: HostFacts,
  members: RequestMembers,
  inputs: readonly EmbeddingInput[],
  report: EncodeReport,
): JsonObject {
  const { vendor, name } = modelOfHost(host);
  if (vendor === 'cohere') return cohere(name, members, inputs, report);
  if (vendor === 'amazon' && name.startsWith('titan-embed-image'))
    return titanImage(members, only(inputs, host));
  if (vendor === 'amazon' && name.startsWith('titan-embed'))
    return titanText(name, members, only(inputs, host));
  if (vendor === 'amazon' && name.includes('embeddings')) return nova(members, only(inputs, host));
  throw unknownModel(host, 'embeddings');
}

/** These models embed one thing a request. */
function only(inputs: readonly EmbeddingInput[], host: HostFacts): EmbeddingInput {
  const [input] = inputs;
  if (input !== undefined && inputs.length === 1) return input;
  throw cannotAsk(
    `The model "${host.model}" embeds one input a request, and this one has ${inputs.length}. Send one request for each, or use a model that takes lists (cohere.embed-…).`,
    'input',
  );
}

function textOf(input: EmbeddingInput): string {
  if (input.text !== undefined && input.image === undefined) return input.text;
  throw cannotAsk('This model embeds text only. Send "input" as a string.', 'input');
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
  // The API requires one; OpenAI's clients know none.
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
      throw cannotAsk(
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
