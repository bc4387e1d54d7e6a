import { bytesAnswer, invalid, type MockAnswer } from '../answer.ts';
import { type MockRequest, requiredModel, requiredText } from '../request.ts';

const maxInputLength = 4096;
const sampleRate = 8000;
/** A tenth of a second. */
const sampleCount = sampleRate / 10;

/** POST /audio/speech: a short tone as a WAV file, in any requested format. */
export function answerSpeech(request: MockRequest): MockAnswer {
  requiredModel(request.json);
  const input = requiredText(request.json, 'input');
  requiredText(request.json, 'voice');
  if (input.length > maxInputLength) {
    throw invalid('input', `Invalid 'input': at most ${maxInputLength} characters.`);
  }
  return bytesAnswer('audio/wav', tone(220 + (input.length % 20) * 22));
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
