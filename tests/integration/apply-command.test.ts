// `weir apply`: a new configuration serves a share of the requests, and is kept or taken back.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import path from 'node:path';
import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import {
  eventually,
  ownerKey,
  runWeir,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';
import { samplesOf, shownInForm } from '../kit/document-samples.ts';
import { defaultRuntime } from '../kit/runtimes.ts';

const good = 'mock:';
const bad = 'mock:?status=500';
const slow = 'mock:?latency_ms=150';
/** Refuses chats with one of the words. */
const guardrail = (refused: readonly string[]) => ({
  'default.contains': { operator: 'none', words: refused },
  deny: true,
  id: 'words',
});
const breaker = { failure_threshold: 2, cooldown_interval: 30_000 };
const configuration = (
  provider: string,
  { workers = 1, resources = 'none:', note = '', refused = ['seldom'], canary = {} } = {},
) => ({
  version: 1,
  server: { workers },
  storage: { resources: { url: resources }, analytics: { url: 'none:' } },
  changes: { canary: { share: 20, min_requests: 5, ...canary } },
  providers: {
    main: { base_url: provider, credentials: 'none' },
    reserve: { base_url: good, credentials: 'none' },
  },
  configs: {
    noted: { targets: [{ provider: '@main', override_params: { user: note || 'none' } }] },
    guarded: { input_guardrails: [guardrail(refused)], targets: [{ provider: '@main' }] },
    reserved: {
      strategy: { mode: 'fallback' },
      targets: [{ provider: '@main', cb_config: breaker }, { provider: '@reserve' }],
    },
  },
  pipelines: [
    {
      name: 'administration',
      match: { routes: 'contributed' },
      plugins: ['auth', { management: { config_writes: true } }],
    },
    {
      name: 'gateway',
      match: { path: '/**' },
      plugins: ['auth', 'guardrails', { provider: { default: 'main' } }],
    },
  ],
});

interface Place {
  readonly weir: WeirProcess;
  readonly folder: string;
  readonly current: string;
}

async function open(options: Parameters<typeof configuration>[1] = {}): Promise<Place> {
  const folder = await temporaryFolder();
  const current = path.join(folder, 'gateway.config.json');
  await writeFile(current, JSON.stringify(configuration(good, options)));
  const weir = await startWeir({ config: current, data: path.join(folder, 'data') });
  return { weir, folder, current };
}

function administer({ weir }: Place, method: string, place: string): Promise<Response> {
  return fetch(`${weir.url}/v1${place}`, { method, headers: { 'x-service-api-key': ownerKey } });
}

/** Starts `weir apply` with the new configuration. */
async function apply({ weir, folder, current }: Place, next: object, time: string, ...more: string[]) {
  const file = path.join(folder, 'next.json');
  await writeFile(file, JSON.stringify(next));
  const args = ['apply', '--config', file, '--current', current, '--url', `${weir.url}/v1`, '--for', time];
  return runWeir([...args, '--key', ownerKey, ...more], { cwd: folder });
}

/** The header that names the target of a config. */
const option = 'x-service-last-used-option-index';
/** Three of ten chats say the first word, three others the second one. */
const words = ['seldom', 'a', 'often', 'b', 'seldom', 'often', 'c', 'seldom', 'often', 'd'];

/**
 * Chats at a moderate pace, until `stop` aborts or so many were sent; resolves to the numbers of answers by status, and by
 * target.
 */
async function chat(
  { weir }: Place,
  most: number,
  { stop, config }: { readonly stop?: AbortSignal; readonly config?: 'guarded' | 'reserved' } = {},
): Promise<Map<number | string, number>> {
  const statuses = new Map<number | string, number>();
  let sent = 0;
  const one = async (): Promise<void> => {
    while (sent < most && stop?.aborted !== true) {
      sent += 1;
      const answer = await fetch(`${weir.url}/v1/chat/completions`, {
        method: 'POST',
        headers: {
          ...{ 'content-type': 'application/json', 'x-service-api-key': ownerKey },
          ...(config !== undefined && { 'x-service-config': config }),
        },
        body: JSON.stringify({
          model: 'mock-gpt',
          messages: [{ role: 'user', content: words[Math.floor(Math.random() * words.length)] }],
        }),
      });
      await answer.text();
      for (const seen of [answer.status, answer.headers.get(option) ?? ''])
        statuses.set(seen, (statuses.get(seen) ?? 0) + 1);
      await pause(20);
    }
  };
  await Promise.all([one(), one(), one(), one()]);
  return statuses;
}

after(stopEverything);

test('one process: a failing provider is taken back early, a good one is kept, an abort ends it; each is audited', async () => {
  const options = { resources: 'pglite:' };
  const place = await open(options);
  const before = await readFile(place.current, 'utf8');

  const [reverted, statuses] = await Promise.all([
    apply(place, configuration(bad, options), '8s'),
    chat(place, 2000),
  ]);
  assert.equal(reverted.code, 3, reverted.stderr);
  assert.match(reverted.stdout, /reverted: Of \d+ requests \d+ failed/);
  const [page] = (await samplesOf('docs/safe-change.md')).filter(({ text }) =>
    text.includes(' apply --config'),
  );
  const [, begins = '', ...others] = page?.text.split('\n') ?? [];
  // What stands between the two depends on the time.
  assert.match(reverted.stdout, shownInForm(`${begins}\n${others.at(-1)}`));
  const failed = statuses.get(500) ?? 0;
  // Less than one in a hundred.
  assert.ok(failed >= 3 && failed < 20, `${failed} of 2000 requests met it`);
  assert.equal(failed + (statuses.get(200) ?? 0), 2000);
  assert.equal(await readFile(place.current, 'utf8'), before);

  const load = new AbortController();
  const traffic = chat(place, 20_000, { stop: load.signal });
  const good2 = configuration(good, { ...options, note: 'second' });
  const kept = await apply(place, good2, '5s');
  assert.equal(kept.code, 0, kept.stdout + kept.stderr);
  assert.match(kept.stdout, /completed: Nothing became worse/);
  assert.deepEqual(JSON.parse(await readFile(place.current, 'utf8')), good2);

  const running = apply(place, configuration(good, { ...options, note: 'third' }), '60s');
  await eventually(async () => {
    const shown = await (await administer(place, 'GET', '/admin/config-file/canary')).json();
    return (shown as { canary: { phase: string } }).canary.phase === 'running' ? true : undefined;
  });
  assert.equal((await administer(place, 'DELETE', '/admin/config-file/canary')).status, 200);
  const aborted = await running;
  assert.equal(aborted.code, 3);
  assert.match(aborted.stdout, /aborted: It was aborted/);
  assert.equal((await administer(place, 'DELETE', '/admin/config-file/canary')).status, 404);
  load.abort();
  const answered = [...(await traffic).keys()].filter((seen) => typeof seen === 'number');
  assert.deepEqual(answered, [200]);

  const trail = (await (await administer(place, 'GET', '/audit-logs?page_size=50')).json()) as {
    records: { action: string; resource_type: string }[];
  };
  const actions = trail.records
    .filter(({ resource_type: type }) => type === 'config_file')
    .map(({ action }) => action);
  assert.deepEqual(actions.sort(), ['abort', 'abort', 'complete', 'revert', 'start', 'start', 'start']);
});

// Deno has one process.
if (defaultRuntime === 'node')
  test('two workers have one canary: it is taken back in both, or kept by both', async () => {
    const options = { workers: 2 };
    const place = await open(options);
    const [reverted, statuses] = await Promise.all([
      apply(place, configuration(bad, options), '8s'),
      chat(place, 2000),
    ]);
    assert.equal(reverted.code, 3, reverted.stderr);
    const failed = statuses.get(500) ?? 0;
    assert.ok(failed >= 3 && failed < 20, `${failed} of 2000 requests met it`);

    const load = new AbortController();
    const traffic = chat(place, 20_000, { stop: load.signal });
    const kept = await apply(place, configuration(good, { ...options, note: 'second' }), '5s');
    load.abort();
    await traffic;
    assert.equal(kept.code, 0, kept.stdout + kept.stderr);
    const status = (await (await fetch(`${place.weir.url}/status`)).json()) as {
      generation: string;
      workers: { generation: string }[];
    };
    assert.deepEqual(
      status.workers.map(({ generation }) => generation),
      [status.generation, status.generation],
    );
  });

test('without a gateway, and with faults, nothing is tried, and the reason is said', async () => {
  const place = await open();
  const wrong = await apply(place, { ...configuration(good), pipelines: [{ nam: 'x' }] }, '5s');
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, /did you mean "name"/);
  await place.weir.stop();
  const gone = await apply(place, configuration(good), '5s');
  assert.equal(gone.code, 1);
  assert.match(gone.stderr, /No gateway answers at .*Start it/);
});

/** The canary that runs, or the last one. */
async function canaryOf(place: Place) {
  const { canary } = (await (await administer(place, 'GET', '/admin/config-file/canary')).json()) as {
    canary: { id: string; after: { requests: number } } | null;
  };
  return canary ?? { id: '', after: { requests: 0 } };
}

test('a slow provider and a guardrail that refuses more are taken back for it, with the reason in the audit trail', async () => {
  const options = { resources: 'pglite:' };
  const place = await open(options);
  const load = new AbortController();
  const traffic = chat(place, 20_000, { stop: load.signal, config: 'guarded' });

  const slower = await apply(place, configuration(slow, options), '8s');
  assert.equal(slower.code, 3, slower.stdout + slower.stderr);
  assert.match(slower.stdout, /reverted: Answers take \d+ % longer: 1\d\d instead of \d+ ms .*at most 50 %/);

  const stricter = configuration(good, { ...options, refused: ['seldom', 'often'] });
  const refusing = await apply(place, stricter, '8s');
  assert.equal(refusing.code, 3, refusing.stdout + refusing.stderr);
  assert.match(
    refusing.stdout,
    /reverted: More requests are refused: [\d.]+ % of \d+ instead of [\d.]+ % of \d+ \(at most 1 points more\)/,
  );
  load.abort();
  await traffic;

  const trail = (await (await administer(place, 'GET', '/audit-logs?page_size=50')).json()) as {
    records: { action: string; resource_type: string }[];
  };
  const reasons = trail.records
    .filter(({ action, resource_type: type }) => type === 'config_file' && action === 'revert')
    .map((entry) => JSON.stringify(entry));
  assert.equal(reasons.length, 2);
  for (const reason of ['More requests are refused', 'Answers take'])
    assert.ok(
      reasons.some((one) => one.includes(reason)),
      reasons.join(),
    );
});

test('thresholds of the file in force decide: with wide ones, a slower and stricter configuration is kept', async () => {
  const options = { canary: { max_latency_rise: 10_000, max_refusal_rise: 100 } };
  const place = await open(options);
  const load = new AbortController();
  const traffic = chat(place, 20_000, { stop: load.signal, config: 'guarded' });
  const next = configuration('mock:?latency_ms=40', { ...options, refused: ['seldom', 'often'] });
  const kept = await apply(place, next, '5s');
  load.abort();
  await traffic;
  assert.equal(kept.code, 0, kept.stdout + kept.stderr);
  assert.deepEqual(JSON.parse(await readFile(place.current, 'utf8')), next);
});

test('while one runs, a second is refused by its name, and its failures open no breaker of the file in force', async () => {
  const place = await open();
  const load = new AbortController();
  const traffic = chat(place, 20_000, { stop: load.signal, config: 'reserved' });
  const first = apply(place, configuration(bad), '20s');
  // Enough failures for the breaker of its target, which stands at the same place in both files.
  await eventually(async () => ((await canaryOf(place)).after.requests >= 4 ? true : undefined));
  const { id } = await canaryOf(place);

  const second = await apply(place, configuration(good, { note: 'second' }), '5s');
  assert.equal(second.code, 1);
  assert.ok(
    second.stderr.includes(`canary ${id} of the configuration runs already: started at`),
    second.stderr,
  );
  assert.match(second.stderr, /with the key "owner".* DELETE \/v1\/admin\/config-file\/canary/);

  assert.equal((await administer(place, 'DELETE', '/admin/config-file/canary')).status, 200);
  assert.equal((await first).code, 3);
  load.abort();
  const seen = await traffic;
  const { after: met } = await canaryOf(place);
  const [own = 0, reserve = 0] = [0, 1].map((index) => seen.get(`config.targets[${index}]`));
  assert.equal(seen.get(200), own + reserve);
  assert.ok(
    reserve >= 4 && reserve <= met.requests + 4,
    `${reserve} of ${own + reserve} went to the reserve, and ${met.requests} met the canary`,
  );
});
