import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { parsePath, pathPattern, type PathRule } from './redaction-options.ts';
import { redactDocument, redactEvents } from './redaction.ts';
import { type TextRule, namedPattern } from './redact-text.ts';

const hide = (...paths: string[]): PathRule[] =>
  paths.map((path) => ({ steps: parsePath(path), replacement: '-' }));
const email: TextRule = { find: namedPattern('email', ''), replacement: '<mail>' };

function finished(work: Generator<void, string>): string {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}
const document = (text: string, paths: string[], texts: TextRule[] = []): string =>
  finished(redactDocument(text, { paths: hide(...paths), texts }));
const events = (text: string, paths: string[], texts: TextRule[] = []): string =>
  finished(redactEvents(text, { paths: hide(...paths), texts }));

describe('paths', () => {
  const good = [
    'messages[*].content',
    'metadata.email',
    'tools',
    '[0].a',
    '*.b',
    '**.password',
    'a.**.b[1][*]',
    '"a.b"',
    '$x-y',
  ];
  const bad = ['', '.', 'a.', '.a', 'a..b', '**', 'a.**', 'a[', 'a[-1]', 'a[x]', 'a b', '***', '""', 'a[*]b'];
  for (const path of good) test(`${path} is one`, () => assert.match(path, new RegExp(pathPattern, 'u')));
  for (const path of bad)
    test(`"${path}" is none`, () => assert.doesNotMatch(path, new RegExp(pathPattern, 'u')));

  const json = '{ "a": [ {"b": 1, "c": "x"}, {"b": {"b": 12345678901234567890}} ], "a.b": true, "d":null }';
  const cases: [string[], string][] = [
    [['a'], '{ "a": "-", "a.b": true, "d":null }'],
    [['a[*].b'], '{ "a": [ {"b": "-", "c": "x"}, {"b": "-"} ], "a.b": true, "d":null }'],
    [['a[1].b.b'], '{ "a": [ {"b": 1, "c": "x"}, {"b": {"b": "-"}} ], "a.b": true, "d":null }'],
    [
      ['a[0].*'],
      '{ "a": [ {"b": "-", "c": "-"}, {"b": {"b": 12345678901234567890}} ], "a.b": true, "d":null }',
    ],
    [
      ['"a.b"', 'd'],
      '{ "a": [ {"b": 1, "c": "x"}, {"b": {"b": 12345678901234567890}} ], "a.b": "-", "d":"-" }',
    ],
    [['**.c'], '{ "a": [ {"b": 1, "c": "-"}, {"b": {"b": 12345678901234567890}} ], "a.b": true, "d":null }'],
    [['a.**.b.b'], '{ "a": [ {"b": 1, "c": "x"}, {"b": {"b": "-"}} ], "a.b": true, "d":null }'],
    [['b', 'a.b', 'a[2]'], json],
  ];
  for (const [paths, expected] of cases)
    test(`hide ${paths.join(', ')}`, () => assert.equal(document(json, paths), expected));

  test('the same path hides nothing in a list that is a member of another one', () => {
    assert.equal(document('[{"a":1},[{"a":2}]]', ['[*].a']), '[{"a":"-"},[{"a":2}]]');
  });
});

describe('a document that is not whole, or none', () => {
  const cut = '{"messages":[{"role":"user","content":"ann@example.com and a long';
  test('is redacted as far as it goes', () => {
    assert.equal(document(cut, ['messages[*].content']), '{"messages":[{"role":"user","content":"-"');
    assert.equal(document(cut, [], [email]), cut.replace('ann@example.com', '<mail>'));
    assert.equal(document('{"a":{"b":[1,2', ['a']), '{"a":"-"');
    assert.equal(document('{"a"', ['a']), '{"a"');
    assert.equal(document('{"a":', ['a']), '{"a":');
  });

  test('hides the rest when there are paths and it is no JSON any more', () => {
    assert.equal(document('{"a":1,b:\'ann@example.com\'}', ['x'], [email]), '{"a":1,-');
    assert.equal(document('{"a":1,b:\'ann@example.com\'}', [], [email]), '{"a":1,b:\'<mail>\'}');
  });

  test('a text has patterns and no paths', () => {
    assert.equal(document('to: ann@example.com\n', ['to'], [email]), 'to: <mail>\n');
    assert.equal(document('', ['a'], [email]), '');
  });

  test('several documents are read one after another', () => {
    assert.equal(document('{"a":1}\n{"a":2}\n', ['a']), '{"a":"-"}\n{"a":"-"}\n');
  });

  test('depth has an end', () => {
    const deep = `${'['.repeat(100_000)}"ann@example.com"${']'.repeat(100_000)}`;
    assert.equal(document(deep, [], [email]), `${'['.repeat(128)}"[redacted]"${']'.repeat(128)}`);
  });
});

describe('patterns in JSON', () => {
  test('names, strings with escapes, numbers, and JSON within a string', () => {
    const card: TextRule = { find: namedPattern('credit_card', ''), replacement: '<card>' };
    const json = String.raw`{"ann@example.com":"a\u0062\"b@example.com\"","n":4111111111111111,"s":"{\"m\":\"c@d.org\"}","k":"ü\n"}`;
    assert.equal(
      document(json, [], [email, card]),
      String.raw`{"<mail>":"ab\"<mail>\"","n":"<card>","s":"{\"m\":\"<mail>\"}","k":"ü\n"}`,
    );
  });
});

describe('events', () => {
  const delta = (content: string, index = 0): string =>
    `data: {"choices":[{"index":${index},"delta":{"content":${JSON.stringify(content)}}}],"id":"x"}\n\n`;

  test('what comes letter by letter is found, in each choice for itself', () => {
    const stream = ['Mail a', 'nn@ex', 'ample.com', ' now']
      .map((text) => delta(text) + delta(text, 1))
      .join('');
    const redacted = events(`${stream}data: [DONE]\n\n`, [], [email]);
    const expected = ['Mail <mail>', '', '', ' now'].map((text) => delta(text) + delta(text, 1)).join('');
    assert.equal(redacted, `${expected}data: [DONE]\n\n`);
  });

  test('paths apply to the JSON of each event, other lines stay', () => {
    assert.equal(
      events(`event: a\n: ping\n${delta('hi')}`, ['choices[*].delta.content']),
      'event: a\n: ping\ndata: {"choices":[{"index":0,"delta":{"content":"-"}}],"id":"x"}\n\n',
    );
  });

  test('data in several lines is one document; texts and comments have patterns', () => {
    const stream = ': from ann@example.com\r\ndata: {"a":\r\ndata:  "b"}\r\n\r\ndata: c@d.org\r\n\r\n';
    assert.equal(
      events(stream, ['a'], [email]),
      ': from <mail>\ndata: {"a":\ndata:  "-"}\n\ndata: <mail>\n\n',
    );
  });

  test('ids that stand at the same place are no text that goes on', () => {
    const stream = 'data: {"id":"ann@"}\n\ndata: {"id":"example.com"}\n\n';
    assert.equal(events(stream, [], [email]), stream);
  });

  test('lists of events (Gemini without SSE) go on too', () => {
    const list = '[{"c":{"text":"ann@"}},\n{"c":{"text":"example.com"}}]';
    assert.equal(document(list, [], [email]), '[{"c":{"text":"<mail>"}},\n{"c":{"text":""}}]');
  });
});

test('what hides nothing changes no byte, whatever the document and wherever it is cut', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 4 }), fc.nat(), fc.boolean(), (json, cut, isPretty) => {
      const whole = isPretty ? JSON.stringify(JSON.parse(json), null, 2) : json;
      const text = whole.slice(0, cut % (whole.length + 1));
      const never: TextRule = { find: () => [], replacement: '' };
      assert.equal(
        document(text, text.startsWith('{') || text.startsWith('[') ? ['no.such[*].path'] : [], [never]),
        text,
      );
    }),
  );
});

test('a path hides what JSON.parse would find there, and nothing else', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      const whole = { a: [value, { b: value }], c: value };
      const redacted: unknown = JSON.parse(document(JSON.stringify(whole), ['a[*].b', 'c']));
      const first = JSON.parse(JSON.stringify(value)) as unknown;
      const isObjectWithB =
        typeof first === 'object' && first !== null && !Array.isArray(first) && 'b' in first;
      assert.deepEqual(redacted, { a: [isObjectWithB ? { ...first, b: '-' } : first, { b: '-' }], c: '-' });
    }),
  );
});
