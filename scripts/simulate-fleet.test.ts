import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);

test('a fleet on virtual time keeps its promises: limits, breakers, rows', async () => {
  const script = ['--import', 'tsx', 'scripts/simulate-fleet.ts', '--replicas', '6', '--rate', '120'];
  const { stdout } = await run(process.execPath, script);
  assert.doesNotMatch(stdout, /BROKEN/);
  const [, accepted, stored] = /rows accepted (\d+), stored (\d+)/.exec(stdout) ?? [];
  assert.ok(Number(accepted) > 40_000);
  assert.equal(stored, accepted);
});

test('a number of replicas that is none is refused with the range', async () => {
  const script = ['--import', 'tsx', 'scripts/simulate-fleet.ts', '--replicas', 'many'];
  await assert.rejects(
    run(process.execPath, script),
    /--replicas takes a whole number from 3 to 60, not "many"/,
  );
});
