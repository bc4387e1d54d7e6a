import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isPolicyKey, metadataName, policyKeys, policyRuleIssues, policyRulesOf } from './policies.ts';

describe('rules of policies', () => {
  test('are about what is known, or about metadata with a name', () => {
    for (const key of [...policyKeys, 'metadata._user', 'metadata.a.b']) assert.ok(isPolicyKey(key), key);
    for (const key of ['metadata.', 'metadata', 'Model', 'constructor', ''])
      assert.ok(!isPolicyKey(key), key);
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
