// Configurations of other gateways: imported, checked, served by a gateway whose providers are all played, and asked for
// every model by its name. The files in tests/fixtures/import have the structure of published ones.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { loadConfig } from '../../core/config/load-config.ts';
import { formatProblem } from '../../core/config/problem.ts';
import { providerRows } from '../../main/built-ins.ts';
import { importSources } from '../../main/import-command/source.ts';
import { importFrom } from '../../main/import-command/run.ts';
import { type PlayedHosts, startPlayedHosts } from '../kit/played-hosts.ts';
import { makeHome, type Home } from '../kit/gateway-process.ts';
import { eventually, ownerKey, startWeir, stopEverything, type WeirProcess } from '../kit/process-kit.ts';

const fixtures = fileURLToPath(new URL('../fixtures/import', import.meta.url));

/** Every variable that a fixture needs; each has a value that says its name. */
const variables =
  `ANTHROPIC_API_KEY APORIA_BASE APORIA_KEY AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AZURE_API_KEY AZURE_API_KEY_2
  COHERE_API_KEY GEMINI_API_KEY GROQ_API_KEY ISSUES_TOKEN LITELLM_MASTER_KEY LOCALHOST_8000_API_KEY MISTRAL_API_KEY
  HOOKS_URL HOUSE_API_BASE MODELS_EXAMPLE_COM_API_KEY MODELS_EXAMPLE_COM_API_KEY_2 OPENAI_API_KEY OPENAI_API_KEY_2 OPENAI_API_KEY_3
  OPENAI_HOST_API_KEY ANTHROPIC_HOUSE_API_KEY AZURE_KEY_US AZURE_OPENAI_HOUSE_API_KEY AZURE_OPENAI_HOUSE_RESOURCE_NAME
  AZURE_PROD_API_KEY DEV_TEAM_API_KEY KEY_BEDROCK_1_ACCESS_KEY KEY_OPENAI_1_API_KEY OPENAI_HOUSE_API_KEY OPENAI_PROD_API_KEY
  VK_ASSISTANT_US VLLM_API_KEY AZURE_OPENAI_API_KEY AZURE_RESOURCE_NAME OPEN_AI_TEAM_API_KEY ANYSCALE_7D1F_API_KEY OPENROUTER_API_KEY REDIS_HOST REDIS_PASSWORD REDIS_PORT ZAP_TOKEN`.split(
    /\s+/,
  );

function valueOf(variable: string): string {
  if (variable === 'REDIS_HOST') return '127.0.0.1';
  if (variable === 'REDIS_PORT') return '6379';
  if (variable.endsWith('_RESOURCE_NAME')) return 'rivers';
  if (variable.endsWith('_URL')) return 'https://hooks.example.com/mcp';
  return variable.endsWith('_BASE') ? 'https://played.example.com/v1' : `value-of-${variable}`;
}

const env = Object.fromEntries(variables.map((name) => [name, valueOf(name)]));

/** A request by the name of a model, and where it has to arrive. */
interface Asking {
  readonly ask: string;
  /** Path at the provider, with the model where the wire has it there. */
  readonly path: string;
  /** Model in the body. Default: the path holds it. */
  readonly model?: string;
  /** Variable whose value is the credential. */
  readonly key?: string;
  /** Config that the request names. */
  readonly config?: string;
  /** Service key; default: the owner's. */
  readonly as?: string;
  /** True when the built-in mock answers, and no host is asked. */
  readonly isHere?: boolean;
  /** More members of the request. */
  readonly body?: Readonly<Record<string, unknown>>;
  /** Members that the provider has to get. */
  readonly sent?: Readonly<Record<string, unknown>>;
}

const openAi = '/v1/chat/completions';

/** Models by file below the folder. */
const litellm: Readonly<Record<string, readonly Asking[]>> = {
  'proxy-server.yaml': [
    { ask: 'azure-small', path: azure('small-deployment', '2024-02-01'), key: 'AZURE_API_KEY' },
    { ask: 'azure-large', path: openAi, model: 'gpt-large-1106', key: 'OPENAI_API_KEY' },
    { ask: 'house-model', path: '/chat/completions', model: 'house', key: 'MODELS_EXAMPLE_COM_API_KEY' },
    { ask: 'twin', path: '/chat/completions', key: 'MODELS_EXAMPLE_COM_API_KEY_2' },
    { ask: 'twin-by-another-name', path: '/chat/completions', key: 'MODELS_EXAMPLE_COM_API_KEY_2' },
    { ask: 'anthropic/sonnet-4', path: '/v1/messages', model: 'sonnet-4', key: 'ANTHROPIC_API_KEY' },
    { ask: 'groq/llama', path: '/openai/v1/chat/completions', model: 'llama', key: 'GROQ_API_KEY' },
    { ask: 'any-model-at-all', path: openAi, model: 'any-model-at-all', key: 'OPENAI_API_KEY' },
  ],
  'wildcards.yaml': [
    { ask: 'mini-for-users', path: openAi, model: 'gpt-mini', key: 'OPENAI_API_KEY' },
    { ask: 'my-rivers', path: openAi, model: 'ft:gpt-rivers', key: 'OPENAI_API_KEY' },
    { ask: 'gpt-medium', path: openAi, model: 'gpt-medium', key: 'OPENAI_API_KEY' },
    { ask: 'bedrock/haiku-for-batches', path: '/model/anthropic.haiku-v1%3A0/converse' },
    { ask: 'anthropic/opus', path: '/v1/messages', model: 'opus', key: 'ANTHROPIC_API_KEY' },
  ],
  'tags.yaml': [
    { ask: 'by-team', path: '/chat/completions', model: 'for-a', body: { metadata: { tags: ['teamA'] } } },
    {
      ask: 'by-team',
      path: '/chat/completions',
      model: 'for-b',
      body: { metadata: { tags: ['x', 'teamB'] } },
    },
    { ask: 'chat-at-cohere', path: '/v2/chat', model: 'command-x', key: 'COHERE_API_KEY' },
    { ask: 'local-vision', path: '/chat/completions', model: 'vision/llava', key: 'LOCALHOST_8000_API_KEY' },
  ],
  'azure-two-regions.yaml': [{ ask: 'small', path: '/openai/deployments/small-' }],
  'azure-timeouts.yaml': [
    { ask: 'team-one', path: azure('chat-2', '2023-05-15'), key: 'AZURE_API_KEY' },
    { ask: 'team-two', path: azure('chat-4', '2024-10-21'), key: 'AZURE_API_KEY' },
  ],
  'load-balancer.yaml': [{ ask: 'small', path: '/v1/chat/completions', model: 'gpt-small' }],
  'ollama.yaml': [
    { ask: 'old-name', path: openAi, model: 'zephyr' },
    { ask: 'other-name', path: openAi, model: 'llama', sent: { temperature: 0.1, max_tokens: 20 } },
    { ask: 'other-name', path: openAi, body: { max_tokens: 7 }, sent: { temperature: 0.1, max_tokens: 7 } },
  ],
  'cache.yaml': [{ ask: 'house-model', path: openAi, model: 'mini', key: 'OPENAI_HOST_API_KEY' }],
  'pass-through.yaml': [
    { ask: 'sonnet', path: '/v1/messages', model: 'sonnet-4', key: 'ANTHROPIC_API_KEY' },
    { ask: 'special', path: '/v1/messages', model: 'haiku-4', key: 'ANTHROPIC_API_KEY' },
    { ask: 'anthropic/other', path: '/v1/messages', model: 'other', key: 'ANTHROPIC_API_KEY' },
    { ask: 'openai/gpt-x', path: openAi, model: 'gpt-x', key: 'OPENAI_API_KEY' },
  ],
  'instances.yaml': [
    { ask: 'quick', path: openAi, model: 'small', key: 'OPENAI_API_KEY' },
    { ask: 'deep', path: '/v1/messages', model: 'large', key: 'ANTHROPIC_API_KEY' },
  ],
  'mcp.yaml': [
    { ask: 'mini', path: openAi, model: 'mini', key: 'OPENAI_API_KEY' },
    { ask: 'from-google', path: '/v1beta/models/flash:generateContent', key: 'GEMINI_API_KEY' },
  ],
};

const others: readonly (readonly [
  from: 'portkey' | 'bifrost' | 'openrouter',
  file: string,
  asked: readonly Asking[],
])[] = [
  [
    'portkey',
    'portkey/fallback.json',
    [{ ask: 'any', path: '/v1/messages', model: 'sonnet', key: 'ANTHROPIC_API_KEY' }],
  ],
  [
    'portkey',
    'portkey/hooks.json',
    [{ ask: 'gpt-y', path: openAi, model: 'gpt-y', key: 'OPENAI_HOUSE_API_KEY' }],
  ],
  [
    'portkey',
    'portkey/export.json',
    [
      { ask: 'any', path: openAi, model: 'gpt-main', key: 'OPENAI_PROD_API_KEY' },
      { ask: 'any', config: 'pc-other-2', path: azure('chat-4', '2024-02-01'), key: 'AZURE_PROD_API_KEY' },
    ],
  ],
  [
    'portkey',
    'portkey/conf.json',
    [{ ask: '@dev_team/sonnet', path: '/v1/messages', model: 'sonnet', key: 'DEV_TEAM_API_KEY' }],
  ],
  [
    'portkey',
    'portkey/inline-azure.json',
    [{ ask: 'chat-9', path: azure('chat-9', '2024-10-21'), key: 'AZURE_OPENAI_API_KEY' }],
  ],
  [
    'portkey',
    'portkey/named-by-word.json',
    [{ ask: 'gpt-n', path: openAi, model: 'gpt-n', key: 'OPEN_AI_TEAM_API_KEY' }],
  ],
  [
    'portkey',
    'portkey/retry-only.json',
    [{ ask: '@mock/mock-gpt', config: 'retry-only', path: '', isHere: true }],
  ],
  ['portkey', 'portkey/plain-conf.json', [{ ask: '@mock/mock-gpt', path: '', isHere: true }]],
  [
    'portkey',
    'portkey-folder',
    [
      { ask: 'any', config: 'conditional', path: openAi, model: 'gpt-x', key: 'OPENAI_API_KEY' },
      { ask: 'gpt-z', config: 'resilient', path: openAi, model: 'gpt-z', key: 'OPENAI_HOUSE_API_KEY' },
      {
        ask: '@openai-house/gpt-z',
        config: 'retries',
        path: openAi,
        model: 'gpt-z',
        key: 'OPENAI_HOUSE_API_KEY',
      },
    ],
  ],
  [
    'bifrost',
    'bifrost/virtual-keys.json',
    [
      { ask: 'openai/gpt-x', path: openAi, model: 'gpt-x', key: 'OPENAI_API_KEY' },
      { ask: 'azure/gpt-4o', path: azure('gpt-4o', '2025-03-01-preview'), key: 'AZURE_KEY_US' },
      { ask: 'small', path: azure('small-deployment', '2025-03-01-preview'), key: 'AZURE_KEY_US' },
      { ask: 'bedrock/anthropic.haiku', path: '/model/anthropic.haiku/converse' },
      {
        ask: 'openai/gpt-x',
        as: valueOf('VK_ASSISTANT_US'),
        path: openAi,
        model: 'gpt-x',
        key: 'OPENAI_API_KEY',
      },
    ],
  ],
  [
    'bifrost',
    'bifrost/mcp.json',
    [
      { ask: 'openai/gpt-x', path: openAi, model: 'gpt-x', key: 'OPENAI_API_KEY' },
      { ask: 'vllm-local/llama', path: openAi, model: 'llama', key: 'VLLM_API_KEY' },
    ],
  ],
  [
    'openrouter',
    'openrouter/fallback.json',
    [
      {
        ...{
          ask: 'any',
          path: '/api/v1/chat/completions',
          model: 'anthropic/sonnet',
          key: 'OPENROUTER_API_KEY',
        },
        sent: { temperature: 0.2, provider: { order: ['anthropic'], allow_fallbacks: false } },
      },
    ],
  ],
];

function azure(deployment: string, version: string): string {
  return `/openai/deployments/${deployment}/chat/completions?api-version=${version}`;
}

interface Parsed {
  providers?: Record<string, Record<string, unknown>>;
  [key: string]: unknown;
}

/** Built-in providers that configs name with a credential of their own. */
function rowsOf(config: unknown): string[] {
  if (Array.isArray(config)) return config.flatMap(rowsOf);
  if (typeof config !== 'object' || config === null) return [];
  const { provider, api_key: key } = config as Record<string, unknown>;
  return [
    ...(key === undefined ? [] : [importSources.textOf(provider)]),
    ...Object.values(config).flatMap(rowsOf),
  ];
}

/** The configuration with every provider at the fake ones, by the path that its own address has, and without stores. */
function played(yaml: string, { url }: PlayedHosts): string {
  const config = parse(yaml) as Parsed;
  const providers = {
    ...Object.fromEntries(rowsOf(config['configs']).map((row) => [row, {}])),
    ...config.providers,
  };
  for (const [name, provider] of Object.entries<Record<string, unknown>>(providers)) {
    const address = importSources.textOf(provider['base_url'] ?? providerRows.get(name)?.base_url);
    const known = address.startsWith('${') ? valueOf(address.slice(2, -1)) : address;
    provider['base_url'] = url + known.replace(/^https?:\/\/[^/]+/, '');
  }
  const storage = { resources: { url: 'none:' }, analytics: { url: 'none:' } };
  return JSON.stringify({ ...config, providers, storage });
}

describe('an imported configuration', { timeout: 120_000 }, () => {
  let hosts: PlayedHosts;
  let home: Home;
  let weir: WeirProcess;

  before(async () => {
    hosts = await startPlayedHosts();
    home = await makeHome(
      JSON.stringify({
        version: 1,
        security: { key_prefix: 'sk-' },
        storage: { resources: { url: 'none:' }, analytics: { url: 'none:' } },
        pipelines: [{ name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'provider'] }],
      }),
    );
    weir = await startWeir({ config: home.configFile, data: home.data, env });
  });
  after(async () => {
    await stopEverything();
    await home?.remove();
    hosts?.close();
  });

  const status = async (): Promise<Record<string, unknown>> =>
    (await (await fetch(`${weir.url}/status`)).json()) as Record<string, unknown>;

  /** Has the gateway serve the configuration. */
  async function serve(yaml: string): Promise<void> {
    const { generation } = await status();
    await home.write('gateway.config.yaml', played(yaml, hosts));
    await eventually(async () => {
      const now = await status();
      assert.equal(now['config_error'], null, JSON.stringify(now['config_error']));
      return now['generation'] === generation ? undefined : now;
    });
  }

  async function ask({
    ask: model,
    path: place,
    body,
    key,
    sent,
    config,
    as = ownerKey,
    isHere = false,
    model: wanted,
  }: Asking): Promise<void> {
    hosts.seen.length = 0;
    const response = await fetch(`${weir.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        ...{ authorization: `Bearer ${as}`, 'content-type': 'application/json' },
        ...(config !== undefined && { 'x-portkey-config': config }),
      },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }], ...body }),
    });
    const text = await response.text();
    assert.equal(response.status, 200, `${model}: ${text}`);
    const { choices } = JSON.parse(text) as { choices: { message: { content: string } }[] };
    assert.ok((choices[0]?.message.content ?? '').length > 0, `${model} answers: ${text}`);
    const [request, ...more] = hosts.seen;
    if (isHere) {
      assert.equal(request, undefined, `${model} is answered by the gateway`);
      return;
    }
    assert.equal(more.length, 0, `${model} is asked for once`);
    assert.ok(request?.url.startsWith(place), `${model}: ${request?.url} begins with ${place}`);
    if (wanted !== undefined) assert.equal(request?.body['model'], wanted);
    if (key !== undefined)
      assert.ok(
        Object.values(request?.headers ?? {}).some((one) => String(one).endsWith(valueOf(key))),
        `${model} is sent ${key}`,
      );
    for (const [name, value] of Object.entries(sent ?? {})) assert.deepEqual(request?.body[name], value);
  }

  for (const [file, asked] of Object.entries(litellm))
    test(`litellm/${file}`, async () => {
      const { yaml } = await importFrom({ from: 'litellm', file: path.join(fixtures, 'litellm', file) });
      await requireSound(yaml);
      await serve(yaml);
      for (const one of asked) await ask(one);
    });

  for (const [from, file, asked] of others)
    test(file, async () => {
      const { yaml } = await importFrom({ from, file: path.join(fixtures, file) });
      await requireSound(yaml);
      await serve(yaml);
      for (const one of asked) await ask(one);
    });

  test('clients of LiteLLM find its header for keys, its models and its headers', async () => {
    const file = path.join(fixtures, 'litellm/pass-through.yaml');
    await serve((await importFrom({ from: 'litellm', file })).yaml);
    const headers = { authorization: `Bearer ${valueOf('LITELLM_MASTER_KEY')}` };
    const models = await fetch(`${weir.url}/v1/models`, { headers });
    const { data } = (await models.json()) as { data: { id: string }[] };
    assert.deepEqual(
      data.map(({ id }) => id),
      ['sonnet', 'special'],
    );
    assert.ok((models.headers.get('x-litellm-call-id') ?? '').length > 0);
    assert.equal((await fetch(`${weir.url}/health/readiness`)).status, 200);
    const infos = await fetch(`${weir.url}/v1/model/info`, { headers });
    const { data: known } = (await infos.json()) as { data: { litellm_params: { model: string } }[] };
    assert.deepEqual(
      [...new Set(known.map((one) => one.litellm_params.model))],
      ['anthropic/sonnet-4', 'anthropic/haiku-4'],
    );
  });

  test('a model that no group has is refused', async () => {
    await serve(
      (await importFrom({ from: 'litellm', file: path.join(fixtures, 'litellm/ollama.yaml') })).yaml,
    );
    const response = await fetch(`${weir.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ownerKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'unheard-of', messages: [] }),
    });
    assert.equal(response.status, 400);
  });

  test('a deployment that fails is followed by another of its group, and a group by its fallback', async () => {
    const file = path.join(fixtures, 'litellm/azure-two-regions.yaml');
    await serve((await importFrom({ from: 'litellm', file })).yaml);
    hosts.seen.length = 0;
    hosts.status = 503;
    const response = await fetch(`${weir.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ownerKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'small', messages: [{ role: 'user', content: 'Hello' }] }),
    });
    hosts.status = 200;
    assert.equal(response.status, 503);
    const asked = hosts.seen.map(({ url }) => /small-\d/.exec(url)?.[0]);
    assert.deepEqual(asked.toSorted(), ['small-1', 'small-2']);
  });
});

/** Asserts that `weir check` would find no error. */
async function requireSound(yaml: string): Promise<void> {
  const loaded = await loadConfig('/imported.yaml', {
    env,
    readFile: async () => Buffer.from(yaml),
  });
  assert.ok(loaded.ok, loaded.ok ? '' : loaded.problems.map(formatProblem).join('\n'));
}
