// Every file of examples/recipes, tried as its head says: one gateway runs, each recipe is saved over the one before it, and
// its commands are run in a shell. Only providers, the collector and the identity provider are played.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { readRecipes, recipesPage, type Recipe } from '../../scripts/generate-recipes.ts';
import { startFakeProviders, type FakeProviders } from '../kit/fake-providers/fake-providers.ts';
import { startUpstream, type Ending, type Upstream } from '../kit/http-kit.ts';
import { startMcpServer, type McpServer } from '../kit/mcp-server.ts';
import { startCollector, type TestCollector } from '../kit/otlp-collector.ts';
import {
  eventually,
  ownerKey,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

const run = promisify(execFile);
const folder = fileURLToPath(new URL('../../examples/recipes/', import.meta.url));
const recipes = new Map((await readRecipes()).map((recipe) => [recipe.name, recipe]));

/** What `curl -si` printed. */
interface Answer {
  readonly status: number;
  readonly head: string;
  readonly text: string;
}

const keys = {
  TRIAL_KEY: 'wk_trial_0123456789abcdef',
  WEBSITE_KEY: 'wk_website_0123456789abcdef',
  ACME_KEY: 'wk_acme_0123456789abcdef',
  INITECH_KEY: 'wk_initech_0123456789abcdef',
};
const environment: Record<string, string> = { WEIR_KEY: ownerKey, ...keys };
let providers: FakeProviders;
let collector: TestCollector;
let pets: Upstream;
let tickets: McpServer;
let gateway: WeirProcess;
let withStores: Promise<WeirProcess>;
let home = '';
let data = '';
const endings: (() => void)[] = [];

before(async () => {
  const ending: Ending = { after: (close) => void endings.push(close) };
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), kid: 'k1', alg: 'ES256', use: 'sig' };
  const issuer = await startUpstream(
    ending,
    (_, response) => void response.end(JSON.stringify({ keys: [jwk] })),
  );
  providers = await startFakeProviders(ending);
  collector = await startCollector(ending);
  pets = await startUpstream(ending, ({ url }, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ name: 'Rex', url }));
  });
  const tool = (name: string): object => ({ name, inputSchema: { type: 'object' } });
  tickets = await startMcpServer({
    results: { 'tools/list': { tools: [tool('find_ticket'), tool('delete_ticket')] } },
  });
  endings.push(() => tickets.close());
  const token = await new SignJWT({ scope: 'completions.write' })
    .setProtectedHeader({ alg: 'ES256', kid: 'k1' })
    .setIssuer(issuer.url)
    .setAudience('weir')
    .setSubject('ann')
    .setIssuedAt()
    .setExpirationTime('5 minutes')
    .sign(privateKey);
  Object.assign(environment, {
    ISSUER_URL: issuer.url,
    ISSUER_HOST: issuer.host,
    TOKEN: token,
    COLLECTOR_URL: collector.url,
    PETSTORE_URL: pets.url,
    TICKETS_URL: tickets.url,
    OPENAI_URL: openai(),
    LOCAL_URL: `${providers.url}/openai/v1`,
    AZURE_SWEDEN_URL: `${providers.url}/openai`,
    AZURE_FRANCE_URL: `${providers.url}/openai`,
  });
  // The other variables are credentials: each holds its own name.
  for (const { yaml } of recipes.values())
    for (const [, name = ''] of yaml.matchAll(/\$\{(\w+)/g)) environment[name] ??= `value-of-${name}`;
  home = await temporaryFolder();
  data = path.join(home, 'data');
  withStores = startWithStores();
  withStores.catch(() => undefined);
  await save('mock-for-tests');
  gateway = await startWeir({
    config: path.join(home, 'gateway.config.yaml'),
    cwd: home,
    data,
    env: environment,
  });
});
after(async () => {
  await stopEverything();
  for (const end of endings) end();
});

/** Saves the recipe as a user would, beside a file that names the stores, and addresses for its providers. */
async function save(
  name: string,
  addresses: Readonly<Record<string, string>> = {},
  into = home,
): Promise<void> {
  await copyFile(path.join(folder, `${name}.yaml`), path.join(into, 'recipe.yaml'));
  const hosts = Object.entries(addresses).map(([provider, base_url]) => [provider, { base_url }]);
  const around = {
    version: 1,
    include: ['recipe.yaml'],
    security: { trusted_hosts: [new URL(providers.url).host] },
    storage: { analytics: { url: 'none:' }, ...(into === home ? { resources: { url: 'none:' } } : {}) },
    ...(hosts.length > 0 ? { providers: Object.fromEntries(hosts) as object } : {}),
  };
  await writeFile(path.join(into, 'gateway.config.yaml'), JSON.stringify(around));
}

/** Templates of prompts are kept in a store, which takes a moment to open. */
async function startWithStores(): Promise<WeirProcess> {
  const own = await temporaryFolder();
  await save('prompt', { openai: `${providers.url}/openai/v1` }, own);
  return startWeir({ config: path.join(own, 'gateway.config.yaml'), env: environment });
}

/** Saves the recipe while the gateway runs, and resolves when it is served. */
async function serve(name: string, addresses?: Readonly<Record<string, string>>): Promise<void> {
  interface Status {
    readonly generation: string;
    readonly config_error: { readonly problems: readonly string[] } | null;
  }
  const status = async (): Promise<Status> => (await (await fetch(`${gateway.url}/status`)).json()) as Status;
  const { generation } = await status();
  await save(name, addresses);
  await eventually(async () => {
    const now = await status();
    assert.deepEqual(now.config_error?.problems ?? [], [], name);
    return now.generation !== generation || undefined;
  });
}

function recipe(name: string): Recipe {
  const found = recipes.get(name);
  assert.ok(found, `examples/recipes/${name}.yaml`);
  return found;
}

/** Runs what tries the recipe in a shell, with these variables besides; the answer that it prints. */
async function follow(
  name: string,
  variables: Readonly<Record<string, string>> = {},
  at = gateway.url,
): Promise<Answer> {
  const script = recipe(name).script.replaceAll('http://127.0.0.1:8787', at);
  const env = { ...process.env, ...environment, ...variables };
  const { stdout } = await run('bash', ['-c', script], { env });
  const [head = '', ...rest] = stdout.split('\r\n\r\n');
  return { status: Number(head.split(' ')[1]), head, text: rest.join('\r\n\r\n') };
}

function header({ head }: Answer, name: string): string | undefined {
  return new RegExp(`^x-service-${name}: (.*?)\\r?$`, 'im').exec(head)?.[1];
}

/** Asks again with another body or other headers than those of the recipe's command. */
async function ask(body: object, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ownerKey}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }], ...body }),
  });
}

const openai = (): string => `${providers.url}/openai/v1`;
const anthropic = (): string => `${providers.url}/anthropic/v1`;
const busy = 'mock:?status=503';
/** What the providers heard last. */
const heard = () => providers.seen.at(-1) ?? assert.fail('No provider was asked.');

const promises: Readonly<Record<string, () => Promise<void>>> = {
  async fallback() {
    await serve('fallback', { openai: busy, anthropic: anthropic() });
    const answer = await follow('fallback');
    assert.equal(answer.status, 200, answer.text);
    assert.equal(header(answer, 'last-used-option-index'), 'config.targets[1]');
    assert.match(answer.text, /"chat\.completion".*Danube/s);
    assert.equal(heard().body['model'], 'claude-sonnet-4-5');
    assert.equal(heard().headers['x-api-key'], 'value-of-ANTHROPIC_API_KEY');
  },
  async 'load-balance'() {
    await serve('load-balance');
    assert.equal((await follow('load-balance')).status, 200);
    await Promise.all(Array.from({ length: 79 }, () => ask({}).then((answer) => answer.text())));
    const sweden = providers.seen.filter(({ headers }) => headers['api-key'] === 'value-of-AZURE_SWEDEN_KEY');
    // Of 80 requests 60 are expected there; 40 and 76 are five deviations away.
    assert.ok(sweden.length > 40 && sweden.length < 77, `${sweden.length} of ${providers.seen.length}`);
  },
  async canary() {
    await serve('canary', { openai: openai() });
    const first = await follow('canary');
    assert.equal(first.status, 200, first.text);
    const again = await follow('canary');
    assert.equal(header(again, 'last-used-option-index'), header(first, 'last-used-option-index'));
    await Promise.all(
      Array.from({ length: 100 }, (_, at) =>
        ask({}, { 'x-service-metadata': JSON.stringify({ user: `u${at}` }) }).then((answer) => answer.text()),
      ),
    );
    const tried = providers.seen.filter(({ body }) => body['model'] === 'gpt-5-mini').length;
    assert.ok(tried > 0 && tried < 30, `${tried} of 100`);
  },
  async 'conditional-routing'() {
    await serve('conditional-routing', { openai: openai() });
    assert.equal((await follow('conditional-routing')).status, 200);
    assert.equal(heard().body['model'], 'gpt-4o');
    await (await ask({})).text();
    assert.equal(heard().body['model'], 'gpt-4o-mini');
  },
  async retries() {
    // Every second request fails, counted from the first.
    await serve('retries', { openai: 'mock:?fail_rate=0.5&status=429' });
    const answers = await Promise.all([follow('retries'), follow('retries')]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200],
    );
    assert.deepEqual(answers.map((answer) => header(answer, 'retry-attempt-count')).sort(), ['0', '1']);
  },
  async timeouts() {
    await serve('timeouts', { openai: 'mock:?latency_ms=20000', groq: openai() });
    const startedAt = performance.now();
    const answer = await follow('timeouts');
    assert.equal(answer.status, 200, answer.text);
    assert.equal(header(answer, 'last-used-option-index'), 'config.targets[1]');
    assert.ok(performance.now() - startedAt < 15_000);
    assert.equal(heard().body['model'], 'llama-3.3-70b-versatile');
  },
  async cache() {
    await serve('cache', { openai: openai() });
    assert.equal(header(await follow('cache'), 'cache-status'), 'MISS');
    assert.equal(header(await follow('cache'), 'cache-status'), 'HIT');
    assert.equal(providers.seen.length, 1);
  },
  async 'rate-limit'() {
    await serve('rate-limit', { openai: openai() });
    const statuses = [];
    for (let at = 0; at < 2; at++) statuses.push((await follow('rate-limit')).status);
    const third = await follow('rate-limit');
    assert.deepEqual([...statuses, third.status], [200, 200, 429]);
    assert.match(third.head, /^retry-after: \d+/im);
  },
  async budget() {
    // A hundred thousand tokens of an answer cost a dollar.
    await serve('budget', { openai: 'mock:?tokens=100000' });
    assert.equal((await follow('budget')).status, 200);
    const second = await follow('budget');
    assert.equal(second.status, 412, second.text);
    assert.match(second.text, /budget_exhausted/);
    assert.equal((await follow('budget', { TRIAL_KEY: ownerKey })).status, 200);
  },
  async guardrail() {
    await serve('guardrail', { openai: openai() });
    const answer = await follow('guardrail');
    assert.equal(answer.status, 446);
    assert.match(answer.text, /hook_results.*default\.contains/s);
    assert.equal(providers.seen.length, 0);
    assert.equal((await ask({})).status, 200);
  },
  async 'redact-personal-data'() {
    await serve('redact-personal-data', { openai: openai() });
    assert.equal((await follow('redact-personal-data')).status, 200);
    assert.match(heard().bytes.toString(), /Write to /);
    assert.doesNotMatch(heard().bytes.toString(), /ann@example\.com/);
  },
  async 'anthropic-client'() {
    await serve('anthropic-client', { openai: openai() });
    const answer = await follow('anthropic-client');
    assert.equal(answer.status, 200, answer.text);
    assert.match(answer.text, /"type":"message".*Danube/s);
    assert.equal(heard().body['model'], 'gpt-4o');
  },
  async 'gemini-client'() {
    await serve('gemini-client', { anthropic: anthropic() });
    const answer = await follow('gemini-client');
    assert.equal(answer.status, 200, answer.text);
    assert.match(answer.text, /"candidates".*Danube/s);
    assert.equal(heard().body['model'], 'claude-sonnet-4-5');
  },
  async 'virtual-keys'() {
    await serve('virtual-keys');
    const refused = await follow('virtual-keys');
    assert.equal(refused.status, 403, refused.text);
    assert.match(refused.text, /model_not_allowed/);
    const { status } = await ask(
      { model: '@openai-prod/gpt-4o-mini' },
      { authorization: `Bearer ${keys.WEBSITE_KEY}` },
    );
    assert.equal(status, 200);
    assert.equal(heard().headers['authorization'], 'Bearer value-of-OPENAI_API_KEY');
  },
  async prompt() {
    const { url } = await withStores;
    const answer = await follow('prompt', {}, url);
    assert.equal(answer.status, 200, answer.text);
    assert.match(heard().bytes.toString(), /Greet Ann in French\./);
    assert.equal(heard().body['model'], 'gpt-4o-mini');
  },
  async 'mcp-server'() {
    await serve('mcp-server');
    const answer = await follow('mcp-server');
    assert.equal(answer.status, 200, answer.text);
    assert.match(answer.text, /find_ticket/);
    assert.doesNotMatch(answer.text, /delete_ticket/);
    assert.equal(tickets.requests.at(-1)?.headers.authorization, 'Bearer value-of-TICKETS_TOKEN');
  },
  async 'openapi-tools'() {
    await copyFile(path.join(folder, 'petstore.openapi.yaml'), path.join(home, 'petstore.openapi.yaml'));
    await serve('openapi-tools');
    const answer = await follow('openapi-tools');
    assert.equal(answer.status, 200, answer.text);
    assert.match(answer.text, /Rex/);
    const [call] = pets.requests;
    assert.equal(call?.url, '/pets/7');
    assert.equal(call.headers.authorization, 'Bearer value-of-PETSTORE_TOKEN');
  },
  async traces() {
    await serve('traces', { openai: openai() });
    assert.equal((await follow('traces')).status, 200);
    await collector.untilBatches(1);
    assert.equal(collector.resource()['service.name'], 'gateway');
    assert.equal(collector.spans()[0]?.attributes['gen_ai.request.model'], 'gpt-4o-mini');
    assert.doesNotMatch(JSON.stringify(collector.spans()), /Hello/);
  },
  async jwt() {
    await serve('jwt', { openai: openai() });
    const answer = await follow('jwt');
    assert.equal(answer.status, 200, answer.text);
    const forged = await follow('jwt', { TOKEN: `${environment['TOKEN']?.slice(0, -8)}AAAAAAAA` });
    assert.equal(forged.status, 401);
    assert.equal((await follow('jwt', { TOKEN: ownerKey })).status, 200);
  },
  async tenants() {
    await serve('tenants', { openai: openai(), 'mistral-ai': openai() });
    assert.equal((await follow('tenants')).status, 200);
    assert.equal(heard().body['model'], 'mistral-small-latest');
    const photograph = { messages: [{ role: 'user', content: 'A photograph of Ann' }] };
    const as = (key: string) => ({ authorization: `Bearer ${key}` });
    assert.equal((await ask(photograph, as(keys.ACME_KEY))).status, 446);
    const other = { ...as(keys.ACME_KEY), 'x-service-config': '{"provider":"@openai"}' };
    assert.equal((await ask({}, other)).status, 403);
    assert.equal((await ask(photograph, as(keys.INITECH_KEY))).status, 200);
    assert.equal(heard().headers['authorization'], 'Bearer value-of-OPENAI_API_KEY');
  },
  async 'logs-without-bodies'() {
    await serve('logs-without-bodies', { openai: openai() });
    const answer = await follow('logs-without-bodies');
    assert.equal(answer.status, 200);
    const id = header(answer, 'request-id') ?? assert.fail('no request id');
    const written = await eventually(async () => {
      const text = await textBelow(data);
      return text.includes(id) ? text : undefined;
    });
    assert.doesNotMatch(written, /heliotrope/);
  },
  async 'mock-for-tests'() {
    await serve('mock-for-tests');
    const answer = await follow('mock-for-tests');
    assert.equal(answer.status, 429);
    assert.match(answer.head, /^retry-after: 2/im);
    assert.equal((await ask({ model: 'mock-gpt' })).status, 200);
  },
  async 'local-model'() {
    await serve('local-model');
    assert.equal((await follow('local-model')).status, 200);
    assert.equal(heard().body['model'], 'llama3.2');
    assert.equal(heard().headers['authorization'], undefined);
  },
  async azure() {
    await serve('azure', { 'azure-openai': `${providers.url}/openai` });
    assert.equal((await follow('azure')).status, 200);
    assert.equal(heard().headers['api-key'], 'value-of-AZURE_KEY');
  },
  async bedrock() {
    await serve('bedrock', { bedrock: providers.url });
    const answer = await follow('bedrock');
    assert.equal(answer.status, 200, answer.text);
    assert.match(heard().url, /claude-sonnet-4-5.*\/converse$/);
    assert.match(
      heard().headers['authorization'] ?? '',
      /^AWS4-HMAC-SHA256 Credential=value-of-AWS_ACCESS_KEY_ID\//,
    );
  },
};

async function textBelow(place: string): Promise<string> {
  const entries = await readdir(place, { recursive: true, withFileTypes: true });
  const texts = entries
    .filter((entry) => entry.isFile())
    .map((entry) => readFile(path.join(entry.parentPath, entry.name), 'latin1').catch(() => ''));
  return (await Promise.all(texts)).join('\n');
}

describe('a recipe does what it says', { timeout: 120_000 }, () => {
  for (const { name } of recipes.values())
    test(name, async () => {
      providers.play({ fixture: 'grid-text' });
      const promised = promises[name] ?? assert.fail('This recipe has no test.');
      await promised();
    });
});

test('docs/recipes.md is what the recipes say: node --import tsx scripts/generate-recipes.ts', async () => {
  const page = await readFile(new URL('../../docs/recipes.md', import.meta.url), 'utf8');
  assert.equal(page, await recipesPage());
});
