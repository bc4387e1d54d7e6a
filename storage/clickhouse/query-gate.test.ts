import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { ManualClock, settle } from '../../tests/conformance/manual-clock.ts';
import { QueryGate, type Asker, type GateBounds } from './query-gate.ts';

/** A gate, and queries that run until they are told to end. */
function setUp(bounds: Partial<GateBounds> = {}) {
  const clock = new ManualClock();
  const refusals: string[] = [];
  const ends: [verb: string, ranMs: number, waitedMs: number][] = [];
  const gate = new QueryGate({ running: 2, waiting: 3, waitMs: 10_000, ...bounds }, clock, {
    refused: (reason) => refusals.push(reason),
    ended: (...told) => ends.push(told),
  });
  const begun: string[] = [];
  const finish = new Map<string, (error?: Error) => void>();
  const ask = (name: string, asker: Asker = { organisationId: name[0] as string }): Promise<string> =>
    gate.run('logs', asker, () => {
      begun.push(name);
      return new Promise((resolve, reject) => {
        finish.set(name, (error) => (error === undefined ? resolve(name) : reject(error)));
      });
    });
  const end = async (name: string, error?: Error): Promise<void> => {
    finish.get(name)?.(error);
    await settle();
  };
  return { gate, clock, refusals, ends, begun, ask, end };
}

const tooMany = (message: RegExp) => (error: unknown) => {
  assert.ok(
    GatewayError.is(error) && error.code === 'too_many_queries' && error.status === 429,
    String(error),
  );
  assert.match(error.message, message);
  assert.match(error.headers.join(' '), /^retry-after \d+$/);
  return true;
};

test('so many run, the next ones wait, and each gets the place of one that has ended', async () => {
  const { gate, begun, ask, end } = setUp();
  const answers = ['a1', 'a2', 'a3', 'a4'].map((name) => ask(name));
  await settle();
  assert.deepEqual([begun, gate.running, gate.waiting], [['a1', 'a2'], 2, 2]);
  await end('a2');
  assert.deepEqual([begun, gate.running, gate.waiting], [['a1', 'a2', 'a3'], 2, 1]);
  for (const name of ['a1', 'a3', 'a4']) await end(name);
  assert.deepEqual(await Promise.all(answers), ['a1', 'a2', 'a3', 'a4']);
  assert.deepEqual([gate.running, gate.waiting], [0, 0]);
});

test('one that fails makes room like any other', async () => {
  const { gate, ask, end, begun } = setUp({ running: 1 });
  const failed = assert.rejects(ask('a1'), /broken/);
  const next = ask('a2');
  await settle();
  await end('a1', new Error('broken'));
  await failed;
  assert.deepEqual(begun, ['a1', 'a2']);
  await end('a2');
  assert.equal(await next, 'a2');
  assert.equal(gate.running, 0);
});

test('organisations that wait take turns, however much one of them asks', async () => {
  const { begun, ask, end } = setUp({ running: 1, waiting: 9 });
  const asked = ['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'b2'];
  const answers = asked.map((name) => ask(name));
  await settle();
  for (let count = 0; count < asked.length; count += 1) await end(begun[count] as string);
  await Promise.all(answers);
  assert.deepEqual(begun, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']);
});

test('what finds no place among those that wait is refused at once, with a time to come back', async () => {
  const { ask, end, begun, refusals } = setUp({ running: 1, waiting: 2 });
  const answers = ['a1', 'a2', 'a3'].map((name) => ask(name));
  await assert.rejects(ask('a4'), tooMany(/^1 queries .* run and 2 wait already\. Try again later\.$/));
  assert.deepEqual(refusals, ['full']);
  for (const name of ['a1', 'a2', 'a3']) await end(name);
  await Promise.all(answers);
  assert.deepEqual(begun, ['a1', 'a2', 'a3']);
});

test('an organisation that fills the queue gives way to another one, its last query first', async () => {
  const { ask, end, begun, gate } = setUp({ running: 1, waiting: 3 });
  const kept = [ask('a1'), ask('a2'), ask('a3')];
  const given = assert.rejects(ask('a4'), tooMany(/wait already/));
  kept.push(ask('b1'));
  await given;
  assert.equal(gate.waiting, 3);
  // Now nobody has more than one above b's next one: b is refused itself.
  await assert.rejects(ask('b2'), tooMany(/wait already/));
  for (const name of ['a1', 'a2', 'b1', 'a3']) await end(name);
  await Promise.all(kept);
  assert.deepEqual(begun, ['a1', 'a2', 'b1', 'a3']);
});

test('nobody waits longer than may be, and nothing is left of who did', async () => {
  const { ask, end, begun, clock, gate, refusals } = setUp({ running: 1 });
  const first = ask('a1');
  const late = assert.rejects(ask('a2'), tooMany(/none has made room within 10 seconds/));
  await clock.pass(9_999);
  const second = ask('b1');
  assert.equal(gate.waiting, 2);
  await clock.pass(1);
  await late;
  assert.deepEqual([gate.waiting, refusals], [1, ['late']]);
  await end('a1');
  await end('b1');
  assert.deepEqual([await first, await second, begun], ['a1', 'b1', ['a1', 'b1']]);
  assert.equal(clock.waiting, 0);
});

test('it tells how long a query ran and waited, and when to come back follows from it', async () => {
  const { ask, end, clock, ends } = setUp({ running: 1, waiting: 1 });
  const answers = [ask('a1'), ask('a2')];
  await clock.pass(8000);
  await end('a1');
  await clock.pass(300);
  const third = ask('a3');
  await assert.rejects(ask('a4'), (error) => {
    assert.ok(GatewayError.is(error));
    // A mean of 0.25 s moved by an eighth towards 8 s, for two that are before it.
    assert.deepEqual(error.headers, ['retry-after', '3']);
    return true;
  });
  await end('a2');
  await end('a3');
  await Promise.all([...answers, third]);
  assert.deepEqual(ends, [
    ['logs', 8000, 0],
    ['logs', 300, 8000],
    ['logs', 0, 0],
  ]);
});

test('whatever is asked and ends in whatever order, no more run or wait than may, and everybody is answered', async () => {
  const step = fc.record({
    organisation: fc.constantFrom('a', 'b', 'c'),
    ends: fc.boolean(),
    ms: fc.nat(6000),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const { gate, clock, begun, ask, end } = setUp();
      const answers: Promise<string>[] = [];
      const done = new Set<string>();
      for (const [number, { organisation, ends, ms }] of steps.entries()) {
        answers.push(
          ask(`${organisation}${number}`).catch((error: unknown) => String(GatewayError.is(error))),
        );
        await clock.pass(ms);
        assert.ok(gate.running <= 2 && gate.waiting <= 3);
        const [running] = begun.filter((name) => !done.has(name));
        if (!ends || running === undefined) continue;
        done.add(running);
        await end(running);
      }
      for (let place = 0; place < begun.length; place += 1) await end(begun[place] as string);
      const told = await Promise.all(answers);
      assert.ok(told.every((answer) => answer === 'true' || begun.includes(answer)));
      assert.deepEqual([gate.running, gate.waiting, clock.waiting], [0, 0, 0]);
    }),
    { numRuns: 60 },
  );
});

test('workspaces of an organisation take turns, and the keys of each', async () => {
  const { begun, ask, end } = setUp({ running: 1, waiting: 20 });
  const of = (workspaceId: string, asker: string): Asker => ({ organisationId: 'o', workspaceId, asker });
  const asked: [string, Asker][] = [
    ...['a1', 'a2', 'a3', 'a4'].map((name): [string, Asker] => [name, of('flood', 'one')]),
    ['b1', of('flood', 'two')],
    ['c1', of('quiet', 'three')],
    ['d1', { organisationId: 'p' }],
  ];
  const answers = asked.map(([name, asker]) => ask(name, asker));
  await settle();
  for (let count = 0; count < asked.length; count += 1) await end(begun[count] as string);
  await Promise.all(answers);
  assert.deepEqual(begun, ['a1', 'a2', 'd1', 'c1', 'b1', 'a3', 'a4']);
});

test('a workspace that asks with many keys gives way to one that asks little', async () => {
  const { ask, end, begun, gate } = setUp({ running: 1, waiting: 4 });
  const flood = (key: number): Asker => ({ organisationId: 'o', workspaceId: 'flood', asker: `key ${key}` });
  const kept = [1, 2, 3, 4].map((key) => ask(`a${key}`, flood(key)));
  const given = assert.rejects(ask('a5', flood(5)), tooMany(/wait already/));
  kept.push(ask('b1', { organisationId: 'o', workspaceId: 'quiet', asker: 'key' }));
  await given;
  assert.equal(gate.waiting, 4);
  for (let count = 0; count < 5; count += 1) await end(begun[count] as string);
  await Promise.all(kept);
  assert.ok(begun.indexOf('b1') <= 2, begun.join());
});

test('a workspace holds three quarters of the places, so that others find one at once', async () => {
  const { ask, end, begun, gate } = setUp({ running: 4, waiting: 9 });
  const flood: Asker = { organisationId: 'o', workspaceId: 'flood' };
  const answers = ['a1', 'a2', 'a3', 'a4'].map((name) => ask(name, flood));
  await settle();
  assert.deepEqual([begun, gate.running, gate.waiting], [['a1', 'a2', 'a3'], 3, 1]);
  answers.push(ask('b1', { organisationId: 'o', workspaceId: 'quiet' }));
  await settle();
  assert.deepEqual(begun, ['a1', 'a2', 'a3', 'b1']);
  await end('b1');
  assert.deepEqual([gate.running, gate.waiting], [3, 1], 'its place stays free');
  await end('a1');
  assert.deepEqual(begun.at(-1), 'a4');
  for (const name of ['a2', 'a3', 'a4']) await end(name);
  await Promise.all(answers);
  assert.deepEqual([gate.running, gate.waiting], [0, 0]);
});

test('a workspace that asks one question at a time is never refused, and waits for a bounded number of turns', async () => {
  const organisations = 2;
  const workspaces = 3;
  const keys = 4;
  const asker = fc.record({
    organisation: fc.nat(organisations - 1),
    workspace: fc.nat(workspaces - 1),
    key: fc.nat(keys - 1),
    times: fc.integer({ min: 1, max: 12 }),
    ends: fc.nat(3),
    asks: fc.boolean(),
    which: fc.nat(5),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(asker, { minLength: 5, maxLength: 30 }),
      fc.integer({ min: 1, max: 6 }),
      fc.boolean(),
      async (steps, running, isInFlooded) => {
        const { begun, ask, end } = setUp({ running, waiting: 12 });
        const own: Asker = {
          organisationId: isInFlooded ? 'org 0' : 'quiet',
          workspaceId: 'quiet',
          asker: 'quiet',
        };
        const all: Promise<unknown>[] = [];
        const done = new Set<string>();
        let number = 0;
        let asking: { readonly name: string; readonly before: number } | undefined;
        let refused: unknown;
        const finishOne = async (which: number): Promise<void> => {
          const open = begun.filter((name) => !done.has(name));
          const name = open[which % Math.max(open.length, 1)];
          if (name === undefined) return;
          done.add(name);
          await end(name);
          if (asking !== undefined && begun.includes(asking.name)) {
            const turns = begun.indexOf(asking.name) - asking.before;
            assert.ok(turns <= (organisations + 1) * (workspaces + 1), `${turns} turns`);
            if (done.has(asking.name)) asking = undefined;
          }
        };
        for (const { organisation, workspace, key, times, ends, asks, which } of steps) {
          for (let time = 0; time < times; time += 1) {
            const flood = {
              organisationId: `org ${organisation}`,
              workspaceId: `ws ${workspace}`,
              asker: `key ${(key + time) % keys}`,
            };
            all.push(ask(`f${number++}`, flood).catch(() => undefined));
          }
          if (asks && asking === undefined) {
            asking = { name: `q${number++}`, before: begun.length };
            all.push(ask(asking.name, own).catch((error: unknown) => (refused = error)));
          }
          await settle();
          for (let count = 0; count < ends; count += 1) await finishOne(which);
          assert.equal(refused, undefined, String(refused));
        }
        for (let count = 0; done.size < begun.length; count += 1) await finishOne(0);
        await Promise.all(all);
        assert.equal(refused, undefined, String(refused));
      },
    ),
    { numRuns: 150 },
  );
});
