import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock, settle } from '../../tests/conformance/manual-clock.ts';
import { SharedPool } from './shared.ts';

function start(lingerMs?: number) {
  const clock = new ManualClock();
  const errors: unknown[] = [];
  const destroyed: number[] = [];
  let created = 0;
  const pool = new SharedPool<number>({
    clock,
    onError: (error) => errors.push(error),
    ...(lingerMs === undefined ? {} : { lingerMs }),
  });
  const create = () => {
    const value = ++created;
    return Promise.resolve({ value, destroy: () => void destroyed.push(value) });
  };
  return { pool, create, destroyed, errors, clock };
}

test('equal options share one value, whatever the order of their keys and however many ask at once', async () => {
  const { pool, create, destroyed } = start();
  const leases = await Promise.all([
    pool.acquire({ url: 'a', size: 2 }, create),
    pool.acquire({ size: 2, url: 'a', extra: undefined }, create),
    pool.acquire({ url: 'b', size: 2 }, create),
  ]);
  assert.deepEqual(
    leases.map((lease) => lease.value),
    [1, 1, 2],
  );
  assert.deepEqual([...pool.snapshot().values()], [2, 1]);
  leases[0].release();
  leases[0].release();
  await settle();
  assert.deepEqual(destroyed, [], 'one holder cannot give back twice');
  leases[1].release();
  await settle();
  assert.deepEqual(destroyed, [1]);
  assert.equal(pool.snapshot().size, 1);
});

test('a creation that failed is forgotten', async () => {
  const { pool, create } = start();
  const failing = () => Promise.reject(new Error('refused'));
  const both = await Promise.allSettled([pool.acquire('x', failing), pool.acquire('x', create)]);
  assert.deepEqual(
    both.map((one) => one.status),
    ['rejected', 'rejected'],
  );
  assert.equal((await pool.acquire('x', create)).value, 1);
});

test('within the linger a value survives a holder that releases before the next acquires', async () => {
  const { pool, create, destroyed, clock } = start(100);
  (await pool.acquire('x', create)).release();
  await clock.pass(99);
  const again = await pool.acquire('x', create);
  await clock.pass(500);
  assert.deepEqual([again.value, destroyed], [1, []]);
  again.release();
  await clock.pass(100);
  assert.deepEqual([destroyed, pool.snapshot().size], [[1], 0]);
});

test('closing ends what lingers and leaves what is held', async () => {
  const { pool, create, destroyed, clock } = start(100);
  await pool.acquire('held', create);
  (await pool.acquire('idle', create)).release();
  await pool.close();
  assert.deepEqual(destroyed, [2]);
  assert.equal(clock.waiting, 0);
});

test('a successor with the same options waits until its predecessor has ended', async () => {
  const { pool, create } = start();
  let finish: () => void = () => undefined;
  const destroy = () => new Promise<void>((resolve) => (finish = resolve));
  (await pool.acquire('x', () => ({ value: 0, destroy }))).release();
  await settle();
  let created = false;
  const next = pool.acquire('x', () => {
    created = true;
    return create();
  });
  await settle();
  assert.equal(created, false);
  finish();
  assert.equal((await next).value, 1);
});

test('a destruction that fails is reported and does not block a successor', async () => {
  const { pool, create, errors } = start();
  const destroy = () => Promise.reject(new Error('half closed'));
  (await pool.acquire('x', () => ({ value: 0, destroy }))).release();
  assert.equal((await pool.acquire('x', create)).value, 1);
  assert.match(String(errors[0]), /half closed/);
});

test('options that are no plain data are refused', async () => {
  const { pool, create } = start();
  await assert.rejects(pool.acquire({ when: new Date(0) }, create), /only plain data/);
});
