import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { builtIn, faults, judge, subject, verdict } from './subject.test-support.ts';

const contains = builtIn('default.contains');
const regexMatch = builtIn('default.regexMatch');
const regexReplace = builtIn('default.regexReplace');

const call = (text: string) => ({ role: 'assistant', type: 'tool-arguments', text }) as const;

describe('regexMatch', () => {
  const cases: [string, object, string, string][] = [
    ['is found', { rule: 'b+' }, 'abba', 'passed'],
    ['is not found', { rule: 'x' }, 'abba', 'failed'],
    ['is not found, which is wanted', { rule: 'x', not: true }, 'abba', 'passed'],
    ['is found, which is not wanted', { rule: 'b', not: true }, 'abba', 'failed'],
    ['flags', { rule: '/ABBA/gi' }, 'abba', 'passed'],
    ['a slash that is no flag', { rule: '/v1/chat' }, 'GET /v1/chat', 'passed'],
    ['no text', { rule: 'x', not: true }, '', 'skipped'],
  ];
  for (const [name, parameters, text, expected] of cases)
    test(name, async () => assert.equal(await verdict(regexMatch, parameters, text), expected));

  test('looks at every text', async () => {
    const both = subject({ texts: ['secret', 'hi'] });
    assert.equal(await verdict(regexMatch, { rule: 'secret', not: true }, both), 'failed');
  });

  test('looks at strings of tool arguments as they are meant', async () => {
    const escaped = subject({ texts: [call('{"a":["\\u0073ecret"]}')] });
    assert.equal(await verdict(regexMatch, { rule: 'secret', not: true }, escaped), 'failed');
  });

  test('says what an expression cannot be', () => {
    assert.match(faults(regexMatch, { rule: '(?<=a)b' }), /\/rule looks ahead or behind/);
    assert.match(faults(regexMatch, { rule: '(' }), /\/rule is no valid regular expression/);
    assert.match(faults(regexMatch, { rule: '/a/y' }), /\/rule has the flag "y"/);
    assert.match(faults(regexMatch, { rule: '(?:a{30}){300}' }), /is too large/);
    assert.match(faults(regexMatch, { rule: 'a', nto: true }), /nto/);
    assert.match(faults(regexMatch, {}), /rule/);
  });

  test('reaches as far as its longest match, where a match alone decides', () => {
    assert.equal(regexMatch.reach?.({ rule: '[a-z]{1,20}', not: true }), 20);
    for (const rule of ['[a-z]+', '^a', 'a$', '\\ba'])
      assert.equal(regexMatch.reach?.({ rule, not: true }), Infinity);
    assert.equal(regexMatch.reach?.({ rule: 'a' }), Infinity);
    assert.equal(regexMatch.reach?.({ rule: '[^a]\\$', not: true }), 3);
  });
});

describe('regexReplace', () => {
  test('replaces everything in every text and passes', async () => {
    const judged = subject({ texts: ['a1b22', 'none', call('{"n":333,"s":"4\\n","k5":true}')] });
    const { verdict: said, data } = await judge(regexReplace, { rule: '[0-9]+' }, judged);
    assert.equal(said, 'passed');
    assert.deepEqual(data, { explanation: 'What the expression finds was replaced.', count: 5 });
    assert.deepEqual(
      judged.texts.map(({ text }) => text),
      ['a[REDACTED]b[REDACTED]', 'none', '{"n":"[REDACTED]","s":"[REDACTED]\\n","k[REDACTED]":true}'],
    );
  });

  test('replaces with the text itself', async () => {
    const judged = subject('my card');
    await judge(regexReplace, { rule: '/CARD/i', redactText: '$1$&' }, judged);
    assert.equal(judged.texts[0]?.text, 'my $1$&');
  });

  test('leaves texts as they are where nothing is found', async () => {
    const judged = subject({ texts: [call('{ "a" : 1.0 }')] });
    assert.equal(await verdict(regexReplace, { rule: 'x', failOnDetection: true }, judged), 'passed');
    assert.equal(judged.texts[0]?.text, '{ "a" : 1.0 }');
  });

  test('fails on detection when it is told to', async () => {
    assert.equal(await verdict(regexReplace, { rule: 'x', failOnDetection: true }, 'x'), 'failed');
    assert.equal(await verdict(regexReplace, { rule: 'x' }, ''), 'skipped');
  });

  test('refuses what cannot run', () => {
    assert.match(faults(regexReplace, { rule: '(a)\\1' }), /back-reference/);
    assert.match(faults(regexReplace, { rule: 'a', redactText: 1 }), /redactText/);
  });

  test('leaves no match, whatever the texts are', async () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '1', '2', '\\', '"', '{', ' ', '😀') });
    const one = fc.oneof(
      text.map((value) => ({ text: value })),
      fc.array(fc.dictionary(text, text)).map((value) => call(JSON.stringify(value))),
      text.map((value) => call(value)),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(one), fc.constantFrom('[12]+', 'a|1', '/B\\s?1/i'), async (texts, rule) => {
        const judged = subject({ texts });
        const before = judged.texts;
        await judge(regexReplace, { rule, redactText: '_' }, judged);
        for (const [index, { text: after }] of judged.texts.entries()) {
          const alone = subject({ texts: [{ ...before[index], text: after }] });
          assert.notEqual(await verdict(regexMatch, { rule, not: true }, alone), 'failed', after);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe('contains', () => {
  const words = ['one', 'two'];
  const cases: [string, object, string, string][] = [
    ['any: one is there', { words }, 'one', 'passed'],
    ['any: none is there', { words }, 'three', 'failed'],
    ['all: both', { words, operator: 'all' }, 'two one', 'passed'],
    ['all: one is missing', { words, operator: 'all' }, 'two', 'failed'],
    ['all: a word that is given twice', { words: ['one', 'one'], operator: 'all' }, 'one', 'passed'],
    ['none: none', { words, operator: 'none' }, 'three', 'passed'],
    ['none: one is there', { words, operator: 'none' }, 'stone', 'failed'],
    ['letter case counts', { words, operator: 'none' }, 'ONE', 'passed'],
    ['letter case does not count', { words, operator: 'none', caseSensitive: false }, 'ONE', 'failed'],
    ['no text', { words, operator: 'none' }, '', 'skipped'],
  ];
  for (const [name, parameters, text, expected] of cases)
    test(name, async () => assert.equal(await verdict(contains, parameters, text), expected));

  test('looks at every text', async () => {
    const both = subject({ texts: ['one', 'two'] });
    const { verdict: said, data } = await judge(contains, { words, operator: 'all' }, both);
    assert.equal(said, 'passed');
    assert.deepEqual((data as { readonly foundWords?: unknown }).foundWords, words);
  });

  test('parameters and reach', () => {
    assert.match(faults(contains, { words: [] }), /words/);
    assert.match(faults(contains, { words, operator: 'some' }), /operator/);
    assert.equal(contains.reach?.({ words: ['a', 'abc'], operator: 'none' }), 3);
    assert.equal(contains.reach?.({ words: ['a', 'abc'] }), Infinity);
  });
});
