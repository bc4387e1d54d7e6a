import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AnyCheck } from '../../../core/pipeline/plugin.ts';
import { builtIn, faults, judge, subject, verdict } from './subject.test-support.ts';

const allLowercase = builtIn('default.alllowercase');
const allUppercase = builtIn('default.alluppercase');
const characterCount = builtIn('default.characterCount');
const endsWith = builtIn('default.endsWith');
const notNull = builtIn('default.notNull');
const sentenceCount = builtIn('default.sentenceCount');
const wordCount = builtIn('default.wordCount');

const cases: [AnyCheck, object, string, string][] = [
  [sentenceCount, { maxSentences: 2 }, 'One. Two.', 'passed'],
  [sentenceCount, { maxSentences: 2 }, 'One. Two! Three', 'failed'],
  [sentenceCount, { maxSentences: 2, not: true }, 'One. Two! Three', 'passed'],
  [sentenceCount, { maxSentences: 1 }, 'It costs 3.50 dollars ...', 'passed'],
  [sentenceCount, { minSentences: 2 }, '你好。再见。', 'passed'],
  [sentenceCount, {}, '', 'skipped'],
  [wordCount, { minWords: 3, maxWords: 3 }, "it's well-known, yes", 'passed'],
  [wordCount, { minWords: 4 }, 'three words - only', 'failed'],
  [wordCount, { minWords: 4, maxWords: 4 }, '你好 wörld 1', 'passed'],
  [wordCount, { minWords: 4, not: true }, 'one', 'passed'],
  [wordCount, { maxWords: 4 }, '', 'skipped'],
  [characterCount, { minCharacters: 3, maxCharacters: 3 }, 'a😀b', 'passed'],
  [characterCount, { maxCharacters: 2 }, 'abc', 'failed'],
  [characterCount, { maxCharacters: 2, not: true }, 'abc', 'passed'],
  [characterCount, {}, '', 'skipped'],
  [allUppercase, {}, 'HELLO, WÖRLD 1', 'passed'],
  [allUppercase, {}, 'Hello', 'failed'],
  [allUppercase, { not: true }, 'Hello', 'passed'],
  [allUppercase, {}, '123', 'skipped'],
  [allLowercase, {}, 'hello, wörld 1', 'passed'],
  [allLowercase, {}, 'Hello', 'failed'],
  [allLowercase, { not: true }, 'hello', 'failed'],
  [allLowercase, { not: true }, '', 'skipped'],
  [endsWith, { suffix: 'bye' }, 'good bye', 'passed'],
  [endsWith, { suffix: 'bye' }, 'good bye.\n', 'passed'],
  [endsWith, { suffix: 'bye' }, 'bye now', 'failed'],
  [endsWith, { suffix: 'bye', not: true }, 'bye now', 'passed'],
  [endsWith, { suffix: 'bye' }, '', 'skipped'],
  [notNull, {}, 'something', 'passed'],
  [notNull, {}, ' \n', 'failed'],
  [notNull, {}, '', 'failed'],
  [notNull, { not: true }, '', 'passed'],
];
for (const [check, parameters, text, expected] of cases)
  test(`${check.id} ${JSON.stringify(parameters)} of ${JSON.stringify(text)}: ${expected}`, async () =>
    assert.equal(await verdict(check, parameters, text), expected));

describe('counts', () => {
  test('are about the last text alone', async () => {
    const judged = subject({ texts: ['a very long first text', 'short'] });
    assert.equal(await verdict(wordCount, { maxWords: 1 }, judged), 'passed');
  });

  test('say what they counted', async () => {
    assert.deepEqual((await judge(wordCount, { minWords: 2, maxWords: 5 }, 'one')).data, {
      explanation: 'The text has 1 words, which is not from 2 to 5.',
      count: 1,
      least: 2,
      most: 5,
    });
  });

  test('refuse bounds that nothing can lie between, and what they do not know', () => {
    assert.match(
      faults(wordCount, { minWords: 3, maxWords: 2 }),
      /\/minWords is 3, which is more than maxWords/,
    );
    assert.match(faults(sentenceCount, { minSentences: -1 }), /minSentences/);
    assert.match(faults(characterCount, { minWords: 1 }), /minWords/);
    assert.match(faults(endsWith, { suffix: '' }), /suffix/);
    assert.match(faults(allUppercase, { not: 'yes' }), /not/);
  });

  test('a call of a tool says something; what is no JSON is not judged', async () => {
    const called = subject({ text: '', texts: [{ type: 'tool-arguments', text: '{}' }] });
    assert.equal(await verdict(notNull, {}, called), 'passed');
    assert.equal(await verdict(notNull, {}, subject({ text: '', json: undefined })), 'skipped');
  });
});
