import assert from 'node:assert/strict';
import { appendFile, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { makeHome, saidBy, startGateway, type GatewayProcess, type Home } from '../kit/gateway-process.ts';
import { eventually, stopEverything } from '../kit/process-kit.ts';
import { SteadyLoad } from '../kit/steady-load.ts';

interface Variant {
  readonly prefix: string;
  readonly port?: number;
}

function configuration({ prefix, port = 8787 }: Variant): string {
  return `version: 1
server: { port: ${port} }
storage: { analytics: { url: "none:" } }
pipelines:
  - name: limited
    match: { path: /embeddings }
    plugins: [auth, { rate-limit: { requests_per_hour: 4 } }, provider]
  - name: gateway
    match: { path: /** }
    plugins:
      - auth
      - add-prefix: { prefix: "${prefix}: " }
      - provider
      - logger
`;
}

/** What /status says of the last reload. */
interface Status {
  readonly config_error: { readonly problems: readonly string[] } | null;
  readonly restart_needed: string | null;
  readonly retiring_generations: number;
  readonly generation: string;
}

describe('a reload under load', { timeout: 90_000 }, () => {
  let home: Home;
  let gateway: GatewayProcess;
  let load: SteadyLoad;
  const startedAt = performance.now();

  before(async () => {
    home = await makeHome(configuration({ prefix: 'zero' }));
    gateway = await startGateway(home);
    load = new SteadyLoad(gateway);
  });
  after(async () => {
    await load?.stop();
    await stopEverything();
    await home?.remove();
  });

  const configure = (text: string): Promise<string> => home.write('gateway.config.yaml', text);
  const status = async (): Promise<Status> => (await gateway.status()) as unknown as Status;
  const prefixInUse = async (): Promise<string | undefined> =>
    /You said: \\"(\w+): Hello/.exec((await gateway.ask()).text)?.[1];
  const inUse = (prefix: string): Promise<true> =>
    eventually(
      async () => (await prefixInUse()) === prefix || undefined,
      () => `the prefix "${prefix}" in use; standard error: ${gateway.stderr}`,
    );

  /** Writes a broken configuration and resolves with what /status says is wrong with it. */
  async function refusal(text: string, file = 'gateway.config.yaml'): Promise<string> {
    const previous = await status();
    await home.write(file, text);
    const { config_error } = await eventually(
      async () => {
        const next = await status();
        return isDeepStrictEqual(next.config_error, previous.config_error) ? undefined : next;
      },
      () => 'the refusal in /status',
    );
    return config_error?.problems.join('\n') ?? '';
  }

  test('a changed option is used from the next request on', async () => {
    await inUse('zero');
    for (const prefix of ['one', 'two', 'three']) {
      await configure(configuration({ prefix }));
      await inUse(prefix);
      for (let again = 0; again < 5; again += 1) assert.equal(await prefixInUse(), prefix);
    }
  });

  test('an answer that is on its way ends as it began, on the generation that it began with', async () => {
    const before = await status();
    const response = await gateway.open({ model: 'mock:tokens=24,chunk_latency_ms=100', stream: true });
    const text = response.text();
    await configure(configuration({ prefix: 'behind' }));
    await inUse('behind');
    const during = await status();
    assert.notEqual(during.generation, before.generation);
    assert.ok(during.retiring_generations >= 1, 'the old generation is gone before its stream has ended');
    const whole = await text;
    assert.match(whole, /data: \[DONE\]\n\n$/);
    assert.match(saidBy(whole), /^You said: "three: Hello"/);
  });

  test('broken YAML keeps the old configuration, and says where and why', async () => {
    await configure(configuration({ prefix: 'good' }));
    await inUse('good');
    const broken = configuration({ prefix: 'broken' }).replace('plugins:\n', 'plugins: [\n');
    const problems = await refusal(broken);
    const place = problems.split(' ')[0] ?? '';
    assert.match(place, /gateway\.config\.yaml:\d+:\d+:$/);
    assert.ok(place.startsWith(home.configFile), place);
    const line = Number(place.split(':').at(-3));
    assert.ok(line >= 10 && line <= 14, `the mistake is in the lines 10 to 14, not in ${line}`);
    assert.ok(gateway.stderr.includes(problems.split('\n')[0] ?? ''), gateway.stderr);
    assert.match(gateway.stderr, /generation \w+ keeps serving/);
    assert.equal(await prefixInUse(), 'good');

    await configure(configuration({ prefix: 'repaired' }));
    await inUse('repaired');
    assert.equal((await status()).config_error, null);
  });

  test('a configuration that goes back to what serves clears the error', async () => {
    await configure(configuration({ prefix: 'steady' }));
    await inUse('steady');
    await refusal('version: 1\npipelines: [\n');
    await configure(configuration({ prefix: 'steady' }));
    await eventually(async () => (await status()).config_error === null || undefined);
    assert.equal(await prefixInUse(), 'steady');
  });

  test('a name that is close to a known one gets a suggestion, with its place', async () => {
    const cases: [string, string, RegExp][] = [
      ['- logger', '- loger', /gateway\.config\.yaml:14:9: .*"loger".*did you mean "logger"/],
      ['prefix: "', 'prefx: "', /gateway\.config\.yaml:12:23: .*prefx.*did you mean "prefix"/],
      ['server: {', 'sever: {', /gateway\.config\.yaml:2:1: .*sever.*did you mean "server"/],
    ];
    for (const [right, wrong, expected] of cases) {
      const problems = await refusal(configuration({ prefix: 'wrong' }).replace(right, wrong));
      assert.match(problems, expected);
      assert.match(gateway.stderr, expected);
      assert.notEqual(await prefixInUse(), 'wrong');
    }
    await configure(configuration({ prefix: 'right' }));
    await inUse('right');
  });

  test('a file that is written in place, piece by piece, is read when it is whole', async () => {
    const text = configuration({ prefix: 'whole' });
    // Within a quoted text: no part is a configuration that could be used by mistake.
    const half = text.indexOf('whole');
    await writeFile(home.configFile, text.slice(0, half));
    await appendFile(home.configFile, text.slice(half));
    await inUse('whole');
  });

  test('of many edits in a row the last is in use', async () => {
    for (let edit = 1; edit <= 15; edit += 1) {
      await configure(configuration({ prefix: `edit${edit}` }));
      await pause(10 * (edit % 7));
    }
    await inUse('edit15');
    for (let again = 0; again < 10; again += 1) assert.equal(await prefixInUse(), 'edit15');
  });

  test('included files are read when they appear, change and go', async () => {
    const including = configuration({ prefix: 'parts' }).replace(
      'server:',
      'include: ["parts/*.yaml"]\nserver:',
    );
    const provider = (faults: string): string =>
      `providers: { part: { base_url: "mock:?${faults}", credentials: none } }\n`;
    const asked = async (): Promise<number> =>
      (await gateway.ask({ headers: { 'x-service-provider': 'part' } })).status;
    const answers = (expected: number): Promise<true> =>
      eventually(
        async () => (await asked()) === expected || undefined,
        () => `status ${expected}; standard error: ${gateway.stderr}`,
      );
    await mkdir(path.join(home.folder, 'parts'));
    await configure(including);
    await inUse('parts');
    await answers(400);
    const part = await home.write('parts/part.yaml', provider('tokens=3'));
    await answers(200);
    await home.write('parts/part.yaml', provider('status=418'));
    await answers(418);
    assert.match(await refusal('provider: {}\n', 'parts/part.yaml'), /part\.yaml:1:1: .*"providers"/);
    assert.equal(await asked(), 418);
    await rm(part);
    await answers(400);
  });

  test('a file below a link that is swapped, as volumes of configuration are, is read anew', async () => {
    const point = async (link: string, target: string): Promise<void> => {
      await symlink(target, path.join(home.folder, 'next'));
      await rename(path.join(home.folder, 'next'), path.join(home.folder, link));
    };
    for (const prefix of ['mounted', 'swapped', 'again']) {
      await mkdir(path.join(home.folder, `..${prefix}`));
      await home.write(`..${prefix}/config.yaml`, configuration({ prefix }));
      await point('..data', `..${prefix}`);
      if (prefix === 'mounted') await point('gateway.config.yaml', '..data/config.yaml');
      await inUse(prefix);
    }
    await rm(home.configFile);
    await eventually(
      async () => (await status()).config_error?.problems.join().includes('does not exist') || undefined,
    );
    assert.equal(await prefixInUse(), 'again');
    await configure(configuration({ prefix: 'file' }));
    await inUse('file');
    assert.equal((await status()).config_error, null);
  });

  test('a rate limit goes on counting behind a reload', async () => {
    const embed = () => gateway.ask({ path: '/embeddings', body: { model: 'mock-embed', input: 'a' } });
    const remaining = async () => (await embed()).headers.get('x-service-ratelimit-remaining');
    assert.equal(await remaining(), '3');
    assert.equal(await remaining(), '2');
    await configure(configuration({ prefix: 'counted' }));
    await inUse('counted');
    assert.equal(await remaining(), '1');
    await configure(configuration({ prefix: 'again' }));
    await inUse('again');
    assert.equal(await remaining(), '0');
    assert.equal((await embed()).status, 429);
  });

  test('a setting that needs a restart says so, and the rest is used', async () => {
    await configure(configuration({ prefix: 'moved', port: 8788 }));
    await inUse('moved');
    assert.match((await status()).restart_needed ?? '', /^Restart the gateway .*server\.port/);
    assert.match(gateway.stderr, /Restart the gateway .*server\.port/);
    await configure(configuration({ prefix: 'back' }));
    await inUse('back');
    assert.equal((await status()).restart_needed, null);
  });

  test('meanwhile no request failed and no stream was cut', async () => {
    await pause(Math.max(0, 6000 - (performance.now() - startedAt)));
    await load.stop();
    assert.deepEqual(load.failures, []);
    assert.ok(load.answered > 100, `only ${load.answered} requests were answered`);
    assert.ok(load.streamed >= 8, `only ${load.streamed} streams came to their end`);
    await eventually(async () => (await status()).retiring_generations === 0 || undefined);
    assert.equal(await gateway.stop(), 0, gateway.stderr);
  });
});
