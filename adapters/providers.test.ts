import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { providerFields, templateFields, templateValue } from '../core/providers/provider-fields.ts';
import { ProviderRowSchema } from '../core/providers/provider-row.ts';
import { providerTable } from './providers.ts';

const validate = new Ajv2020({ strict: true, keywords: ['x-expected'] }).compile(ProviderRowSchema);

/** A value for every field that a template may name. */
const samples: Readonly<Record<string, string>> = {
  aws_region: 'eu-west-1',
  azure_resource_name: 'my-resource',
  databricks_workspace: 'dbc-a1b2',
  oracle_region: 'us-chicago-1',
  snowflake_account: 'org-account',
  vertex_region: 'us-central1',
  workers_ai_account_id: '0123456789abcdef',
};

/** The names that clients of the reference write. */
const expectedNames = [
  ...['302ai', 'ai21', 'aibadgr', 'anthropic', 'anyscale', 'azure-ai', 'azure-openai', 'bedrock', 'bytez'],
  ...['cerebras', 'cohere', 'cometapi', 'cortex', 'dashscope', 'deepbricks', 'deepinfra', 'deepseek'],
  ...['featherless-ai', 'fireworks-ai', 'github', 'google', 'groq', 'huggingface', 'hyperbolic'],
  ...['inference-net', 'iointelligence', 'jina', 'kluster-ai', 'krutrim', 'lambda', 'lemonfox-ai', 'lepton'],
  ...['lingyi', 'matterai', 'meshy', 'milvus', 'mistral-ai', 'modal', 'monsterapi', 'moonshot', 'ncompass'],
  ...['nebius', 'nextbit', 'nomic', 'novita-ai', 'nscale', 'ollama', 'openai', 'openrouter', 'oracle'],
  ...['ovhcloud', 'palm', 'perplexity-ai', 'predibase', 'qdrant', 'recraft-ai', 'reka-ai', 'replicate'],
  ...['sagemaker', 'sambanova', 'segmind', 'siliconflow', 'stability-ai', 'together-ai', 'tripo3d', 'triton'],
  ...['upstage', 'vertex-ai', 'voyage', 'workers-ai', 'x-ai', 'z-ai', 'zhipu'],
  ...['bedrock-mantle', 'byteplus', 'claude-platform-aws', 'databricks', 'deepgram', 'fal-ai', 'minimax'],
  ...['scenario-ai', 'ember-cloud', 'lightning-ai', 'snowflake-cortex'],
];

/** Software that everybody runs at an address of his own. */
const withoutAddress = ['lepton', 'milvus', 'modal', 'ollama', 'predibase', 'qdrant', 'triton'];

/** Two names of one host. */
const sameHost = [
  ['cortex', 'snowflake-cortex'],
  ['google', 'palm'],
];

describe('the provider table', () => {
  for (const [name, row] of providerTable) {
    it(`has a valid row: ${name}`, () => {
      assert.ok(validate(row), JSON.stringify(validate.errors));
      assert.match(name, /^[a-z0-9]+(-[a-z0-9]+)*$/);
      const { base_url: template } = row;
      assert.equal(template === undefined, withoutAddress.includes(name));
      if (template === undefined || name === 'mock') return;
      const base = template.replace(/\{(\w+)\}/g, (_whole, field: string) => {
        assert.match(samples[field] ?? '', templateValue);
        return samples[field] ?? '';
      });
      const url = new URL(base);
      assert.equal(url.protocol, 'https:');
      assert.equal(url.href.replace(/\/$/, ''), base, 'as a URL parser writes it, without a trailing slash');
      assert.deepEqual([url.search, url.hash, url.username, url.port], ['', '', '', '']);
      assert.match(url.hostname, /^[a-z0-9.-]+\.[a-z]+$/);
    });
  }

  it('names only fields that may stand in an address', () => {
    const allowed = new Set<string>(providerFields.filter((one) => one.template).map((one) => one.name));
    for (const [name, { base_url: base = '' }] of providerTable) {
      for (const field of templateFields(base)) assert.ok(allowed.has(field), `${name}: ${field}`);
    }
  });

  it('is sorted, and says every name and every host once', () => {
    const source = readFileSync(new URL('./providers.ts', import.meta.url), 'utf8');
    const table = source.slice(source.indexOf('const rows'));
    const written = [...table.matchAll(/^ {2}'?([a-z0-9-]+)'?: (?:\{|[a-z]+,$)/gm)].map((match) => match[1]);
    assert.deepEqual(written, [...new Set(written)].sort());
    assert.deepEqual(written, [...providerTable.keys()]);
    const second = new Set(sameHost.map(([, name]) => name));
    const hosts = [...providerTable]
      .filter(([name, row]) => row.base_url !== undefined && !second.has(name))
      .map(([, row]) => row.base_url);
    assert.equal(new Set(hosts).size, hosts.length);
    for (const [one = '', other = ''] of sameHost) {
      assert.deepEqual(providerTable.get(one), providerTable.get(other));
    }
  });

  it('has every name that clients know, at least seventy', () => {
    assert.deepEqual(
      expectedNames.filter((name) => !providerTable.has(name)),
      [],
    );
    assert.ok(providerTable.size >= 70);
  });

  it('needs no account for the built-in provider, and asks for its usage', () => {
    assert.deepEqual(providerTable.get('mock'), {
      base_url: 'mock:',
      credentials: 'none',
      usage_in_stream: 'on_request',
      quirks: { paths: { 'messages.count_tokens': '/messages/count_tokens' } },
    });
  });

  it("speaks Anthropic's own wire to Anthropic", () => {
    assert.deepEqual(providerTable.get('anthropic'), {
      dialect: 'anthropic-messages',
      base_url: 'https://api.anthropic.com/v1',
      credentials: 'x-api-key',
      headers: { 'anthropic-version': '2023-06-01' },
      usage_in_stream: 'always',
    });
  });

  const wires = {
    google: ['google-gemini', 'x-goog-api-key', 'https://generativelanguage.googleapis.com'],
    'vertex-ai': ['google-vertex', 'google', 'https://{vertex_region}-aiplatform.googleapis.com'],
    bedrock: ['bedrock-converse', 'sigv4', 'https://bedrock-runtime.{aws_region}.amazonaws.com'],
    'azure-openai': ['azure-openai', 'api-key', 'https://{azure_resource_name}.openai.azure.com/openai'],
    cohere: ['cohere-v2', undefined, 'https://api.cohere.com'],
    'workers-ai': [
      'workers-ai',
      undefined,
      'https://api.cloudflare.com/client/v4/accounts/{workers_ai_account_id}/ai',
    ],
  };
  for (const [name, [dialect, credentials, base]] of Object.entries(wires)) {
    it(`speaks the host's own wire to ${name}`, () => {
      const row = providerTable.get(name);
      assert.deepEqual([row?.dialect, row?.credentials, row?.base_url], [dialect, credentials, base]);
    });
  }

  it('tells Mistral and Groq nothing that they refuse', () => {
    const quirks = providerTable.get('mistral-ai')?.quirks;
    assert.deepEqual(quirks?.rename, { seed: 'random_seed', max_completion_tokens: 'max_tokens' });
    assert.deepEqual(quirks.values, { tool_choice: { required: 'any' } });
    assert.deepEqual(quirks.roles, { developer: 'system' });
    assert.ok(quirks.drop?.includes('logit_bias'));
    assert.deepEqual(providerTable.get('groq')?.quirks?.drop, ['logit_bias', 'logprobs', 'top_logprobs']);
  });

  it('knows which hosts take what OpenAI does not have', () => {
    const taking = [...providerTable]
      .filter(([, row]) => row.quirks?.rename?.top_k === 'top_k')
      .map(([name]) => name);
    assert.deepEqual(taking, [
      ...['dashscope', 'deepinfra', 'fireworks-ai', 'novita-ai', 'openrouter', 'perplexity-ai', 'sambanova'],
      ...['siliconflow', 'together-ai'],
    ]);
    assert.equal(providerTable.get('openrouter')?.quirks?.rename?.cache_control, 'cache_control');
  });

  const addresses = {
    openai: 'https://api.openai.com/v1',
    groq: 'https://api.groq.com/openai/v1',
    deepseek: 'https://api.deepseek.com',
    openrouter: 'https://openrouter.ai/api/v1',
    'fireworks-ai': 'https://api.fireworks.ai/inference/v1',
  };
  for (const [name, base] of Object.entries(addresses)) {
    it(`knows the address of ${name}`, () => assert.equal(providerTable.get(name)?.base_url, base));
  }
});
