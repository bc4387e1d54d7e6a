import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Outcome } from '../../core/pipeline/context.ts';
import type { RequestFacts } from '../../core/pipeline/facts.ts';
import { compileRedaction } from '../../core/redaction/redaction.ts';
import { TestContext, testOutcome, type TestRequest } from '../../tests/kit/plugin-kit.ts';
import { CommonMembers } from './members.ts';

/** A request that differs from the plain one. */
interface Difference {
  readonly facts?: Partial<RequestFacts>;
  readonly outcome?: Partial<Outcome>;
  readonly request?: TestRequest;
}

const refused = new GatewayError('rate_limited', 'Too many.', { plugin: 'rate-limit' });
const priced = { cost: '0.1', status: 'priced', version: 'v1' } as const;

/** One for every member, and for everything that members are made of. */
const differences: Readonly<Record<string, Difference>> = {
  outcome: { outcome: { kind: 'cancelled' } },
  status: { outcome: { status: 201 } },
  is_success: { outcome: { status: 404 } },
  pricing: { outcome: { price: { ...priced, status: 'unpriced' } } },
  price_version: { outcome: { price: { ...priced, version: 'v2' } } },
  error: { outcome: { kind: 'refused', status: 429, error: refused } },
  error_source: { outcome: { status: 500 }, facts: { upstreamStartedAt: 5 } },
  organisation_id: { facts: { organisationId: 'o2' } },
  workspace_id: { facts: { workspaceId: 'w2' } },
  user_id: { facts: { userId: 'u2' } },
  stream: { facts: { stream: true } },
  ai_service: { facts: { aiService: 'openai' } },
  provider: { facts: { provider: '@p' } },
  model_requested: { facts: { modelRequested: 'm1' } },
  model: { facts: { modelAnswered: 'm2' } },
  upstream_host: { facts: { upstreamHost: 'h' } },
  config: { facts: { config: 'c' } },
  config_version: { facts: { configVersion: '2' } },
  prompt: { facts: { prompt: 'p' } },
  prompt_version: { facts: { promptVersion: '3' } },
  virtual_key: { facts: { virtualKey: 'v' } },
  cache_status: { facts: { cacheStatus: 'HIT' } },
  attempts: { facts: { attempts: 3 } },
  resent: { facts: { resent: true } },
  finish_reason: { facts: { finishReason: 'length' } },
  method: { request: { method: 'GET' } },
  path: { request: { path: '/embeddings' } },
  user_agent: { request: { headers: { 'user-agent': 'curl/8' } } },
  sdk: { request: { headers: { 'x-stainless-lang': 'js', 'x-stainless-package-version': '4' } } },
  'version of the sdk': {
    request: { headers: { 'x-stainless-lang': 'js', 'x-stainless-package-version': '5' } },
  },
  'own package': { request: { headers: { 'x-service-package-version': 'portkey-1.2' } } },
  'sensitive agent': {
    request: { headers: { 'user-agent': 'curl/8', 'x-service-sensitive-headers': 'user-agent' } },
  },
};

function made({ facts = {}, outcome = {}, request = {} }: Difference) {
  const context = new TestContext(request);
  Object.assign(context.facts, { organisationId: 'o', workspaceId: 'w', apiKeyId: 'k', ...facts });
  return [context, testOutcome({ price: priced, ...outcome })] as const;
}

describe('what log rows have in common', () => {
  for (const [name, difference] of Object.entries(differences)) {
    test(`${name}: a request that differs has its own text, before and after the plain one`, () => {
      const common = new CommonMembers(undefined);
      const alone = (one: Difference) => new CommonMembers(undefined).of(...made(one));
      const plain = common.of(...made({}));
      const other = common.of(...made(difference));
      assert.notDeepEqual(other.members, plain.members);
      assert.equal(other.members, alone(difference).members);
      assert.equal(other.place, alone(difference).place);
      assert.equal(common.of(...made({})), plain, 'the same object: nothing was written again');
      assert.equal(common.of(...made(difference)), other);
    });
  }

  test('more kinds of requests than are kept are written right all the same, again and again', () => {
    const common = new CommonMembers(undefined);
    for (let round = 0; round < 3; round++) {
      for (const difference of Object.values(differences)) {
        const { members } = new CommonMembers(undefined).of(...made(difference));
        assert.equal(common.of(...made(difference)).members, members);
      }
    }
  });

  test('a long text is not kept', () => {
    const common = new CommonMembers(undefined);
    const long = { facts: { modelRequested: '\\'.repeat(512) }, request: { path: `/${'"'.repeat(2000)}` } };
    assert.notEqual(common.of(...made(long)), common.of(...made(long)));
    assert.deepEqual(common.of(...made(long)).members, common.of(...made(long)).members);
  });

  test('paths are redacted', async () => {
    const redaction = compileRedaction([{ pattern: 'email' }], 'wk_');
    const common = new CommonMembers(redaction);
    const { members } = common.of(...made({ request: { path: '/files/ann@example.com' } }));
    assert.doesNotMatch(members, /ann@/);
    assert.match(members, /"path":"\/v1\/files\/\[redacted\]"/);
  });
});
