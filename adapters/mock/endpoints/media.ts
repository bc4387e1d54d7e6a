import { answerOf, answerTexts, invalid, type MockAnswer } from '../answer.ts';
import { fields, type MockContext, type MockRequest } from '../request.ts';

/** A PNG of one transparent pixel. */
const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
const outputTokens = 1;

/** POST /images/generations: a tiny PNG, as base64 or (`response_format: url`) as a data URL. */
export function answerImages(request: MockRequest, context: MockContext): MockAnswer {
  const body = request.json;
  const prompt = fields.requiredText(body, 'prompt');
  const n = fields.optionalInteger(body, 'n', 1, 10) ?? 1;
  const format = fields.optionalText(body, 'response_format') ?? 'b64_json';
  if (format !== 'b64_json' && format !== 'url') {
    throw invalid('response_format', "Invalid 'response_format': expected url or b64_json.");
  }
  const image = format === 'url' ? { url: `data:image/png;base64,${pixel}` } : { b64_json: pixel };
  const input = answerTexts.countTokens(prompt);
  const usage = {
    input_tokens: input,
    input_tokens_details: { text_tokens: input, image_tokens: 0 },
    output_tokens: n * outputTokens,
    total_tokens: input + n * outputTokens,
  };
  return answerOf.json({
    created: context.nowSeconds(),
    data: Array.from({ length: n }, () => image),
    ...(request.faults.usage === 'none' ? {} : { usage }),
  });
}

const maxInputLength = 4096;
const sampleRate = 8000;
/** A tenth of a second. */
const sampleCount = sampleRate / 10;

/** POST /audio/speech: a short tone as a WAV file, in any requested format. */
export function answerSpeech(request: MockRequest): MockAnswer {
  fields.requiredModel(request.json);
  const input = fields.requiredText(request.json, 'input');
  fields.requiredText(request.json, 'voice');
  if (input.length > maxInputLength) {
    throw invalid('input', `Invalid 'input': at most ${maxInputLength} characters.`);
  }
  return answerOf.bytes('audio/wav', tone(220 + (input.length % 20) * 22));
}

/** 16-bit mono samples behind the 44 bytes of a WAV header. */
function tone(hertz: number): Buffer {
  const dataBytes = sampleCount * 2;
  const wav = Buffer.alloc(44 + dataBytes);
  wav.write('RIFF', 0, 'latin1');
  wav.writeUInt32LE(36 + dataBytes, 4);
  wav.write('WAVEfmt ', 8, 'latin1');
  wav.writeUInt32LE(16, 16);
  wav.writeUInt16LE(1, 20);
  wav.writeUInt16LE(1, 22);
  wav.writeUInt32LE(sampleRate, 24);
  wav.writeUInt32LE(sampleRate * 2, 28);
  wav.writeUInt16LE(2, 32);
  wav.writeUInt16LE(16, 34);
  wav.write('data', 36, 'latin1');
  wav.writeUInt32LE(dataBytes, 40);
  for (let i = 0; i < sampleCount; i++) {
    const level = Math.round(8000 * Math.sin((2 * Math.PI * hertz * i) / sampleRate));
    wav.writeInt16LE(level, 44 + i * 2);
  }
  return wav;
}
