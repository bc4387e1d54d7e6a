import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { crc32, deflateSync, inflateSync } from 'node:zlib';
import { palettePng } from './palette-png.ts';

const signature = Buffer.from('89504e470d0a1a0a', 'hex');

function chunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type), data]);
  const whole = Buffer.alloc(named.length + 8);
  whole.writeUInt32BE(data.length);
  named.copy(whole, 4);
  whole.writeUInt32BE(crc32(named), named.length + 4);
  return whole;
}

/** A picture of lines that are filtered already, each with the number of its filter in front. */
function picture(width: number, type: 2 | 6, lines: readonly (readonly number[])[]): Buffer {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(lines.length, 4);
  head.set([8, type], 8);
  const packed = deflateSync(Buffer.from(lines.flat()));
  return Buffer.concat([
    ...[signature, chunk('IHDR', head), chunk('IDAT', packed), chunk('IEND', Buffer.alloc(0))],
  ]);
}

/** The pixels of a picture with a palette, as colours. */
function coloursOf(png: Buffer, width: number): string[][] {
  const part = (type: string): Buffer => {
    const at = png.indexOf(type);
    return png.subarray(at + 4, at + 4 + png.readUInt32BE(at - 4));
  };
  const palette = part('PLTE');
  const rows = inflateSync(part('IDAT'));
  return Array.from({ length: rows.length / (width + 1) }, (_, y) =>
    [...rows.subarray(y * (width + 1) + 1, (y + 1) * (width + 1))].map((place) =>
      palette.toString('hex', place * 3, place * 3 + 3),
    ),
  );
}

describe('palettePng', () => {
  test('few colours stay as they are, whatever filters the lines have', () => {
    const lines = [
      [0, ...[10, 20, 30], ...[40, 50, 60]],
      [1, ...[10, 20, 30], ...[30, 30, 30]],
      [2, ...[0, 0, 0], ...[0, 0, 0]],
      [3, ...[5, 10, 15], ...[15, 15, 15]],
      [4, ...[0, 0, 0], ...[0, 0, 0]],
    ];
    const row = ['0a141e', '28323c'];
    assert.deepEqual(coloursOf(palettePng(picture(2, 2, lines)), 2), [row, row, row, row, row]);
  });

  test('of too many colours the frequent ones stay exact and the others come near', () => {
    const shades = Array.from({ length: 300 }, (_, shade) => [shade % 256, shade % 7, shade >> 1, 255]);
    const lines = [
      [0, ...shades.flat()],
      [0, ...shades.flatMap(() => [250, 251, 252, 255])],
    ];
    const [mixed = [], plain = []] = coloursOf(palettePng(picture(300, 6, lines)), 300);
    assert.deepEqual(new Set(plain), new Set(['fafbfc']));
    assert.ok(new Set(mixed).size <= 256);
    mixed.forEach((colour, x) => {
      const parts = [0, 2, 4].map((at) => parseInt(colour.slice(at, at + 2), 16));
      const distance = parts.reduce((sum, part, at) => sum + Math.abs(part - (shades[x]?.[at] ?? 0)), 0);
      assert.ok(distance < 24, `${colour} at ${x}`);
    });
  });

  test('other files are refused', () => {
    assert.throws(() => palettePng(Buffer.from('GIF89a')), /no PNG/);
    assert.throws(() => palettePng(picture(1, 6, [[0, 1, 2, 3, 128]])), /transparent/);
  });
});
