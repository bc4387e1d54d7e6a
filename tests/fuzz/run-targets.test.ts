import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { runTargets, type FuzzOptions } from './run-targets.ts';
import { must, target, unlessRefused } from './target.ts';

async function run(about: ReturnType<typeof target>, options: Partial<FuzzOptions> = {}) {
  const lines: string[] = [];
  const report = (line: string): void => void lines.push(line);
  const { failed, rows } = await runTargets([about], { minutes: 0.005, seed: 11, report, ...options });
  return { failed, lines, cases: rows[0]?.cases ?? 0 };
}

const small = target('small', () => ({
  values: fc.array(fc.record({ count: fc.nat(), bytes: fc.constant(Buffer.from([1, 255])) })),
  check: (list) => must(!list.some(({ count }) => count > 1000), 'A count is above 1000.'),
}));

test('a broken property is told with its smallest case and the command that replays it', async () => {
  const { failed, lines } = await run(small);
  assert.equal(failed, true);
  assert.match(lines[0] ?? '', /^FAILED small: seed 11, path [\d:]+$/);
  assert.equal(lines[1], 'Case: [{"count":1001,"bytes":{"base64":"Af8="}}]');
  assert.match(lines[2] ?? '', /A count is above 1000/);
  const [, path = ''] = /--path (\S+)$/.exec(lines.at(-1) ?? '') ?? [];
  const replayed = await run(small, { path });
  assert.equal(replayed.failed, true);
  assert.equal(replayed.lines[1], lines[1]);
});

test('without a failure the cases are counted, and what a target opens is closed', async () => {
  let open = 0;
  const { failed, cases } = await run(
    target('fine', (closing) => {
      open++;
      closing.after(() => Promise.resolve(void open--));
      return { values: fc.integer(), check: () => Promise.resolve() };
    }),
  );
  assert.equal(failed, false);
  assert.ok(cases > 10, String(cases));
  assert.equal(open, 0);
});

test('a rejection is a failure as well, and a refusal on purpose is none', async () => {
  const rejecting = target('rejecting', () => ({
    values: fc.constant('x'),
    check: () => Promise.reject(new Error('It is gone.')),
  }));
  assert.match((await run(rejecting)).lines.join('\n'), /It is gone/);
  const refuse = (code: 'invalid_request' | 'internal') => (): never => {
    throw new GatewayError(code, 'No.');
  };
  assert.equal(unlessRefused(refuse('invalid_request')), undefined);
  assert.throws(() => unlessRefused(refuse('internal')), /It ends in internal/);
  assert.throws(
    () =>
      unlessRefused(() => {
        throw new TypeError('x is no function');
      }),
    TypeError,
  );
});
