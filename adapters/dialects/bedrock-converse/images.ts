import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import { modelOfHost } from './bedrock-model.ts';
import { decodeBedrockError } from './decode-error.ts';
import { answerObject, cannotAsk, noAnswer, RequestMembers, unknownModel } from './invoke.ts';

/**
 * Pictures of Titan, Nova Canvas and Stability through `InvokeModel`. They come as base64 always; the answer has no
 * `created`, which a pure codec cannot know.
 */
export const imagesOperation: OperationCodec = {
  encodeRequest(body, host, report) {
    const members = new RequestMembers(body);
    const prompt = asText(members.take('prompt'));
    if (prompt === undefined) throw cannotAsk('"prompt" must be a text.', 'prompt');
    const format = members.take('response_format');
    if (format !== undefined && format !== 'b64_json') report.drop('response_format');
    return members.invoke(encodeFor(prompt, members, host, report), host, report);
  },
  decodeAnswer(body) {
    const answer = answerObject(body);
    const images = imagesOf(answer);
    if (images.length === 0) throw refusal(answer);
    return { body: { data: images.map((image) => ({ b64_json: image })) } };
  },
  decodeError: decodeBedrockError,
};

function encodeFor(
  prompt: string,
  members: RequestMembers,
  host: HostFacts,
  report: EncodeReport,
): JsonObject {
  const { vendor, name } = modelOfHost(host);
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
  if (match === null) throw cannotAsk('"size" must be "auto" or say width and height ("1024x1024").', 'size');
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

/** Stability's newer models take a shape, no size. */
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

/** An answer without pictures tells why there are none. */
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
