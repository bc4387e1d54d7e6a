import assert from 'node:assert/strict';
import { test } from 'node:test';
import { progressText, showProgress } from './progress.ts';

test('it says how much is there, how fast it goes, and how long it takes yet', () => {
  const text = (stored: number, own: number, seconds: number): string =>
    progressText({ stored, rows: 10_000_000, own, end: 0 }, seconds);
  assert.equal(text(0, 0, 0), '0 %, 0 of 10,000,000 rows');
  assert.equal(
    text(4_500_000, 500_000, 10),
    '45 %, 4,500,000 of 10,000,000 rows, 50,000 rows/s, 1 min 50 s left',
  );
  assert.equal(text(100_000, 100_000, 100), '1 %, 100,000 of 10,000,000 rows, 1,000 rows/s, 2 h 45 min left');
  assert.equal(text(10_000_000, 100, 1), '100 %, 10,000,000 of 10,000,000 rows, 100 rows/s');
});

function shown(isTTY: boolean, columns = 100) {
  const written: string[] = [];
  let now = 0;
  const show = showProgress({ isTTY, columns, write: (text) => written.push(text) }, () => now);
  return {
    written,
    at(seconds: number, stored: number) {
      now = seconds * 1000;
      show({ stored, rows: 100, own: stored, end: 0 });
    },
  };
}

test('without a terminal it writes plain lines, one in five seconds and the last', () => {
  const { written, at } = shown(false);
  for (const seconds of [0, 1, 4.9, 5, 6, 10]) at(seconds, seconds * 10);
  assert.equal(written.length, 3);
  for (const line of written) {
    assert.match(line, /^\d+ %, .*\n$/);
    assert.ok(!line.includes('\r') && !line.includes('\u001b'));
  }
  assert.match(written[2] ?? '', /^100 %/);
});

test('on a terminal it draws a bar over itself, no wider than the terminal, and leaves it at the end', () => {
  const { written, at } = shown(true);
  at(0, 0);
  at(1, 50);
  at(2, 100);
  assert.match(written[1] ?? '', /^\r\[#{15}\.{15}\] 50 %/);
  assert.ok(written[1]?.endsWith('\u001b[K'));
  assert.match(written[2] ?? '', /^\r\[#{30}\] 100 %.*\n$/);
  const narrow = shown(true, 40);
  narrow.at(0, 0);
  narrow.at(1, 50);
  assert.match(narrow.written[1] ?? '', /^\r50 %/);
});
