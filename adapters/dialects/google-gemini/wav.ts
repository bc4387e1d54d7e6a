/** Bytes of the header. */
const headerBytes = 44;

/** Raw samples (16 bit, little-endian) as a WAV file. `rate` in samples per second. */
export function wavOfSamples(samples: Uint8Array, rate: number, channels = 1): Buffer {
  const header = Buffer.alloc(headerBytes);
  const bytesPerFrame = channels * 2;
  header.write('RIFF', 0, 'latin1');
  header.writeUInt32LE(headerBytes - 8 + samples.length, 4);
  header.write('WAVEfmt ', 8, 'latin1');
  header.writeUInt32LE(16, 16);
  // 1 is uncompressed.
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(channels, 22);
  header.writeUInt32LE(rate, 24);
  header.writeUInt32LE(rate * bytesPerFrame, 28);
  header.writeUInt16LE(bytesPerFrame, 32);
  header.writeUInt16LE(16, 34);
  header.write('data', 36, 'latin1');
  header.writeUInt32LE(samples.length, 40);
  return Buffer.concat([header, samples]);
}
