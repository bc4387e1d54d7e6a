import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { atTurnEnd } from './turns.ts';

describe('the end of a turn of the event loop', () => {
  test('runs what waits for it in order, and what is queued meanwhile after all of that', async () => {
    const ran: string[] = [];
    const one = (name: string, then?: () => void) => ({
      run() {
        ran.push(name);
        then?.();
      },
    });
    atTurnEnd(one('answer 1', () => atTurnEnd(one('row 1'))));
    atTurnEnd(one('answer 2', () => atTurnEnd(one('row 2'))));
    await Promise.resolve();
    assert.deepEqual(ran, [], 'not before the turn ends');
    await nextTurn();
    assert.deepEqual(ran, ['answer 1', 'answer 2', 'row 1', 'row 2']);
    atTurnEnd(one('later'));
    await nextTurn();
    assert.equal(ran.at(-1), 'later');
  });

  test('one that throws loses nobody else, and is not swallowed', async (t) => {
    const uncaught: string[] = [];
    process.setUncaughtExceptionCaptureCallback((error) => uncaught.push(error.message));
    t.after(() => process.setUncaughtExceptionCaptureCallback(null));
    const ran: string[] = [];
    atTurnEnd({
      run() {
        throw new Error('a bug');
      },
    });
    atTurnEnd({ run: () => ran.push('the next one') });
    await nextTurn();
    await nextTurn();
    assert.deepEqual(ran, ['the next one']);
    assert.deepEqual(uncaught, ['a bug']);
  });
});
