// What usage limits have counted beside what is recorded, after a gateway was killed.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, test } from 'node:test';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { chat } from '../kit/operator.ts';
import { runWeir, startWeir, stopEverything, temporaryFolder, type WeirProcess } from '../kit/process-kit.ts';

after(() => stopEverything());

const key = 'a-secret-of-the-file-0123456789';
const yaml = {
  version: 1,
  storage: { resources: { url: 'none:' }, analytics: { url: 'chdb:' } },
  organisation: {
    keys: [
      {
        ...{ name: 'limited', type: 'workspace-service', key, scopes: ['completions.write'] },
        usage_limits: { type: 'requests', credit_limit: 4 },
      },
    ],
  },
  pipelines: [
    { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
    { name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'policies', 'provider', 'logger'] },
  ],
};
const headers = { 'x-service-provider': 'mock' };

/** The gateway is killed when its ledger has lost what the journal has. */
async function killedGateway(data: string): Promise<void> {
  const weir = await startWeir({ yaml, data });
  for (let count = 0; count < 3; count++) assert.equal(await statusOf(weir), 200);
  await new Promise((resolve) => setTimeout(resolve, 1500));
  await weir.stop('SIGKILL');
  const file = path.join(data, 'usage', 'usage.jsonl');
  const text = await readFile(file, 'utf8');
  assert.match(text, /"used":3/);
  await writeFile(file, text.replaceAll(/"used":\d/g, '"used":1'));
}

const statusOf = async ({ url }: WeirProcess): Promise<number> =>
  (await chat(url, { key, model: 'mock-gpt', headers })).status;

test(
  'after a kill, what the ledger lost is counted from the rows of requests',
  { skip: chdbMissing },
  async () => {
    const data = path.join(await temporaryFolder(), 'data');
    await killedGateway(data);
    let weir = await startWeir({ yaml, data });
    const text = await weir.untilStderr('compared with the rows of requests');
    assert.match(
      text,
      /had counted less than the rows of requests say.*counted=1.*recorded=3.*corrected=true/,
    );
    assert.deepEqual([await statusOf(weir), await statusOf(weir)], [200, 412]);
    await weir.stop();
    weir = await startWeir({ yaml, data });
    assert.equal(await statusOf(weir), 412);
    assert.doesNotMatch(weir.stderr(), /compared with the rows/, 'it ended in order');
    await weir.stop();
  },
);

test('by the command too, which changes nothing when it is told so', { skip: chdbMissing }, async () => {
  const data = path.join(await temporaryFolder(), 'data');
  await killedGateway(data);
  // The rows wait in the journal of the run that was killed: a gateway without counted limits stores them.
  const env = { USAGE_LIMITS_ENABLED: 'OFF' };
  const storing = await startWeir({ yaml, data, env });
  await storing.stop();
  const config = path.join(await temporaryFolder(), 'gateway.config.yaml');
  await writeFile(config, JSON.stringify(yaml));
  const reconcile = async (...more: string[]) => {
    const { code, stdout, stderr } = await runWeir([
      ...['reconcile', '--budgets', '--config', config, '--data', data],
      ...more,
    ]);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  for (const again of [1, 2]) {
    const { compared, differences } = JSON.parse(await reconcile('--json', '--dry-run'));
    assert.deepEqual([again, compared, differences.length], [again, 1, 1]);
    const [{ counted, recorded, is_corrected }] = differences;
    assert.deepEqual([counted, recorded, is_corrected], [1, 3, false]);
  }
  assert.match(
    await reconcile(),
    /1 usage limits compared.*; 1 have counted less[^]*requests +1 +3 +corrected/,
  );
  assert.match(await reconcile(), /1 usage limits compared.*; 0 have counted less/);
  const wrong = await runWeir(['reconcile', '--budgets', '--provider', 'openai']);
  assert.match(wrong.stderr, /takes no --provider/);
});
