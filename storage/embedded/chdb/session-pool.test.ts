import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SessionPool } from './engine.ts';
import { EngineError } from './statement.ts';

const hasCode = (code: number) => (error: unknown) =>
  error instanceof EngineError && error.engineCode === code;

function gate(): { opened: Promise<void>; open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

test('a session serves one caller at a time, in order of asking', async () => {
  const pool = new SessionPool(['a'], 10);
  const first = gate();
  const order: string[] = [];
  const calls = [
    pool.use(async () => {
      await first.opened;
      order.push('one');
    }),
    pool.use(async () => void order.push('two')),
    pool.use(async () => void order.push('three')),
  ];
  await Promise.resolve();
  assert.deepEqual(order, []);
  first.open();
  await Promise.all(calls);
  assert.deepEqual(order, ['one', 'two', 'three']);
});

test('a session comes back after a failure', async () => {
  const pool = new SessionPool(['a'], 0);
  await assert.rejects(
    pool.use(() => Promise.reject(new Error('broken'))),
    /broken/,
  );
  assert.equal(await pool.use(async (session) => session), 'a');
});

test('more callers than may wait are refused', async () => {
  const pool = new SessionPool(['a'], 1);
  const first = gate();
  const running = pool.use(() => first.opened);
  const waiting = pool.use(async () => 'served');
  await assert.rejects(
    pool.use(async () => 'never'),
    hasCode(202),
  );
  first.open();
  await running;
  assert.equal(await waiting, 'served');
});

test('closing refuses those who wait and resolves when the last is done', async () => {
  const pool = new SessionPool(['a'], 5);
  const first = gate();
  let done = false;
  const running = pool.use(() => first.opened).then(() => (done = true));
  const waiting = assert.rejects(
    pool.use(async () => 'never'),
    hasCode(439),
  );
  const closed = pool.close().then(() => assert.equal(done, false));
  await waiting;
  await assert.rejects(
    pool.use(async () => 'never'),
    hasCode(439),
  );
  first.open();
  await Promise.all([running, closed]);
});
