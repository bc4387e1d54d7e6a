import assert from 'node:assert/strict';
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { processesOf, usageOfTree } from './measure.ts';

test('CPU time of ps is read with days, hours and hundredths', () => {
  const listed = `    1     0   1-02:03:04  1200 /sbin/init
  310     1      0:01.25 20480 node main.ts start
`;
  assert.deepEqual(processesOf(listed), [
    { pid: 1, parent: 0, cpuUs: 93_784_000_000, residentBytes: 1_228_800, command: '/sbin/init' },
    { pid: 310, parent: 1, cpuUs: 1_250_000, residentBytes: 20_971_520, command: 'node main.ts start' },
  ]);
});

test('usage counts the processes that a process has started', async () => {
  const work = 'const end = performance.now() + 60; while (performance.now() < end);';
  const inner = `process.stdin.resume(); process.stdin.on('end', () => process.exit()); ${work} console.log('worked');`;
  const outer = `require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(inner)}], { stdio: 'inherit' });`;
  const child = spawn(process.execPath, ['-e', outer], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  const usage = await usageOfTree(child.pid ?? 0);
  child.stdin.end();
  await once(child, 'exit');
  assert.equal(usage.processes, 2);
  assert.ok(usage.cpuUs > 20_000, `${usage.cpuUs} µs`);
  assert.ok(usage.residentBytes > 10 * 2 ** 20);
  assert.equal(usage.storesCpuUs, 0);
  await assert.rejects(usageOfTree(child.pid ?? 0), /has ended/);
});
