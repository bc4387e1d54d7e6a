import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { requestRow } from '../conformance/analytics-rows.ts';
import { makeHome, type Home } from '../kit/gateway-process.ts';
import {
  eventually,
  ownerKey,
  runWeir,
  startWeir,
  stopEverything,
  temporaryFolder,
} from '../kit/process-kit.ts';
import { storedCopies } from '../kit/stored-copies.ts';

// Nothing is shipped before the gateway stops, so that there is something to look at.
const configuration = `version: 1
storage: { journal: { flush_ms: 5, ship_ms: 60000, max_bytes: 2147483648 } }
pipelines:
  - { name: gateway, match: { path: /** }, plugins: [auth, provider, logger: { bodies: false }] }
`;

after(stopEverything);

const journal = (home: Home, ...args: string[]) =>
  runWeir(['journal', ...args, '--data', home.data], { env: { WEIR_CONFIG: home.configFile } });

async function inventory(home: Home) {
  const { code, stdout, stderr } = await journal(home, 'status', '--json');
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}

async function ask(url: string): Promise<void> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      'x-service-api-key': ownerKey,
      'x-service-provider': 'mock',
      'content-type': 'application/json',
    },
    body: JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] }),
  });
  assert.equal(response.status, 200, await response.text());
}

async function segmentText(folder: string, table: string): Promise<string> {
  const files = (await readdir(folder)).filter((file) => file.startsWith(table));
  return (await Promise.all(files.map((file) => readFile(path.join(folder, file), 'utf8')))).join('');
}

describe('weir journal beside a gateway and after it', { skip: chdbMissing }, () => {
  test('looks, verifies, refuses, and puts rows back so that each is stored once', async (t) => {
    const home = await makeHome(configuration);
    t.after(() => home.remove());
    const folder = path.join(home.data, 'journal');
    const weir = await startWeir({ config: home.configFile, data: home.data });
    for (let i = 0; i < 3; i += 1) await ask(weir.url);
    const beside = await eventually(async () => {
      const found = await inventory(home);
      return found.tables.requests.rows === 3 ? found : undefined;
    });
    assert.deepEqual([beside.gateway_pid, beside.tables.requests.segments], [weir.child.pid, 1]);
    assert.ok(Date.now() - Date.parse(beside.tables.requests.oldest) < 120_000);
    const told = await eventually(async () => {
      const { told: found } = await inventory(home);
      return found?.tables.requests.accepted === 3 ? found : undefined;
    });
    assert.deepEqual(
      [told.pid, told.policy, told.max_bytes, told.refused, told.tables.requests.shed_by],
      [weir.child.pid, 'shed', 2147483648, 0, {}],
    );
    assert.match(
      (await journal(home, 'status')).stdout,
      /Bound {5}\d+ of 2147483648 bytes \(0 %\)\nPolicy {4}shed\n/,
    );
    const verified = await journal(home, 'verify');
    assert.equal(verified.code, 0, verified.stdout + verified.stderr);
    assert.match(verified.stdout, /1 segments, 3 good rows, \d+ bytes, 0 faults/);
    const shipped = await segmentText(folder, 'requests');

    const own = path.join(home.folder, 'mine.ndjson');
    // Of now: what is older than the retention is not kept.
    const created_at = new Date().toISOString().replace('T', ' ').slice(0, -1);
    const [first, second, third] = [1, 2, 3].map(() => JSON.stringify(requestRow({ created_at })));
    await writeFile(own, `${shipped}${first}\nbroken\n${second}\n`);
    const refused = await journal(home, 'replay', own, '--table', 'requests');
    assert.equal(refused.code, 1);
    assert.ok(refused.stderr.includes(`the data folder ${home.data} is in use by process ${weir.child.pid}`));
    assert.equal(refused.stderr.trim().split('\n').length, 1, refused.stderr);
    assert.equal((await weir.stop()).code, 0);

    const kept = { name: 'requests-a-00-0.0-9', at: 'then', reason: 'because', row: third };
    await writeFile(path.join(folder, 'quarantine', 'requests-a-00-0.0-9.json'), `${JSON.stringify(kept)}\n`);
    const stopped = await inventory(home);
    assert.deepEqual([stopped.gateway_pid, stopped.tables.requests.rows], [null, 0]);
    assert.equal(stopped.tables.requests.quarantine.files, 1);

    const replayed = await journal(home, 'replay', own, '--table', 'requests');
    assert.equal(replayed.code, 1, 'a row could not be put back');
    const offset = shipped.length + (first as string).length + 1;
    assert.ok(replayed.stdout.includes(`${own}:${offset}: is no JSON`), replayed.stdout + replayed.stderr);
    assert.match(replayed.stdout, /2 rows are back in the journal .* 3 were there or stored already/);
    const fromQuarantine = await journal(home, 'replay', '--quarantine', '--json');
    assert.equal(fromQuarantine.code, 0, fromQuarantine.stderr);
    assert.deepEqual(JSON.parse(fromQuarantine.stdout), {
      added: { requests: 1, bodies: 0, feedback: 0 },
      known: 0,
      removed_files: 1,
      faults: [],
      fault_count: 0,
    });
    const again = await journal(home, 'replay', own, '--table', 'requests');
    assert.match(again.stdout, /^0 rows are back .* 5 were there or stored already/m);
    assert.deepEqual((await inventory(home)).tables.requests.rows, 3);

    const next = await startWeir({ config: home.configFile, data: home.data });
    await next.stop();
    const { requests } = await storedCopies(home);
    const ids = [...shipped.trim().split('\n'), first, second, third].map(
      (line) => JSON.parse(line as string).id,
    );
    assert.deepEqual([...requests].sort(), ids.map((id) => [id, 1]).sort());
  });
});

describe('weir journal says what is wrong', { concurrency: 2 }, () => {
  test('a bad row is named with its place, and the exit code tells', async () => {
    const data = path.join(await temporaryFolder(), 'data');
    const folder = path.join(data, 'journal');
    await mkdir(folder, { recursive: true });
    const file = path.join(folder, 'bodies-a-00-0.sealed');
    await writeFile(file, '{"id":"1"}\nnonsense\n');
    await writeFile(path.join(folder, 'bodies-a-00-1.open'), '{"id":"2"}\n{"id"');
    const { code, stdout } = await runWeir(['journal', 'verify'], { env: { WEIR_DATA: data } });
    assert.equal(code, 1);
    assert.deepEqual(stdout.trim().split('\n'), [
      `${file}:11: is no JSON`,
      `${path.join(folder, 'bodies-a-00-1.open')}:11: is torn; the next start cuts it`,
      `${folder}: 2 segments, 2 good rows, 36 bytes, 1 faults`,
    ]);
    const status = await runWeir(['journal', 'status', '--data', data]);
    assert.equal(status.code, 0);
    assert.match(status.stdout, /Gateway {3}not running/);
    assert.match(status.stdout, /^bodies +2 +3 +36 +\d{4}-/m);
  });

  const cases: readonly [what: string, args: readonly string[], config: string, sentence: RegExp][] = [
    [
      'a folder without a journal',
      ['status', '--data', 'nowhere'],
      'none:',
      /no journal in .*nowhere.*--data/,
    ],
    ['a replay without a store', ['replay', 'rows'], 'none:', /storage\.analytics\.url is "none:"/],
    ['a configuration that is wrong', ['replay', 'rows'], 'wrong:', /gateway\.config\.yaml:2:\d+/],
  ];
  for (const [what, args, url, sentence] of cases) {
    test(what, async () => {
      const cwd = await temporaryFolder();
      await mkdir(path.join(cwd, 'data', 'journal'), { recursive: true });
      const yaml = `version: 1\nstorage: { analytics: { url: '${url}' } }\npipelines:\n  - { name: gateway, match: { path: /** }, plugins: [provider] }\n`;
      await writeFile(path.join(cwd, 'gateway.config.yaml'), yaml);
      const { code, stdout, stderr } = await runWeir(['journal', ...args], { cwd });
      assert.equal(code, 1, stdout);
      assert.match(stderr, sentence);
      assert.doesNotMatch(stderr, /^ {2,}at /m);
      assert.deepEqual(await readdir(path.join(cwd, 'data', 'journal')), []);
    });
  }

  test('help comes with the way of working, mistakes with exit code 2', async () => {
    const help = await runWeir(['journal', 'replay', '--help']);
    assert.equal(help.code, 0);
    assert.match(help.stdout, /No row is stored twice/);
    const mistake = await runWeir(['journal', 'replay']);
    assert.equal(mistake.code, 2);
    assert.match(mistake.stderr, /either --quarantine or files/);
  });
});
