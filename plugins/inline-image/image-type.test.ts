import assert from 'node:assert/strict';
import { test } from 'node:test';
import { imageType } from './index.ts';

const media = (brand: string) => Buffer.from(`\0\0\0\x18ftyp${brand}\0\0\0\0`, 'latin1');
const cases: readonly [string, Buffer, string | undefined][] = [
  ['PNG', Buffer.from('\x89PNG\r\n\x1a\n\0\0', 'latin1'), 'image/png'],
  ['JPEG', Buffer.from([0xff, 0xd8, 0xff, 0xe0]), 'image/jpeg'],
  ['GIF of 1987', Buffer.from('GIF87a..'), 'image/gif'],
  ['GIF of 1989', Buffer.from('GIF89a..'), 'image/gif'],
  ['WebP', Buffer.from('RIFF\x24\0\0\0WEBPVP8 ', 'latin1'), 'image/webp'],
  ['AVIF', media('avif'), 'image/avif'],
  ['HEIC', media('heic'), 'image/heic'],
  ['HEIF', media('mif1'), 'image/heif'],
  ['MP4', media('isom'), undefined],
  ['WAV', Buffer.from('RIFF\x24\0\0\0WAVEfmt ', 'latin1'), undefined],
  ['SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'), undefined],
  ['HTML', Buffer.from('<!doctype html>'), undefined],
  ['PDF', Buffer.from('%PDF-1.7'), undefined],
  ['half a PNG', Buffer.from('\x89PNG', 'latin1'), undefined],
  ['a brand that is a member of every object', media('cons'), undefined],
  ['nothing', Buffer.alloc(0), undefined],
];
for (const [name, bytes, type] of cases) {
  test(`${name}: ${type ?? 'no image'}`, () => assert.equal(imageType(bytes), type));
}
