import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import {
  conversationOf,
  type Message,
  sentMessages,
  withAnswer,
} from './app/src/pages/playground/messages.ts';
import { callFaults, exampleTools, toolsOf } from './app/src/pages/playground/tools.ts';

function golden(client: string, name: string): unknown {
  const url = new URL(`../../tests/golden/requests/${client}/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(url, 'utf8')) as unknown;
}

describe('a logged request of any wire becomes the same request of chat completions', () => {
  for (const name of ['text', 'history', 'image', 'tool-call', 'tool-results'])
    for (const client of ['chat', 'messages', 'gemini', 'responses'])
      test(`${name} of ${client}`, () => {
        const { messages, tools } = conversationOf(golden(client, name), 'json');
        const plain = (value: unknown): unknown =>
          JSON.parse(
            JSON.stringify(value, (member, inner: unknown) => {
              if (member === 'id' || member === 'tool_call_id' || member === 'detail') return undefined;
              // Some wires have objects where others have JSON in a text.
              if (member === 'arguments' || member === 'content')
                return typeof inner === 'string' && inner.startsWith('{')
                  ? (JSON.parse(inner) as object)
                  : inner;
              return member === 'strict' ? undefined : inner;
            }),
          ) as unknown;
        const wanted = golden('chat', name) as { messages: unknown; tools?: unknown };
        assert.deepEqual(plain(sentMessages(messages)), plain(wanted.messages));
        assert.deepEqual(plain(tools === '' ? [] : JSON.parse(tools)), plain(wanted.tools ?? []));
        assert.deepEqual(toolsOf(tools).faults, []);
      });
});

test('results name the calls that they answer, also where the wire names the tool alone', () => {
  const { messages } = conversationOf(golden('gemini', 'tool-results'), 'json');
  const calls = messages.flatMap((message) => message.calls ?? []);
  const answered = messages.flatMap(({ call }) => (call === undefined ? [] : [call.id]));
  assert.equal(new Set(answered).size, 2);
  assert.deepEqual(
    answered,
    calls.map(({ id }) => id),
  );
});

test('Converse: its tools and messages', () => {
  const body = {
    messages: [{ role: 'user', content: [{ text: 'Warm?' }] }],
    toolConfig: {
      tools: [{ toolSpec: { name: 'get_weather', inputSchema: { json: { type: 'object' } } } }],
    },
  };
  const { messages, tools } = conversationOf(body, 'json');
  assert.deepEqual(messages, [{ role: 'user', content: 'Warm?' }]);
  assert.deepEqual(JSON.parse(tools), [
    { type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } },
  ]);
});

test('an answer with calls goes on with their results, and one without waits for the user', () => {
  const asked: readonly Message[] = [
    { role: 'user', content: 'Warm?' },
    { role: 'user', content: '' },
  ];
  const call = { id: '', name: 'get_weather', arguments: '{"city":"Kiel"}' };
  const next = withAnswer(asked, { text: '', calls: [call, { ...call, id: 'c2' }] }, ['14 °C', '{}']);
  const [, answer, first, second] = sentMessages(next) as readonly {
    readonly content: string | null;
    readonly tool_calls?: readonly { readonly id: string }[];
  }[];
  assert.equal(answer?.content, null);
  const id = answer.tool_calls?.[0]?.id ?? '';
  assert.notEqual(id, '');
  assert.deepEqual(first, { role: 'tool', tool_call_id: id, content: '14 °C' });
  assert.deepEqual(second, { role: 'tool', tool_call_id: 'c2', content: '{}' });
  const plain = withAnswer(asked, { text: 'Yes.', calls: [] }, []);
  assert.deepEqual(plain.at(-1), { role: 'user', content: '' });
});

describe('faults of tools stand at their place', () => {
  const tool = (value: object): string => JSON.stringify([{ type: 'function', function: value }]);
  const cases: readonly (readonly [text: string, fault: RegExp])[] = [
    ['[', /JSON/],
    ['{}', /^Expected a list/],
    [JSON.stringify([{ type: 'tool', function: { name: 'a' } }]), /^\[0\]\.type: Expected "function"/],
    [tool({}), /^\[0\]\.function: "name" is missing/],
    [tool({ name: 'get weather' }), /^\[0\]\.function\.name: Expected a name of at most 64/],
    [tool({ name: 'a', parameter: {} }), /There is no "parameter" here. Did you mean "parameters"/],
    [tool({ name: 'a', parameters: { type: 'array' } }), /parameters\.type: Expected "object"/],
    [
      tool({ name: 'a', parameters: { type: 'object', properties: { b: { type: 'text' } } } }),
      /properties\.b\.type: Expected/,
    ],
    [tool({ name: 'a', parameters: { type: 'object', required: ['b'] } }), /There is no property "b"/],
    [
      JSON.stringify([1, 2].map(() => ({ type: 'function', function: { name: 'a' } }))),
      /^\[1\]\.function\.name: Another tool has this name/,
    ],
  ];
  for (const [text, fault] of cases)
    test(text, () => {
      const { faults, list } = toolsOf(text);
      assert.match(faults[0] ?? '', fault);
      assert.deepEqual(list, []);
    });
});

test('tools without faults are sent as they stand, and calls are held against them', () => {
  const { list, faults } = toolsOf(exampleTools);
  assert.deepEqual([list, faults], [JSON.parse(exampleTools), []]);
  assert.deepEqual(toolsOf(' '), { list: [], faults: [] });
  const call = { name: 'get_weather', arguments: '{"city":"Kiel"}' };
  assert.deepEqual(callFaults(call, list), []);
  assert.deepEqual(callFaults({ ...call, arguments: '{"city":7}' }, list), [
    'city: Expected a text in quotes.',
  ]);
  assert.deepEqual(callFaults({ ...call, arguments: '' }, list), ['"city" is missing.']);
  assert.match(callFaults({ ...call, arguments: '{' }, list)[0] ?? '', /JSON/);
  assert.match(callFaults({ ...call, name: 'other' }, list)[0] ?? '', /There is no tool "other"/);
});
