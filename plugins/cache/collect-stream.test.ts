import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StreamSource, StreamTarget } from '../../core/pipeline/answer.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { CollectingBudget, collectStream } from './replay.ts';

const failure = new GatewayError('upstream_reset', 'It broke.');

function begin(maxBytes = 10, budget = new CollectingBudget(100)) {
  const notes: string[] = [];
  let given: StreamTarget | undefined;
  const source: StreamSource = {
    pipe: (target) => void (given = target),
    resume: () => void notes.push('resume'),
    cancel: () => void notes.push('cancel'),
  };
  let room = true;
  const stream = collectStream(source, {
    maxBytes,
    budget,
    whole: (bytes) => void notes.push(`whole ${bytes.toString()}`),
    tooLong: () => void notes.push('too long'),
  });
  stream.pipe({
    data(chunk) {
      notes.push(chunk.toString());
      return room;
    },
    end: () => void notes.push('end'),
    fail: () => void notes.push('fail'),
  });
  return { notes, stream, budget, full: () => (room = false), target: given as StreamTarget };
}

/** What a budget of 100 has left. */
const left = (budget: CollectingBudget): number => {
  let bytes = 0;
  while (budget.take(1)) bytes++;
  budget.giveBack(bytes);
  return bytes;
};

test('everything is passed on at once, and known as a whole before its end is', () => {
  const { notes, target, budget } = begin();
  target.data(Buffer.from('one'));
  assert.deepEqual(notes, ['one']);
  assert.equal(left(budget), 97);
  target.data(Buffer.from('two'));
  target.end();
  assert.deepEqual(notes, ['one', 'two', 'whole onetwo', 'end']);
  assert.equal(left(budget), 100);
});

test('a stream that grows too long flows on, and nothing of it is held any more', () => {
  const { notes, target, budget } = begin();
  for (const text of ['12345', '67890', '!', 'more']) target.data(Buffer.from(text));
  assert.equal(left(budget), 100);
  target.end();
  assert.deepEqual(notes, ['12345', '67890', 'too long', '!', 'more', 'end']);
});

test('many streams together hold no more than their budget', () => {
  const budget = new CollectingBudget(8);
  const [first, second] = [begin(10, budget), begin(10, budget)];
  first.target.data(Buffer.from('12345'));
  second.target.data(Buffer.from('12345'));
  second.target.end();
  first.target.end();
  assert.deepEqual(second.notes, ['too long', '12345', 'end']);
  assert.deepEqual(first.notes, ['12345', 'whole 12345', 'end']);
  assert.equal(budget.take(8), true);
});

test('a stream that breaks is never whole, and gives back what it held', () => {
  const { notes, target, budget } = begin();
  target.data(Buffer.from('one'));
  target.fail(failure);
  assert.deepEqual(notes, ['one', 'fail']);
  assert.equal(left(budget), 100);
});

test('so does one that is cancelled, and its source is', () => {
  const { notes, target, stream, budget } = begin();
  target.data(Buffer.from('one'));
  stream.cancel(failure);
  assert.deepEqual(notes, ['one', 'cancel']);
  assert.equal(left(budget), 100);
});

test('the pace of the reader is the pace of the source', () => {
  const { target, stream, notes, full } = begin();
  assert.equal(target.data(Buffer.from('a')), true);
  full();
  assert.equal(target.data(Buffer.from('b')), false);
  stream.resume();
  assert.deepEqual(notes, ['a', 'b', 'resume']);
});
