import type { JsonValue } from '../../core/pipeline/context.ts';
import { subject } from '../guardrails/checks/subject.test-support.ts';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { judged } from '../../core/pipeline/plugin.ts';
import { contextFor, optionErrors, testScope, type TestRequest } from '../../tests/kit/plugin-kit.ts';
import requestParameters, { type RequestParametersOptions } from './index.ts';
import { refusalOf } from './refusal-of.test-support.ts';

const chat = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
describe('request-parameters: which bodies are looked at', () => {
  const blockAll = { params: { blockedKeys: ['model'] } };
  const cases: [string, TestRequest, boolean][] = [
    ['JSON without a content type', { body: chat, headers: { 'content-type': '' } }, true],
    [
      'a modelled endpoint whose body calls itself an upload',
      { body: chat, headers: { 'content-type': 'multipart/form-data; boundary=x' } },
      true,
    ],
    ['JSON to an unmodelled endpoint', { path: '/images/generations', body: chat }, true],
    ['a PUT', { method: 'PUT', path: '/anything', body: chat }, true],
    ['no body', { method: 'GET', path: '/models' }, false],
    ['a body that is no JSON', { body: 'model=m' }, false],
    ['a JSON list', { body: [{ model: 'm' }] }, false],
  ];
  for (const [name, request, refused] of cases) {
    test(name, async () => assert.equal((await refusalOf(blockAll, request)) !== undefined, refused));
  }

  test('what it did not look at it does not call passed', async () => {
    const hooks = await requestParameters.create({ params: { blockedKeys: ['x'] } }, testScope().scope);
    for (const [body, said] of [
      [chat, 'passed'],
      [[chat], 'skipped'],
      ['model=m', 'skipped'],
    ] as const) {
      const context = await contextFor(requestParameters, { body });
      await hooks.request?.(context);
      assert.equal(context.get(judged), said);
    }
  });

  for (const type of ['multipart/form-data; boundary=x', 'audio/mpeg', 'application/octet-stream']) {
    test(`an upload as ${type} is not even read`, async () => {
      const hooks = await requestParameters.create(blockAll, testScope().scope);
      const request = { path: '/files', body: 'data', headers: { 'content-type': type } };
      const context = await contextFor(requestParameters, request);
      await hooks.request?.(context);
      assert.equal(context.body.loaded, false);
      assert.equal(context.get(judged), 'skipped');
    });
  }
});

test('request-parameters: a refusal carries the hook results that existing clients know', async () => {
  const refusal = await refusalOf(
    { params: { blockedKeys: ['logit_bias'] } },
    { body: { ...chat, logit_bias: {} } },
  );
  assert.equal(
    refusal?.message,
    'The request was refused: "logit_bias" is blocked by the rule params.blockedKeys.',
  );
  const timing = { execution_time: 0, created_at: '2026-11-21T09:00:00.000Z' };
  assert.deepEqual(refusal.extra, {
    hook_results: {
      before_request_hooks: [
        {
          verdict: false,
          id: 'request-parameters',
          type: 'guardrail',
          transformed: false,
          checks: [
            {
              id: 'default.requestParametersCheck',
              verdict: false,
              data: {
                explanation: '"logit_bias" is blocked by the rule params.blockedKeys.',
                rule: 'params.blockedKeys',
                param: 'logit_bias',
                value: '"logit_bias"',
              },
              error: null,
              transformed: false,
              log: null,
              fail_on_error: false,
              ...timing,
            },
          ],
          feedback: null,
          async: false,
          deny: true,
          skipped: false,
          ...timing,
        },
      ],
      after_request_hooks: [],
    },
  });
});

test('request-parameters: what a caller invents is cut short in the refusal', async () => {
  const long = 'x'.repeat(100_000);
  const byKey = await refusalOf({ params: { allowedKeys: ['model'] } }, { body: { [long]: 1 } });
  const byValue = await refusalOf(
    { params: { values: { a: { allowedValues: [1] } } } },
    { body: { a: long } },
  );
  assert.ok(JSON.stringify([byKey?.message, byKey?.param, byKey?.extra]).length < 2000);
  assert.ok(JSON.stringify([byValue?.message, byValue?.extra]).length < 2000);
});

test('request-parameters: whatever the body, block lists hold', async () => {
  const key = fc.constantFrom('a', 'b', 'c', '__proto__', 'toString');
  const body = fc.dictionary(key, fc.jsonValue(), { noNullPrototype: false });
  await fc.assert(
    fc.asyncProperty(body, fc.uniqueArray(key), async (value, blockedKeys) => {
      const refusal = await refusalOf({ params: { blockedKeys } }, { body: JSON.stringify(value) });
      const sent = Object.keys(JSON.parse(JSON.stringify(value)) as object);
      assert.equal(
        refusal !== undefined,
        blockedKeys.some((one) => sent.includes(one)),
      );
    }),
    { numRuns: 200 },
  );
});

describe('request-parameters: options', () => {
  const full: RequestParametersOptions = {
    tools: {
      blockedTypes: ['a'],
      allowedTypes: ['b'],
      blockedFunctionNames: [],
      allowedFunctionNames: ['c'],
    },
    params: {
      blockedKeys: ['x'],
      allowedKeys: ['y'],
      values: { n: { blockedValues: [1, 'one', true, null], allowedValues: [2.5] } },
    },
  };
  test('accepts all of them', () => assert.equal(optionErrors(requestParameters, full), ''));
  const bad: [string, unknown, RegExp][] = [
    ['an unknown list', { tools: { blockedType: [] } }, /additional/],
    ['an allow list of nothing', { params: { allowedKeys: [] } }, /fewer than 1/],
    [
      'values that are no primitives',
      { params: { values: { n: { blockedValues: [[1]] } } } },
      /blockedValues\/0/,
    ],
  ];
  for (const [name, options, message] of bad) {
    test(`refuses ${name}`, () => assert.match(optionErrors(requestParameters, options), message));
  }

  test('a reload with other rules leaves the old ones to the requests that hold them', async () => {
    const { scope } = testScope();
    const before = await requestParameters.create({ params: { blockedKeys: ['n'] } }, scope);
    const after = await requestParameters.create({ params: { blockedKeys: ['m'] } }, scope);
    const context = await contextFor(requestParameters, { body: { n: 1 } });
    await after.request?.(context);
    assert.throws(() => before.request?.(context), { code: 'hooks_failed' });
  });
});

test('request-parameters: as a check of guardrails', async () => {
  const [check] = requestParameters.offers ?? [];
  const options = { params: { blockedKeys: ['seed'], values: { model: { allowedValues: ['m'] } } } };
  const judge = check!.create(options, testScope().scope);
  const said = async (json: JsonValue | undefined, model: string) => judge(subject({ json, model }));
  assert.deepEqual(await said({ model: 'm' }, 'm'), { verdict: 'passed' });
  assert.equal((await said({ model: 'm' }, '@a/m')).verdict, 'passed');
  assert.equal((await said(undefined, 'other')).verdict, 'failed');
  assert.equal((await said(undefined, '')).verdict, 'skipped');
  assert.deepEqual(await said({ model: 'm', seed: 1 }, 'm'), {
    verdict: 'failed',
    data: {
      explanation: '"seed" is blocked by the rule params.blockedKeys.',
      rule: 'params.blockedKeys',
      param: 'seed',
      value: '"seed"',
    },
  });
});
