import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AnyCheck } from '../../../core/pipeline/plugin.ts';
import { builtIn, faults, subject, verdict } from './subject.test-support.ts';

const allowedRequestTypes = builtIn('default.allowedRequestTypes');
const modelRules = builtIn('default.modelRules');
const modelWhitelist = builtIn('default.modelWhitelist');
const requiredMetadataKeys = builtIn('default.requiredMetadataKeys');
const requiredMetadataKeyValuePairs = builtIn('default.requiredMetadataKeyValuePairs');

type Given = Exclude<Parameters<typeof subject>[0], string>;

function grid(check: AnyCheck, cases: readonly [object, Given, string][]): void {
  describe(check.id, () => {
    for (const [parameters, given, expected] of cases)
      test(`${JSON.stringify(parameters)} of ${JSON.stringify(given)}: ${expected}`, async () =>
        assert.equal(await verdict(check, parameters, subject(given)), expected));
  });
}

const models = ['gpt-4o', '@own/llama'];
grid(modelWhitelist, [
  [{ models }, { model: 'gpt-4o' }, 'passed'],
  [{ models }, { model: '@openai/gpt-4o' }, 'passed'],
  [{ models }, { model: '@own/llama' }, 'passed'],
  [{ models }, { model: 'llama' }, 'failed'],
  [{ models }, { model: 'abcdefgpt-4o' }, 'failed'],
  [{ models }, { model: '' }, 'skipped'],
  [{ models, not: true }, { model: 'gpt-4o' }, 'failed'],
  [{ models: ['gemini'], not: true }, { model: '@x/models/gemini' }, 'failed'],
  [{ models, not: true }, { model: 'o3' }, 'passed'],
]);

const rules = {
  defaults: ['small'],
  metadata: { team: { red: ['big'], blue: ['small', 'blue'] }, tier: { gold: ['gold'] } },
};
grid(modelRules, [
  [{ rules }, { model: 'big', metadata: { team: 'red' } }, 'passed'],
  [{ rules }, { model: 'small', metadata: { team: 'red' } }, 'failed'],
  [{ rules }, { model: 'gold', metadata: { team: 'red', tier: 'gold' } }, 'passed'],
  [{ rules }, { model: 'small', metadata: { team: 'green' } }, 'passed'],
  [{ rules }, { model: 'big' }, 'failed'],
  [{ rules, not: true }, { model: 'big' }, 'passed'],
  [{ rules: {} }, { model: 'big' }, 'failed'],
  [{ rules }, { model: '' }, 'skipped'],
  [{ rules }, { model: 'x', metadata: { team: 'constructor' } }, 'failed'],
]);

grid(allowedRequestTypes, [
  [{ allowedTypes: ['chatComplete'] }, {}, 'passed'],
  [{ allowedTypes: ['chat.completions'] }, {}, 'passed'],
  [{ allowedTypes: ['embed'] }, {}, 'failed'],
  [{ blockedTypes: ['chatComplete'] }, {}, 'failed'],
  [{ blockedTypes: ['embed'] }, {}, 'passed'],
  [{ blockedTypes: ['createTranscription', 'createTranslation'] }, { endpoint: 'audio' }, 'failed'],
  [{ allowedTypes: ['files'] }, { endpoint: 'files' }, 'passed'],
  [{}, { metadata: { supported_endpoints: 'embed, chatComplete' } }, 'passed'],
  [{}, { metadata: { supported_endpoints: 'embed' } }, 'failed'],
  [{}, { metadata: { supported_endpoints: 'chatComplete', blocked_endpoints: 'chatComplete' } }, 'failed'],
  [{}, { endpoint: 'files', metadata: { supported_endpoints: 'listFiles' } }, 'failed'],
  [{}, { endpoint: 'files', metadata: { blocked_endpoints: 'listFiles' } }, 'failed'],
  [{ allowedTypes: ['embed'] }, { metadata: { supported_endpoints: 'chatComplete' } }, 'failed'],
  [{}, {}, 'skipped'],
]);

const metadataKeys = ['user', 'team'];
grid(requiredMetadataKeys, [
  [{ metadataKeys }, { metadata: { user: '1', team: '' } }, 'passed'],
  [{ metadataKeys }, { metadata: { user: '1' } }, 'failed'],
  [{ metadataKeys }, {}, 'failed'],
  [{ metadataKeys, operator: 'any' }, { metadata: { user: '1' } }, 'passed'],
  [{ metadataKeys, operator: 'any' }, { metadata: { other: '1' } }, 'failed'],
  [{ metadataKeys, operator: 'none' }, {}, 'passed'],
  [{ metadataKeys, operator: 'none' }, { metadata: { team: '1' } }, 'failed'],
  [{ metadataKeys: ['toString'] }, {}, 'failed'],
]);

const metadata = { env: 'production-eu', user: 'ann' };
grid(requiredMetadataKeyValuePairs, [
  [{ metadataPairs: { user: 'ann' } }, { metadata }, 'passed'],
  [{ metadataPairs: { user: ['bob', 'ann'] } }, { metadata }, 'passed'],
  [{ metadataPairs: { user: 'ann', env: 'production' } }, { metadata }, 'failed'],
  [{ metadataPairs: { user: 'ann', env: 'production' }, operator: 'any' }, { metadata }, 'passed'],
  [{ metadataPairs: { user: 'ann', env: 'x' }, operator: 'none' }, { metadata }, 'failed'],
  [{ metadataPairs: { env: ['prod', 'us'] }, matchType: 'contains' }, { metadata }, 'passed'],
  [{ metadataPairs: { env: ['prod', 'us'] }, matchType: 'containsAll' }, { metadata }, 'failed'],
  [{ metadataPairs: { env: ['prod', 'eu'] }, matchType: 'containsAll' }, { metadata }, 'passed'],
  [{ metadataPairs: { env: '^prod.*-(eu|us)$' }, matchType: 'regex' }, { metadata }, 'passed'],
  [{ metadataPairs: { env: '^eu' }, matchType: 'regex' }, { metadata }, 'failed'],
]);

test('parameters that cannot be kept are refused', () => {
  assert.match(faults(modelWhitelist, { models: [] }), /models/);
  assert.match(faults(modelRules, { rules: { default: [] } }), /default/);
  assert.match(faults(allowedRequestTypes, { allowedTypes: ['chat'] }), /allowedTypes/);
  assert.match(
    faults(allowedRequestTypes, { allowedTypes: ['embed'], blockedTypes: ['embed'] }),
    /\/allowedTypes\/0 is "embed", which blockedTypes has, too/,
  );
  assert.match(
    faults(allowedRequestTypes, { allowedTypes: ['listFiles'] }),
    /\/allowedTypes\/0 is "listFiles", which this check does not tell from uploadFile.*write "files"/,
  );
  assert.match(faults(requiredMetadataKeys, { metadataKeys: ['a'], operator: 'one' }), /operator/);
  const pairs = { metadataPairs: { 'a/b': ['('] } };
  assert.equal(faults(requiredMetadataKeyValuePairs, pairs), '');
  assert.match(
    faults(requiredMetadataKeyValuePairs, { ...pairs, matchType: 'regex' }),
    /\/metadataPairs\/a~1b is no valid/,
  );
});
