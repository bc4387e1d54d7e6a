import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { UndoStack } from './undo-stack.ts';

function stackOf(): { stack: UndoStack; errors: string[]; clock: ManualClock } {
  const errors: string[] = [];
  const clock = new ManualClock();
  const stack = new UndoStack({
    clock,
    timeoutMs: 50,
    onError: (error) => errors.push((error as Error).message),
  });
  return { stack, errors, clock };
}

test('any mix of steps that work, throw and reject runs completely, last first, each once', async () => {
  const kinds = fc.array(fc.constantFrom('sync', 'async', 'throws', 'rejects'), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(kinds, async (steps) => {
      const { stack, errors } = stackOf();
      const ran: number[] = [];
      steps.forEach((kind, index) =>
        stack.push(() => {
          ran.push(index);
          if (kind === 'throws') throw new Error(String(index));
          if (kind === 'rejects') return Promise.reject(new Error(String(index)));
          return kind === 'async' ? Promise.resolve() : undefined;
        }),
      );
      await Promise.all([stack.dispose(), stack.dispose()]);
      await stack.dispose();
      const backwards = steps.map((_, index) => index).reverse();
      assert.deepEqual(ran, backwards);
      const failing = backwards.filter((index) => steps[index] === 'throws' || steps[index] === 'rejects');
      assert.deepEqual(errors, failing.map(String));
    }),
  );
});

test('a step runs only after the one above it has ended', async () => {
  const { stack } = stackOf();
  const ran: string[] = [];
  stack.push(() => void ran.push('lower'));
  stack.push(async () => {
    await new Promise((resolve) => setImmediate(resolve));
    ran.push('upper');
  });
  await stack.dispose();
  assert.deepEqual(ran, ['upper', 'lower']);
});

test('a step that never ends is reported and does not keep the others from running', async () => {
  const { stack, errors, clock } = stackOf();
  let ran = false;
  stack.push(() => void (ran = true));
  stack.push(() => new Promise(() => undefined));
  const disposal = stack.dispose();
  await clock.pass(50);
  await disposal;
  assert.equal(ran, true);
  assert.match(errors.join(), /has not ended within 50 ms/);
  assert.equal(clock.waiting, 0);
});

test('what is pushed while disposing or afterwards is taken back too', async () => {
  const { stack, errors } = stackOf();
  const ran: string[] = [];
  stack.push(() => stack.push(() => void ran.push('during')));
  await stack.dispose();
  stack.push(() => {
    ran.push('after');
    throw new Error('late');
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(ran, ['during', 'after']);
  assert.deepEqual(errors, ['late']);
  assert.equal(stack.size, 0);
});
