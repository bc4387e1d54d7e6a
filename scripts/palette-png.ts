import { crc32, deflateSync, inflateSync } from 'node:zlib';

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const mostColours = 256;
/** Colours that differ by less are one while there are too many; the sum of the differences in red, green and blue. */
const leastDistance = 12;

/** Pixels of a picture, three bytes each. */
interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly rgb: Buffer;
}

/**
 * The picture with a palette of 256 colours, a third to a quarter of the bytes. A picture of fewer colours stays as it is; of more,
 * the most frequent ones stay exact and the others become the nearest of them, which suits pages but no photographs.
 * Takes PNG files of 8 bits a channel, RGB or RGBA without transparent pixels, not interlaced, as browsers write them;
 * throws for others.
 */
export function palettePng(png: Buffer): Buffer {
  const { width, height, rgb } = readPixels(png);
  const counts = new Map<number, number>();
  for (let at = 0; at < rgb.length; at += 3) {
    const colour = rgb.readUIntBE(at, 3);
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const palette = choose(counts);
  const places = new Map(palette.map((colour, place) => [colour, place]));
  for (const colour of counts.keys())
    if (!places.has(colour)) places.set(colour, nearest(palette, colour).place);
  const rows = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; y += 1)
    for (let x = 0; x < width; x += 1)
      rows[y * (width + 1) + 1 + x] = places.get(rgb.readUIntBE((y * width + x) * 3, 3)) ?? 0;
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3], 8);
  const colours = Buffer.alloc(palette.length * 3);
  palette.forEach((colour, place) => colours.writeUIntBE(colour, place * 3, 3));
  return Buffer.concat([
    signature,
    chunk('IHDR', head),
    chunk('PLTE', colours),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

/** All colours where they are few enough; otherwise the most frequent of those that are apart from each other. */
function choose(counts: ReadonlyMap<number, number>): readonly number[] {
  const byCount = [...counts].sort(([, one], [, other]) => other - one).map(([colour]) => colour);
  if (byCount.length <= mostColours) return byCount;
  const chosen: number[] = [];
  for (const colour of byCount) {
    if (chosen.length === mostColours) break;
    if (nearest(chosen, colour).distance >= leastDistance) chosen.push(colour);
  }
  return chosen;
}

function nearest(palette: readonly number[], colour: number): { place: number; distance: number } {
  const best = { place: 0, distance: Infinity };
  palette.forEach((one, place) => {
    const distance = [16, 8, 0].reduce(
      (sum, shift) => sum + Math.abs(((one >> shift) & 255) - ((colour >> shift) & 255)),
      0,
    );
    if (distance < best.distance) Object.assign(best, { place, distance });
  });
  return best;
}

function readPixels(png: Buffer): Pixels {
  const chunks = chunksOf(png);
  const head = chunks.find(([type]) => type === 'IHDR')?.[1];
  if (head === undefined) throw new Error('The picture has no head.');
  const [width, height] = [head.readUInt32BE(0), head.readUInt32BE(4)];
  const channels = head[9] === 2 ? 3 : 4;
  if (head[8] !== 8 || (head[9] !== 2 && head[9] !== 6) || head[12] !== 0)
    throw new Error('The picture must have 8 bits a channel, RGB or RGBA, and not be interlaced.');
  const packed = Buffer.concat(chunks.filter(([type]) => type === 'IDAT').map(([, data]) => data));
  const lines = inflateSync(packed);
  const stride = width * channels;
  let above: Buffer = Buffer.alloc(stride);
  const rgb = Buffer.alloc(width * height * 3);
  for (let y = 0; y < height; y += 1) {
    const start = y * (stride + 1);
    const line = lines.subarray(start + 1, start + 1 + stride);
    unfilter(lines[start] ?? 0, line, above, channels);
    for (let x = 0; x < width; x += 1) {
      line.copy(rgb, (y * width + x) * 3, x * channels, x * channels + 3);
      if (channels === 4 && line[x * 4 + 3] !== 255) throw new Error('The picture has transparent pixels.');
    }
    above = line;
  }
  return { width, height, rgb };
}

/** Undoes the filter of a line in place: each byte is the difference from its left and upper neighbours. */
function unfilter(kind: number, line: Buffer, above: Buffer, channels: number): void {
  for (let at = 0; at < line.length; at += 1) {
    const left = at < channels ? 0 : (line[at - channels] ?? 0);
    const up = above[at] ?? 0;
    const corner = at < channels ? 0 : (above[at - channels] ?? 0);
    const expected = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][kind] ?? 0;
    line[at] = ((line[at] ?? 0) + expected) & 255;
  }
}

function paeth(left: number, up: number, corner: number): number {
  const guess = left + up - corner;
  const [byLeft, byUp, byCorner] = [left, up, corner].map((one) => Math.abs(guess - one));
  if ((byLeft ?? 0) <= (byUp ?? 0) && (byLeft ?? 0) <= (byCorner ?? 0)) return left;
  return (byUp ?? 0) <= (byCorner ?? 0) ? up : corner;
}

function chunksOf(png: Buffer): (readonly [type: string, data: Buffer])[] {
  if (!png.subarray(0, 8).equals(signature)) throw new Error('This is no PNG picture.');
  const chunks: (readonly [string, Buffer])[] = [];
  for (let at = 8; at + 12 <= png.length;) {
    const size = png.readUInt32BE(at);
    chunks.push([png.toString('latin1', at + 4, at + 8), png.subarray(at + 8, at + 8 + size)]);
    at += size + 12;
  }
  return chunks;
}

function chunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const whole = Buffer.alloc(named.length + 8);
  whole.writeUInt32BE(data.length, 0);
  named.copy(whole, 4);
  whole.writeUInt32BE(crc32(named), named.length + 4);
  return whole;
}
