import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { emptyRun, firstColumn } from './app/src/pages/playground/columns.ts';
import { type Kept, readKept, writeKept } from './app/src/pages/playground/kept.ts';
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

describe('what the playground keeps of itself', () => {
  const kept: Kept = {
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Look', images: ['data:image/png;base64,AAAA'] },
      { role: 'assistant', content: '', calls: [{ id: '1', name: 'look', arguments: '{}' }] },
      { role: 'tool', content: 'seen', call: { id: '1', name: 'look' } },
      { role: 'user', content: 'And now?' },
    ],
    ...{ tools: '[', left: 0, entry: 'abc' },
    sides: [
      { column: { ...firstColumn, model: 'mock' } },
      { column: firstColumn, run: { ...emptyRun, state: 'done', text: 'A', tokens: [1, 2], totalMs: 3 } },
    ],
  };
  const through = (one: Kept): Kept | undefined => {
    const text = writeKept(one);
    assert.ok(text.length <= 1_000_000, String(text.length));
    return readKept(text);
  };

  test('is read as it was written; an answer that was coming is cut off', () => {
    assert.deepEqual(through(kept), JSON.parse(JSON.stringify(kept)));
    const sides = [{ column: firstColumn, run: { ...emptyRun, state: 'running' as const, text: 'Half' } }];
    const [side] = through({ ...kept, sides })?.sides ?? [];
    assert.deepEqual([side?.run?.state, side?.run?.text], ['cut', 'Half']);
  });

  test('of another version or damaged is nothing', () => {
    const text = writeKept(kept);
    const changed = (change: object): string => JSON.stringify({ ...JSON.parse(text), ...change });
    assert.ok(readKept(changed({})));
    const [side] = kept.sides;
    for (const damaged of [
      ...[undefined, '', '{', 'null', '[]', '{}', text.slice(0, -1)],
      ...[{ version: 0 }, { version: '1' }, { messages: [] }, { messages: {} }, { sides: [] }].map(changed),
      ...[{ sides: Array(5).fill(side) }, { tools: null }, { left: '1' }, { entry: 1 }].map(changed),
      changed({ messages: [{ role: 'constructor', content: '' }] }),
      changed({ messages: [{ role: 'user', content: null }] }),
      changed({ messages: [{ role: 'user', content: '', images: [1] }] }),
      changed({ messages: [{ role: 'tool', content: '', call: { id: 1 } }] }),
      changed({ messages: [{ role: 'assistant', content: '', calls: [{ id: '1' }] }] }),
      changed({ sides: [{ column: { ...firstColumn, stream: 'yes' } }] }),
      changed({ sides: [{ column: { ...firstColumn, kind: 'other' } }] }),
      changed({ sides: [{ column: firstColumn, run: {} }] }),
      changed({ sides: [{ column: firstColumn, run: { ...emptyRun, state: 'running' } }] }),
      changed({ sides: [{ column: firstColumn, run: { ...emptyRun, state: 'done', tokens: ['1', 2] } }] }),
    ])
      assert.equal(readKept(damaged), undefined, damaged);
  });

  test('loses images first when it is too much, the oldest first, and says where they were', () => {
    const image = `data:image/png;base64,${'A'.repeat(600_000)}`;
    const messages = ['one', 'two'].map((content) => ({ role: 'user' as const, content, images: [image] }));
    assert.deepEqual(through({ ...kept, messages })?.messages, [
      { role: 'user', content: 'one', imagesLeft: 1 },
      { role: 'user', content: 'two', images: [image] },
    ]);
  });

  test('then loses the oldest turns with the results of their tools, but not the system prompt', () => {
    const long = { role: 'user' as const, content: 'o'.repeat(990_000) };
    const before = kept.messages.map((one) =>
      one.role === 'tool' ? { ...one, content: 'o'.repeat(12_000) } : one,
    );
    const found = through({ ...kept, messages: [...before.slice(0, 4), long] });
    assert.deepEqual(
      found?.messages.map(({ role, content }) => [role, content.length]),
      [
        ['system', 9],
        ['user', 990_000],
      ],
    );
    assert.equal(found?.left, 3);
    const most = through({ ...kept, left: 2, messages: [{ ...long, content: '"'.repeat(600_000) }] });
    assert.deepEqual([most?.messages, most?.left], [[{ role: 'user', content: '' }], 3]);
  });

  test('then loses the ends of answers', () => {
    const run = { ...emptyRun, state: 'done' as const, text: 'a'.repeat(1_000_000) };
    const sides = [1, 2, 3, 4].map(() => ({ column: firstColumn, run }));
    const found = through({ ...kept, sides })?.sides.map((side) => side.run);
    assert.deepEqual(
      found?.map((one) => [one?.state, one?.text.length]),
      Array(4).fill(['cut', 100_000]),
    );
  });
});
