import type { EncodedRequest } from '../../../core/dialects/canonical/chat-codec.ts';
import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { OperationAnswer, OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { stringifyExact } from '../exact-json.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import type { ModelPathOf } from './encode-request.ts';
import { decodeGeminiError } from './error-shape.ts';
import { member, memberObject } from './member.ts';
import { reportUnknown, requireAnswer, requireText } from './operation-body.ts';
import { decodeGeminiUsage } from './usage.ts';

/** Shapes that both kinds of models draw, by width over height. */
const ratios: readonly (readonly [string, number])[] = [
  ['1:1', 1],
  ['4:3', 4 / 3],
  ['3:4', 3 / 4],
  ['16:9', 16 / 9],
  ['9:16', 9 / 16],
];

const known = ['model', 'prompt', 'n', 'size', 'response_format', 'output_format'];

/** Images in OpenAI's shape from Imagen models (`:predict`) and from Gemini models that draw (`:generateContent`). */
export function createGeminiImages(pathOf: ModelPathOf): OperationCodec {
  return {
    encodeRequest(body, host, report) {
      reportUnknown(body, known, report);
      // The bytes come in the answer; neither kind of model puts them on a server.
      if (body.response_format === 'url') report.emulate('response_format');
      return host.model.includes('imagen')
        ? encodeImagen(body, host, report, pathOf)
        : encodeDrawing(body, host, report, pathOf);
    },
    decodeAnswer,
    decodeError: decodeGeminiError,
  };
}

function encodeImagen(
  body: JsonObject,
  host: HostFacts,
  report: EncodeReport,
  pathOf: ModelPathOf,
): EncodedRequest {
  const parameters: JsonObject = { sampleCount: typeof body.n === 'number' ? body.n : 1 };
  const aspectRatio = aspectRatioOf(body.size, report);
  if (aspectRatio !== undefined) parameters.aspectRatio = aspectRatio;
  const format = asText(body.output_format);
  if (format === 'png' || format === 'jpeg') parameters.outputOptions = { mimeType: `image/${format}` };
  else if (format !== undefined) report.drop('output_format');
  Object.assign(parameters, ownOptions(body));
  const instances = [{ prompt: requireText(body, 'prompt') }];
  return { path: pathOf(host, 'predict'), body: stringifyExact({ instances, parameters }) };
}

function encodeDrawing(
  body: JsonObject,
  host: HostFacts,
  report: EncodeReport,
  pathOf: ModelPathOf,
): EncodedRequest {
  if (typeof body.n === 'number' && body.n > 1) report.drop('n');
  if (body.output_format !== undefined) report.drop('output_format');
  const generationConfig: JsonObject = { responseModalities: ['TEXT', 'IMAGE'] };
  const aspectRatio = aspectRatioOf(body.size, report);
  if (aspectRatio !== undefined) generationConfig.imageConfig = { aspectRatio };
  Object.assign(generationConfig, ownOptions(body));
  const contents = [{ role: 'user', parts: [{ text: requireText(body, 'prompt') }] }];
  return { path: pathOf(host, 'generateContent'), body: stringifyExact({ contents, generationConfig }) };
}

function ownOptions(body: JsonObject): JsonObject | undefined {
  const options = asObject(body.provider_options);
  return asObject(options?.['google-gemini']) ?? asObject(options?.['google-vertex']);
}

/** The shape that comes nearest to a size (`1536x1024`); the number of pixels is the model's. */
function aspectRatioOf(size: unknown, report: EncodeReport): string | undefined {
  if (size === undefined || size === null || size === 'auto') return undefined;
  const [, width, height] = /^(\d+)\s*[x:]\s*(\d+)$/.exec(asText(size) ?? '') ?? [];
  const ratio = Number(width) / Number(height);
  if (!Number.isFinite(ratio) || ratio <= 0) {
    report.drop('size');
    return undefined;
  }
  report.emulate('size');
  const distance = (other: number): number => Math.abs(Math.log(ratio / other));
  const [first, ...others] = ratios as [readonly [string, number], ...(readonly [string, number])[]];
  return others.reduce((best, one) => (distance(one[1]) < distance(best[1]) ? one : best), first)[0];
}

function decodeAnswer(body: Buffer, _contentType: string, request: JsonObject): OperationAnswer {
  const answer = requireAnswer(body);
  const model = asText(member(answer, 'modelVersion')) ?? asText(request.model) ?? '';
  const data = 'predictions' in answer ? predictions(answer) : drawings(answer);
  if (data.length === 0)
    throw new GatewayError('upstream_invalid', `The provider made no image. ${refusal(answer)}`.trim(), {
      source: 'provider',
    });
  const usage = decodeGeminiUsage(member(answer, 'usageMetadata'));
  return usage === undefined ? { body: { data }, model } : { body: { data }, model, usage };
}

function predictions(answer: JsonObject): JsonObject[] {
  return asArray(answer.predictions).flatMap((value) => {
    const prediction = asObject(value);
    const bytes = asText(prediction?.bytesBase64Encoded);
    if (bytes === undefined) return [];
    const prompt = asText(prediction?.prompt);
    return [prompt === undefined ? { b64_json: bytes } : { b64_json: bytes, revised_prompt: prompt }];
  });
}

function drawings(answer: JsonObject): JsonObject[] {
  return partsOf(answer).flatMap((part) => {
    const blob = memberObject(part, 'inlineData');
    const bytes = blob === undefined || part.thought === true ? undefined : asText(blob.data);
    return bytes === undefined ? [] : [{ b64_json: bytes }];
  });
}

/** What the host says instead of an image: a reason, or the model's own words. */
function refusal(answer: JsonObject): string {
  const reason = asArray(answer.predictions).map((one) => asText(asObject(one)?.raiFilteredReason));
  const blocked = asText(member(memberObject(answer, 'promptFeedback') ?? {}, 'blockReason'));
  const text = partsOf(answer).map((part) => asText(part.text));
  return [...reason, blocked, ...text].find((one) => one !== undefined) ?? '';
}

function partsOf(answer: JsonObject): JsonObject[] {
  return asArray(answer.candidates).flatMap((candidate) =>
    asArray(asObject(asObject(candidate)?.content)?.parts).flatMap((part) => {
      const object = asObject(part);
      return object === undefined ? [] : [object];
    }),
  );
}
