import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { recordingLog } from '../embedded/chdb-fixture.ts';
import type { Database } from './database.ts';
import { createResources } from './resources.ts';

const impatient = {
  now: () => 0,
  monotonic: () => 0,
  after(_: number, run: () => void) {
    queueMicrotask(run);
    return () => undefined;
  },
};

/** Resources on a database that fails so many times with this error, before it commits. */
function failing(times: number, error: unknown) {
  const calls = { made: 0, notified: '' };
  const transaction: Database['transaction'] = async (_, options) => {
    calls.made += 1;
    calls.notified = options?.notify ?? '';
    if (calls.made <= times) throw error;
    return 'done' as never;
  };
  const database = { transaction } as Database;
  return { calls, resources: createResources({ database, clock: impatient, log: recordingLog() }) };
}

function refused(code: string): GatewayError {
  return new GatewayError('store_unavailable', 'Away', {
    cause: Object.assign(new Error('refused'), { code }),
  });
}

describe('a write that another transaction got in the way of', () => {
  for (const code of ['40001', '40P01']) {
    test(`is tried 3 times more after error ${code}`, async () => {
      const { calls, resources } = failing(3, refused(code));
      assert.equal(await resources.write('any', async () => undefined), 'done');
      assert.equal(calls.made, 4);
      assert.equal(calls.notified, 'weir_changes');
    });

    test(`rejects with error ${code} after that`, async () => {
      const error = refused(code);
      const { calls, resources } = failing(9, error);
      await assert.rejects(
        resources.write('any', async () => undefined),
        (thrown) => thrown === error,
      );
      assert.equal(calls.made, 4);
    });
  }

  for (const [name, error] of Object.entries({
    'another error of the database': refused('23505'),
    'a database that is away': new GatewayError('store_unavailable', 'Away'),
    'an error of the work': Object.assign(new Error('mine'), { code: '40001' }),
  })) {
    test(`is not tried again after ${name}`, async () => {
      const { calls, resources } = failing(1, error);
      await assert.rejects(
        resources.write('any', async () => undefined),
        (thrown) => thrown === error,
      );
      assert.equal(calls.made, 1);
    });
  }
});
