import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RequestParametersOptions } from './index.ts';
import { refusalOf } from './refusal-of.test-support.ts';

const chat = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
const tool = (name: string, type = 'function') => ({ type, function: { name } });

describe('request-parameters: what is refused, and by which rule', () => {
  // Options, body, and the `param` and rule of the refusal; null for a request that passes.
  const cases: [string, RequestParametersOptions, object, [string, string] | null][] = [
    ['no rules', {}, { ...chat, logit_bias: {} }, null],
    [
      'a blocked key',
      { params: { blockedKeys: ['logit_bias'] } },
      { ...chat, logit_bias: {} },
      ['logit_bias', 'params.blockedKeys'],
    ],
    [
      'a blocked key that is null',
      { params: { blockedKeys: ['seed'] } },
      { ...chat, seed: null },
      ['seed', 'params.blockedKeys'],
    ],
    ['a blocked key deeper down', { params: { blockedKeys: ['role'] } }, chat, null],
    [
      'a blocked key that every object inherits',
      { params: { blockedKeys: ['constructor', 'toString'] } },
      chat,
      null,
    ],
    [
      'a key that is not allowed',
      { params: { allowedKeys: ['model', 'messages'] } },
      { ...chat, n: 2 },
      ['n', 'params.allowedKeys'],
    ],
    ['only allowed keys', { params: { allowedKeys: ['model', 'messages'] } }, chat, null],
    [
      'a key both blocked and allowed',
      { params: { blockedKeys: ['n'], allowedKeys: ['model', 'messages', 'n'] } },
      { ...chat, n: 2 },
      ['n', 'params.blockedKeys'],
    ],

    [
      'a blocked text value',
      { params: { values: { model: { blockedValues: ['m'] } } } },
      chat,
      ['model', 'params.values.model.blockedValues'],
    ],
    ['another text value', { params: { values: { model: { blockedValues: ['M'] } } } }, chat, null],
    [
      'a value that is not allowed',
      { params: { values: { n: { allowedValues: [1, 2] } } } },
      { n: 3 },
      ['n', 'params.values.n.allowedValues'],
    ],
    ['an allowed number', { params: { values: { n: { allowedValues: [1, 2] } } } }, { n: 2 }, null],
    ['an allowed value is not asked for', { params: { values: { n: { allowedValues: [1] } } } }, chat, null],
    ['a number written as text', { params: { values: { n: { blockedValues: [1] } } } }, { n: '1' }, null],
    [
      'a boolean',
      { params: { values: { stream: { blockedValues: [true] } } } },
      { stream: true },
      ['stream', 'params.values.stream.blockedValues'],
    ],
    [
      'null where it is not allowed',
      { params: { values: { n: { allowedValues: [1] } } } },
      { n: null },
      ['n', 'params.values.n.allowedValues'],
    ],
    [
      'null where it is allowed',
      { params: { values: { n: { allowedValues: [1, null] } } } },
      { n: null },
      null,
    ],
    [
      'a list is never an allowed value',
      { params: { values: { stop: { allowedValues: ['x'] } } } },
      { stop: ['x'] },
      ['stop', 'params.values.stop.allowedValues'],
    ],
    [
      'a value both blocked and allowed',
      { params: { values: { n: { blockedValues: [1], allowedValues: [1] } } } },
      { n: 1 },
      ['n', 'params.values.n.blockedValues'],
    ],
    ['rules without lists', { params: { values: { n: {} } }, tools: {} }, { n: 1 }, null],

    [
      'a blocked tool type',
      { tools: { blockedTypes: ['web_search'] } },
      { tools: [tool('f'), { type: 'web_search' }] },
      ['tools[1].type', 'tools.blockedTypes'],
    ],
    [
      'a tool type that is not allowed',
      { tools: { allowedTypes: ['function'] } },
      { tools: [{ type: 'mcp' }] },
      ['tools[0].type', 'tools.allowedTypes'],
    ],
    ['an allowed tool type', { tools: { allowedTypes: ['function'] } }, { tools: [tool('f')] }, null],
    [
      'a tool without a type that describes a function',
      { tools: { blockedTypes: ['function'] } },
      { tools: [{ function: { name: 'f' } }] },
      ['tools[0].type', 'tools.blockedTypes'],
    ],
    [
      'a tool without a type is custom',
      { tools: { allowedTypes: ['function'] } },
      { tools: [{ name: 'f', input_schema: {} }] },
      ['tools[0].type', 'tools.allowedTypes'],
    ],
    [
      'a type that is no text',
      { tools: { allowedTypes: ['function'] } },
      { tools: [{ type: ['function'] }] },
      ['tools[0].type', 'tools.allowedTypes'],
    ],
    [
      'functions count as function',
      { tools: { blockedTypes: ['function'] } },
      { functions: [{ name: 'f' }] },
      ['functions', 'tools.blockedTypes'],
    ],
    [
      'an empty list of functions',
      { tools: { blockedTypes: ['function'] } },
      { functions: [], tools: [] },
      null,
    ],

    [
      'a blocked function',
      { tools: { blockedFunctionNames: ['rm'] } },
      { tools: [tool('ls'), tool('rm')] },
      ['tools[1].function.name', 'tools.blockedFunctionNames'],
    ],
    [
      'a function that is not allowed',
      { tools: { allowedFunctionNames: ['ls'] } },
      { tools: [tool('rm')] },
      ['tools[0].function.name', 'tools.allowedFunctionNames'],
    ],
    [
      'a tool of the responses or messages wire',
      { tools: { blockedFunctionNames: ['rm'] } },
      { tools: [{ type: 'function', name: 'rm' }] },
      ['tools[0].name', 'tools.blockedFunctionNames'],
    ],
    [
      'a custom tool',
      { tools: { blockedFunctionNames: ['rm'] } },
      { tools: [{ type: 'custom', custom: { name: 'rm' } }] },
      ['tools[0].custom.name', 'tools.blockedFunctionNames'],
    ],
    [
      'a harmless name before a blocked one',
      { tools: { blockedFunctionNames: ['rm'] } },
      { tools: [{ function: { name: 'ls' }, name: 'rm' }] },
      ['tools[0].name', 'tools.blockedFunctionNames'],
    ],
    [
      'a hosted tool has no name to judge',
      { tools: { allowedFunctionNames: ['ls'] } },
      { tools: [{ type: 'web_search' }] },
      null,
    ],
    [
      'a legacy function',
      { tools: { blockedFunctionNames: ['rm'] } },
      { functions: [{ name: 'rm' }] },
      ['functions[0].name', 'tools.blockedFunctionNames'],
    ],
    [
      'a chosen tool',
      { tools: { blockedFunctionNames: ['rm'] } },
      { tool_choice: tool('rm') },
      ['tool_choice.function.name', 'tools.blockedFunctionNames'],
    ],
    [
      'a chosen tool of another wire',
      { tools: { blockedFunctionNames: ['rm'] } },
      { tool_choice: { type: 'tool', name: 'rm' } },
      ['tool_choice.name', 'tools.blockedFunctionNames'],
    ],
    [
      'a choice that names nothing',
      { tools: { blockedFunctionNames: ['auto'] } },
      { tool_choice: 'auto' },
      null,
    ],
    [
      'a legacy choice',
      { tools: { allowedFunctionNames: ['ls'] } },
      { function_call: { name: 'rm' } },
      ['function_call.name', 'tools.allowedFunctionNames'],
    ],
    [
      'a name both blocked and allowed',
      { tools: { blockedFunctionNames: ['rm'], allowedFunctionNames: ['rm'] } },
      { tools: [tool('rm')] },
      ['tools[0].function.name', 'tools.blockedFunctionNames'],
    ],
    [
      'tools that are no tools',
      { tools: { allowedTypes: ['function'], allowedFunctionNames: ['f'] } },
      { tools: [null, 1, 'x', []], functions: [null], tool_choice: null },
      null,
    ],
  ];
  for (const [name, options, body, expected] of cases) {
    test(name, async () => {
      const refusal = await refusalOf(options, { body });
      if (expected === null) {
        assert.equal(refusal, undefined);
      } else {
        assert.equal(refusal?.code, 'hooks_failed');
        assert.equal(refusal.status, 446);
        assert.equal(refusal.param, expected[0]);
        assert.ok(refusal.message.includes(expected[1]), refusal.message);
      }
    });
  }

  test('a key spelled with escapes, or sent twice', async () => {
    const options = { params: { blockedKeys: ['logit_bias'], values: { n: { blockedValues: [2] } } } };
    assert.equal((await refusalOf(options, { body: '{"\\u006cogit_bias":{}}' }))?.param, 'logit_bias');
    assert.equal((await refusalOf(options, { body: '{"n":1,"n":2}' }))?.param, 'n');
  });

  test('a long integer is compared with its digits read as a number', async () => {
    const options = { params: { values: { seed: { blockedValues: [Number('9223372036854775807')] } } } };
    const refusal = await refusalOf(options, { body: '{"seed": 9223372036854775807}' });
    assert.match(refusal?.message ?? '', /"seed" with 9223372036854775807 is blocked/);
    assert.equal(await refusalOf(options, { body: '{"seed": 9123372036854775807}' }), undefined);
  });
});
