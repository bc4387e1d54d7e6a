import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { JsonObject } from '../../pipeline/context.ts';
import { compilePrompt, Rendering, renderPrompt } from './prompt-template.ts';
import { compileTemplate, type Template, TemplateError } from './template.ts';

function render(source: string, variables: JsonObject = {}, partials: Record<string, string> = {}): unknown {
  const compiled = new Map<string, Template>(
    Object.entries(partials).map(([name, text]) => [name, compileTemplate(text)]),
  );
  const rendering = new Rendering(variables, compiled);
  const rendered = renderPrompt(compilePrompt(source), rendering);
  rendering.requireComplete();
  return rendered.kind === 'text' ? rendered.text : rendered.messages;
}

describe('a text', () => {
  const cases: readonly [source: string, variables: JsonObject, expected: string][] = [
    ['Hi {{name}}!', { name: '<b>"Ä" & \'x\'</b>' }, 'Hi <b>"Ä" & \'x\'</b>!'],
    ['{{{a}}}{{&a}}', { a: '<' }, '<<'],
    ['{{a.b.c}}', { a: { b: { c: 1.5 } } }, '1.5'],
    ['{{a}} {{b}} {{c}}', { a: true, b: null, c: 9007199254740993n }, 'true  9007199254740993'],
    ['{{a}}', { a: { x: [1, 'y'] } }, '{"x":[1,"y"]}'],
    ['{{#list}}{{.}},{{/list}}', { list: [1, 2] }, '1,2,'],
    ['{{#list}}{{name}}{{other}};{{/list}}', { list: [{ name: 'a' }], other: 'o' }, 'ao;'],
    ['{{#a}}x{{/a}}{{^a}}none{{/a}}', {}, 'none'],
    ['{{#a}}{{b}}{{/a}}', { a: [] }, ''],
    ['{{! said to nobody }}x', {}, 'x'],
    ['[INST] {{a}}', { a: '1' }, '[INST] 1'],
    ['{"a": 1}', {}, '{"a": 1}'],
  ];
  for (const [source, variables, expected] of cases)
    test(source, () => assert.equal(render(source, variables), expected));

  test('inherits nothing and calls nothing', () => {
    for (const name of ['constructor', 'toString', 'a.constructor', '__proto__', 'a.length'])
      assert.throws(() => render(`{{${name}}}`, { a: 'text' }), /needs the variable/);
  });

  test('names every variable that is missing, once', () => {
    assert.throws(
      () => render('{{b}}{{a}}{{b}}{{#c}}{{d}}{{/c}}', { x: 1 }),
      (error: unknown) => GatewayError.is(error) && /needs the variables "a", "b"\./.test(error.message),
    );
  });

  test('includes partials, with the variables of where they stand', () => {
    const partials = { 'tone@2': 'Be {{how}}.' };
    assert.equal(render('{{#deep}}{{>tone@2}}{{/deep}}', { deep: { how: 'kind' } }, partials), 'Be kind.');
  });
});

describe('bounds', () => {
  const nested = '{{#l}}'.repeat(6) + '{{/l}}'.repeat(6);
  const cases: readonly [name: string, source: string, variables: JsonObject, message: RegExp][] = [
    [
      'bytes',
      '{{#l}}{{a}}{{/l}}',
      { l: Array(100).fill(1), a: 'ä'.repeat(50_000) },
      /longer than 4194304 bytes/,
    ],
    ['steps', nested, { l: Array(30).fill(1) }, /more than 200000 steps/],
  ];
  for (const [name, source, variables, message] of cases)
    test(name, () => assert.throws(() => render(source, variables), { code: 'invalid_request', message }));
  test('partials', () => {
    assert.throws(() => render('{{>a}}', {}, { a: '{{>a}}' }), /includes partials 10 deep/);
  });
});

describe('messages', () => {
  test('are rendered within their texts, at any depth', () => {
    const source = JSON.stringify([
      {
        role: 'user',
        content: [
          { type: 'text', text: '{{a}}' },
          { type: 'image_url', image_url: { url: '{{u}}' } },
        ],
      },
      { role: 'assistant', content: null, n: 1 },
    ]);
    assert.deepEqual(render(source, { a: 'x', u: 'https://example.com' }), [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'x' },
          { type: 'image_url', image_url: { url: 'https://example.com' } },
        ],
      },
      { role: 'assistant', content: null, n: 1 },
    ]);
  });

  test('whatever a variable holds, it stays in its text', () => {
    const source = '[{"role":"user","content":"a {{v}} b"}]';
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (v) => {
        assert.deepEqual(render(source, { v }), [{ role: 'user', content: `a ${v} b` }]);
      }),
    );
  });
});

describe('mistakes are told with line and column', () => {
  const cases: readonly [source: string, line: number, column: number, message: RegExp][] = [
    ['a\n  {{b', 2, 3, /never closed/],
    ['{{#a}}\n{{/b}}', 2, 1, /unclosed section "a"/],
    ['x {{/a}}', 1, 3, /unopened section "a"/],
    ['{{ }}', 1, 1, /names nothing/],
    ['{{a b}}', 1, 1, /no spaces/],
    ['{{=<% %>=}}', 1, 1, /delimiters/],
    [`{{${' '.repeat(600)}a}}`, 1, 1, /longer than 512/],
    ['{{#a}}'.repeat(21) + '{{/a}}'.repeat(21), 1, 121, /nested 20 deep/],
    ['[{"role":"user",\n"content":"x"]', 2, 14, /no valid JSON/],
    ['[]', 1, 1, /no message/],
    ['[{"role":"a"},\n {"content":"x"}]', 2, 2, /message 1 is no object with a "role"/],
    ['[{"role":"a","content":"{{#x}}"},\n{"role":"a","content":"{{/x}}"}]', 1, 2, /at \[0\]\.content/],
  ];
  for (const [source, line, column, message] of cases)
    test(JSON.stringify(source).slice(0, 40), () => {
      assert.throws(
        () => compilePrompt(source),
        (error: unknown) => {
          assert.ok(error instanceof TemplateError);
          assert.match(error.message, message);
          assert.deepEqual([error.line, error.column], [line, column], error.message);
          return true;
        },
      );
    });

  test('a template is read in linear time, or refused', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('{', '}', '#', '/', 'a', ' ', '\n', '=', '>') }),
        (source) => {
          try {
            compilePrompt(source);
          } catch (error) {
            assert.ok(error instanceof TemplateError, String(error));
          }
        },
      ),
    );
    assert.throws(() => compilePrompt('{{' + ' '.repeat(200_000)), TemplateError);
    assert.throws(() => compilePrompt('x'.repeat(262_145)), /262144 characters/);
  });
});
