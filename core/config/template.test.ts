import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseTemplate, type TemplatePart } from './load-config.ts';

/** As the documentation says: `$${` stands for `${`. */
const escapeTemplate = (any: string): string => any.split('${').join('$${');
const text = (value: string): TemplatePart => ({ kind: 'text', text: value });
const variable = (name: string, fallback?: string): TemplatePart => ({ kind: 'variable', name, fallback });

describe('parseTemplate', () => {
  const cases: readonly [string, TemplatePart[]][] = [
    ['', []],
    ['plain $ text } {', [text('plain $ text } {')]],
    ['${A}', [variable('A')]],
    ['x${A}y${_b2}z', [text('x'), variable('A'), text('y'), variable('_b2'), text('z')]],
    ['${A:-}', [variable('A', '')]],
    ['${A:-http://x:1/$y:-z}', [variable('A', 'http://x:1/$y:-z')]],
    ['${file:secrets/key.txt}', [{ kind: 'file', path: 'secrets/key.txt' }]],
    ['$${A}', [text('${A}')]],
    ['$${A}${B}', [text('${A}'), variable('B')]],
    ['$$${A}', [text('$${A}')]],
    ['${A}$', [variable('A'), text('$')]],
  ];
  for (const [written, parts] of cases)
    it(`reads ${JSON.stringify(written)}`, () =>
      assert.deepEqual(parseTemplate(written), { ok: true, parts }));

  for (const [written, expected] of [
    ['${A', /has no "}"/],
    ['${}', /must hold NAME/],
    ['${a b}', /must hold NAME/],
    ['${A-B}', /must hold NAME/],
    ['${A:-${B}}', /cannot hold another/],
    ['${file:}', /names no file/],
  ] as const)
    it(`refuses ${written} without quoting it`, () => {
      const template = parseTemplate(`pa55word${written}`);
      assert.ok(!template.ok);
      assert.match(template.message, expected);
      assert.doesNotMatch(template.message, /pa55word/);
    });

  const tricky = fc.string({ unit: fc.constantFrom('$', '{', '}', ':', '-', 'A', 'é', '\n') });
  const textOf = (parts: readonly TemplatePart[]): string =>
    parts
      .map((part) => (part.kind === 'text' ? part.text : `[${part.kind === 'file' ? part.path : part.name}]`))
      .join('');

  it('reads an escaped text as itself, whatever it holds', () => {
    fc.assert(
      fc.property(fc.oneof(tricky, fc.string()), (any) => {
        const template = parseTemplate(escapeTemplate(any));
        assert.ok(template.ok);
        assert.equal(textOf(template.parts), any);
      }),
    );
  });

  it('keeps escaped texts around a variable apart from it', () => {
    // A text that ends in "$" would escape the variable; it is written as two values or with a default.
    const before = tricky.filter((any) => !any.endsWith('$'));
    fc.assert(
      fc.property(before, tricky, (left, right) => {
        const template = parseTemplate(`${escapeTemplate(left)}\${A}${escapeTemplate(right)}`);
        assert.ok(template.ok);
        assert.equal(textOf(template.parts), `${left}[A]${right}`);
      }),
    );
  });
});
