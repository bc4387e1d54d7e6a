import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { metadataName, policyKeys, policyRuleIssues, policyRulesOf } from './policies.ts';

describe('rules of policies', () => {
  test('are about what is known, or about metadata with a name', () => {
    for (const target of ['llm', 'mcp_tools'] as const) {
      const isKnown = (key: string) => policyRuleIssues({ target, group_by: [{ key }] }, '').length === 0;
      for (const key of [...policyKeys[target], 'metadata._user', 'metadata.a.b'])
        assert.ok(isKnown(key), key);
      for (const key of ['metadata.', 'metadata', 'Model', 'constructor', '']) assert.ok(!isKnown(key), key);
    }
    assert.equal(metadataName('metadata.a.b'), 'a.b');
    assert.equal(metadataName('model'), undefined);
  });

  test('name the place of each mistake, with what was meant', () => {
    const issues = policyRuleIssues(
      {
        conditions: [
          { key: 'model', value: '*' },
          { key: 'apikey', value: 'x' },
        ],
        group_by: [{ key: 'model' }, { key: 'model' }, { key: 'zzzzzzzz' }],
      },
      '/policy',
    );
    assert.deepEqual(
      issues.map(({ path }) => path),
      ['/policy/conditions/1/key', '/policy/group_by/1/key', '/policy/group_by/2/key'],
    );
    assert.match(issues[0]?.message ?? '', /did you mean "api_key"\?/);
    assert.match(issues[2]?.message ?? '', /no rule can be about\. Known: api_key/);
  });

  test('about calls of tools are not those about requests to models, and the other way round', () => {
    const rules = (key: string, value = '*') => ({ conditions: [{ key, value }], group_by: [{ key }] });
    const places = (key: string, target: 'llm' | 'mcp_tools') =>
      policyRuleIssues({ ...rules(key), target }, '').map(({ path }) => path);
    const both = ['/conditions/0/key', '/group_by/0/key'];
    for (const key of ['model', 'provider', 'virtual_key', 'config', 'prompt', 'endpoint_type']) {
      assert.deepEqual(places(key, 'mcp_tools'), both, key);
      assert.deepEqual(places(key, 'llm'), [], key);
    }
    for (const key of ['mcp_server', 'mcp_tool']) {
      assert.deepEqual(places(key, 'llm'), both, key);
      assert.deepEqual(places(key, 'mcp_tools'), [], key);
    }
    const [issue] = policyRuleIssues(rules('endpoint_type', 'mcp'), '');
    assert.match(issue?.message ?? '', /policies with the target "mcp_tools"/);
    const [tool] = policyRuleIssues(rules('mcp_tool'), '');
    assert.match(tool?.message ?? '', /only rules of policies with the target "mcp_tools"/);
    const [model] = policyRuleIssues({ ...rules('model'), target: 'mcp_tools' }, '');
    assert.match(model?.message ?? '', /only rules of policies with the target "llm"/);
  });

  test('of calls of tools count requests, as calls have neither tokens nor a cost', () => {
    for (const type of ['tokens', 'cost'] as const) {
      assert.deepEqual(policyRuleIssues({ target: 'llm', type }, ''), []);
      const [issue] = policyRuleIssues({ target: 'mcp_tools', type }, '/policy');
      assert.equal(issue?.path, '/policy/type');
      assert.match(issue.message, /neither tokens nor a cost/);
    }
    assert.deepEqual(policyRuleIssues({ target: 'mcp_tools', type: 'requests' }, ''), []);
  });

  test('are stored without what they were given beside', () => {
    assert.deepEqual(
      policyRulesOf({ conditions: [{ key: 'model', value: 'm' }], group_by: [{ key: 'model' }] }),
      {
        conditions: [{ key: 'model', value: 'm' }],
        groupBy: [{ key: 'model' }],
      },
    );
    assert.deepEqual(policyRuleIssues({}, ''), []);
  });
});
