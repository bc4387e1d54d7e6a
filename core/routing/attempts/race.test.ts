import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ManualClock } from '../../../tests/conformance/manual-clock.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';
import type { Exchange } from '../../pipeline/exchange.ts';
import type { PlanLeaf } from '../plan/plan-node.ts';
import { type Contender, race } from './plan-run.ts';

type RaceResult = Awaited<ReturnType<typeof race>>;
type TargetResult = RaceResult['winner'];

interface Running extends Contender {
  end(status: number, final?: boolean): void;
  aborted: string;
}

/** A race whose attempts end when the test says so. */
function raceOf(names: readonly string[], afterMs = 100) {
  const clock = new ManualClock();
  const running: Running[] = [];
  const late: number[] = [];
  const leaves = names.map((path) => ({ path }) as PlanLeaf);
  const outcome: { result: RaceResult | undefined } = { result: undefined };
  void race(leaves, {
    clock,
    afterMs,
    start(leaf) {
      const state = { aborted: '' };
      const fork = {
        failure: undefined as GatewayError | undefined,
        abort: () => void (state.aborted = fork.failure?.message ?? '?'),
      };
      let resolve: (result: TargetResult) => void = () => undefined;
      const result = new Promise<TargetResult>((done) => (resolve = done));
      const one: Running = {
        leaf,
        fork: fork as Partial<Exchange> as Exchange,
        startedAt: clock.monotonic(),
        result,
        get aborted() {
          return state.aborted;
        },
        end(status, final = false) {
          const exchange = one.fork;
          resolve({ exchange, leaf, status, final, answer: undefined, error: undefined });
        },
      };
      running.push(one);
      return one;
    },
    tooLate: ({ status }) => void late.push(status),
  }).then((result) => (outcome.result = result));
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  const started = () => running.map(({ leaf }) => leaf.path);
  const isOver = () => outcome.result !== undefined;
  return { clock, running, late, outcome, settle, started, isOver };
}

describe('a race', () => {
  test('that the first wins in time starts nobody else, and leaves no timer', async () => {
    const { clock, running, outcome, settle, started } = raceOf(['a', 'b', 'c']);
    clock.advance(99);
    running[0]?.end(200);
    await settle();
    assert.equal(outcome.result?.winner.leaf.path, 'a');
    assert.deepEqual([started(), clock.waiting, outcome.result?.losers.length], [['a'], 0, 0]);
  });

  test('starts one more after each pause, and the last never waits for another', async () => {
    const { clock, started } = raceOf(['a', 'b', 'c']);
    clock.advance(100);
    assert.deepEqual(started(), ['a', 'b']);
    clock.advance(100);
    assert.deepEqual([started(), clock.waiting], [['a', 'b', 'c'], 0]);
  });

  test('the one who is faster wins; the others are broken off and told why', async () => {
    const { clock, running, outcome, settle } = raceOf(['a', 'b', 'c']);
    clock.advance(100);
    running[1]?.end(204);
    await settle();
    assert.equal(outcome.result?.winner.leaf.path, 'b');
    assert.deepEqual([running[0]?.aborted, running[1]?.aborted], ['Another attempt answered first.', '']);
    assert.deepEqual([outcome.result?.losers.map(({ leaf }) => leaf.path), clock.waiting], [['a'], 0]);
  });

  test('a failure starts the next at once', async () => {
    const { running, settle, started } = raceOf(['a', 'b']);
    running[0]?.end(503);
    await settle();
    assert.deepEqual(started(), ['a', 'b']);
  });

  test('a failure waits for those who still run', async () => {
    const { clock, running, outcome, settle, isOver } = raceOf(['a', 'b']);
    clock.advance(100);
    running[1]?.end(500);
    await settle();
    assert.equal(isOver(), false);
    running[0]?.end(200);
    await settle();
    assert.equal(outcome.result?.winner.leaf.path, 'a');
  });

  test('when all fail, the last failure is what is told', async () => {
    const { clock, running, outcome, settle } = raceOf(['a', 'b']);
    clock.advance(100);
    running[0]?.end(500);
    await settle();
    running[1]?.end(503);
    await settle();
    assert.equal(outcome.result?.winner.status, 503);
  });

  test('a failure that no other target mends ends it', async () => {
    const { clock, running, outcome, settle } = raceOf(['a', 'b', 'c']);
    clock.advance(100);
    running[0]?.end(499, true);
    await settle();
    assert.deepEqual([outcome.result?.winner.status, running[1]?.aborted !== ''], [499, true]);
  });

  test('an answer that comes too late is handed over to be left', async () => {
    const { clock, running, late, settle } = raceOf(['a', 'b']);
    clock.advance(100);
    running[0]?.end(200);
    await settle();
    running[1]?.end(201);
    await settle();
    assert.deepEqual(late, [201]);
  });
});
