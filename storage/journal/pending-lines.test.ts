import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JournalLine } from '../../core/ports/journal.ts';
import { PendingLines, sizeOf } from './segment-writer.ts';

function push(lines: PendingLines, ...rows: JournalLine[]): void {
  for (const row of rows) lines.push(row, sizeOf(row));
}

function flush(lines: PendingLines): string {
  lines.begin();
  const texts: string[] = [];
  for (let chunk = lines.take(); chunk !== undefined; chunk = lines.take()) {
    assert.equal(chunk.bytes.toString().split('\n').length - 1, chunk.rows);
    texts.push(chunk.bytes.toString());
    lines.recycle(chunk);
  }
  return texts.join('');
}

test('rows come out in order, text and bytes alike', () => {
  const lines = new PendingLines();
  push(lines, '{"n":"ä"}', ['{"n":', Buffer.from('"ü"'), '}'], '{"n":"😀"}');
  assert.equal(flush(lines), '{"n":"ä"}\n{"n":"ü"}\n{"n":"😀"}\n');
  assert.equal(flush(lines), '');
});

test('a flush leaves the rows that come while it runs to the next one', () => {
  const lines = new PendingLines();
  push(lines, 'a');
  lines.begin();
  push(lines, 'b');
  const first = lines.take();
  assert.equal(first?.bytes.toString(), 'a\n');
  assert.equal(lines.take(), undefined);
  push(lines, 'c');
  assert.equal(first?.bytes.toString(), 'a\n', 'what is being written stays as it is');
  assert.equal(flush(lines), 'b\nc\n');
});

test('memory that was given back is used again, and never twice at once', () => {
  const lines = new PendingLines();
  const seen = new Set<ArrayBufferLike>();
  for (let n = 0; n < 20; n++) {
    push(lines, `row ${n}`);
    lines.begin();
    const chunk = lines.take();
    push(lines, 'meanwhile');
    assert.equal(chunk?.bytes.toString().split('\n').at(-2), `row ${n}`);
    if (chunk !== undefined) {
      seen.add(chunk.bytes.buffer);
      lines.recycle(chunk);
    }
  }
  assert.ok(seen.size <= 3, `${seen.size} pieces of memory`);
});

test('rows that are larger than a slab, and many small ones, all arrive', () => {
  const lines = new PendingLines();
  const rows = ['ü'.repeat(400_000), ...Array.from({ length: 5000 }, (_, n) => `${n}`.repeat(100)), 'end'];
  push(lines, ...rows);
  assert.equal(flush(lines), `${rows.join('\n')}\n`);
});

test('what is forgotten is counted', () => {
  const lines = new PendingLines();
  push(lines, 'ab', ['c', Buffer.from('d')]);
  lines.begin();
  push(lines, 'e');
  assert.deepEqual(lines.drain(), { rows: 3, characters: 8 });
  assert.equal(flush(lines), '');
});
