import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { RequestContext } from './context.ts';
import type { StreamEvent } from './plugin.ts';
import { findLinearly } from '../base/linear-pattern.ts';
import { redactor, type Redactor, type RedactorRule } from './redactor.ts';

function compiled(rules: readonly RedactorRule[]): Redactor {
  const made = redactor(rules);
  if (typeof made === 'string') throw new Error(made);
  return made;
}

type Wire = 'openai-chat' | 'anthropic-messages' | 'google-gemini';

/** What leaves when these events come. */
function through(redaction: Redactor, events: readonly StreamEvent[], dialect: Wire): StreamEvent[] {
  const out: StreamEvent[] = [];
  const emit = (event: StreamEvent): void => void out.push(event);
  const context = { endpoint: { id: 'proxy', dialect, modelled: true } };
  const tap = redaction.stream(context as RequestContext);
  for (const event of events) void tap.event(event, emit);
  void tap.end?.(emit);
  return out;
}

const textOf = (events: readonly StreamEvent[]): string =>
  events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('');

const said = (pieces: readonly string[]): StreamEvent[] =>
  pieces.map((text) => ({ type: 'text-delta', choice: 0, text }));

/** Every way of cutting a text of up to ten units into pieces. */
function* cuttings(text: string): Generator<string[]> {
  for (let mask = 0; mask < 2 ** Math.max(0, text.length - 1); mask += 1) {
    const pieces: string[] = [];
    let from = 0;
    for (let at = 1; at <= text.length; at += 1) {
      if (at < text.length && (mask & (1 << (at - 1))) === 0) continue;
      pieces.push(text.slice(from, at));
      from = at;
    }
    yield pieces;
  }
}

/** Expressions with matches of a greatest length, over few letters so that texts hold what is almost a match. */
const pattern = fc.oneof(
  fc.constantFrom('ab', 'a{1,3}b', '(?i)aB', '\\bab', 'ab\\b', '\\b[ab]{2}\\b', 'a.b', '^a', 'a$', '(?m)^b'),
  fc.constantFrom(
    '(?:ab){1,2}c?',
    'a{1,2}?b',
    'a|ab',
    'ab|a',
    '[^a]b',
    '(?:a|b ){1,3}c',
    '🌊a',
    '\\x61b',
    '[🌊a]{2}',
  ),
);
const letters = fc.array(fc.constantFrom('a', 'b', 'c', ' ', '\n', 'A', '🌊'), { maxLength: 24 });
const rules = fc.array(fc.record({ pattern, replacement: fc.constantFrom('', '#', 'ab', '[a b]') }), {
  minLength: 1,
  maxLength: 3,
});

describe('a redactor', () => {
  test('takes out of a stream, however it is cut, what it takes out of the whole', () => {
    fc.assert(
      fc.property(rules, letters, fc.array(fc.nat(30), { maxLength: 12 }), (some, text, cuts) => {
        const whole = text.join('');
        const redaction = compiled(some);
        const places = [...new Set(cuts.map((cut) => Math.min(cut, whole.length)))].sort((a, b) => a - b);
        const pieces = [0, ...places].map((from, i) => whole.slice(from, places[i] ?? whole.length));
        for (const wire of ['openai-chat', 'anthropic-messages', 'google-gemini'] as const)
          assert.equal(textOf(through(redaction, said(pieces), wire)), redaction.text(whole));
      }),
      { numRuns: 400 },
    );
  });

  test('one rule replaces what the engine finds in the whole text', () => {
    fc.assert(
      fc.property(pattern, letters, (source, text) => {
        const find = findLinearly(source, 1000);
        assert.ok(typeof find !== 'string');
        const whole = text.join('');
        let wanted = '';
        let from = 0;
        for (const { start, end } of find(whole)) {
          wanted += `${whole.slice(from, start)}#`;
          from = end;
        }
        assert.equal(
          compiled([{ pattern: source, replacement: '#' }]).text(whole),
          wanted + whole.slice(from),
        );
      }),
      { numRuns: 400 },
    );
  });

  test('every way of cutting one text gives the same, and holds back no more than it says', () => {
    const redaction = compiled([
      { pattern: '\\b[0-9]{3}-[0-9]{2}\\b', replacement: '[id]' },
      { pattern: '🌊' },
    ]);
    const text = 'x 123-45🌊 1';
    for (const pieces of cuttings(text)) {
      const out = through(redaction, said(pieces), 'openai-chat');
      assert.equal(textOf(out), 'x [id][redacted] 1', pieces.join('|'));
    }
    assert.equal(redaction.longest, 7);
    const long = 'z'.repeat(100);
    const early = through(redaction, said([long]), 'openai-chat')[0];
    assert.ok(early?.type === 'text-delta' && early.text.length >= 100 - redaction.longest);
  });

  test('long matches are held back as long as it says, and found however the text comes', () => {
    const redaction = compiled([{ pattern: 'sk-[a-z]{5,200}', replacement: '#' }]);
    assert.equal(redaction.longest, 204 + 25);
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 90 }), { maxLength: 30 }),
        fc.nat(700),
        (sizes, place) => {
          const filler = 'word '.repeat(140);
          const text = `${filler.slice(0, place)}sk-${'k'.repeat(150)}${filler.slice(place)}`;
          const taken = (/sk-[a-z]{5,200}/.exec(text)?.[0] ?? '').length - 1;
          const pieces: string[] = [];
          let at = 0;
          for (const size of sizes) pieces.push(text.slice(at, (at += size)));
          pieces.push(text.slice(at));
          let came = 0;
          const tap = redaction.stream({ endpoint: { dialect: 'openai-chat' } } as RequestContext);
          let out = '';
          const emit = (event: StreamEvent): void => void (out += 'text' in event ? event.text : '');
          for (const piece of pieces) {
            void tap.event({ type: 'text-delta', choice: 0, text: piece }, emit);
            came += piece.length;
            const left = out.length + (out.includes('#') ? taken : 0);
            assert.ok(came - left <= redaction.longest, `${came - left} are held back`);
          }
          void tap.end?.(emit);
          assert.equal(out, redaction.text(text));
        },
      ),
    );
  });

  test('what ends a text gives out what is held: its finish everywhere, another kind where the wire has blocks', () => {
    const redaction = compiled([{ pattern: 'secret' }]);
    const events: StreamEvent[] = [
      { type: 'text-delta', choice: 0, text: 'sec' },
      { type: 'tool-arguments-delta', choice: 0, call: 1, id: 'c', name: 'find', text: '' },
      { type: 'tool-arguments-delta', choice: 0, call: 1, text: '{"q":"a sec' },
      { type: 'tool-arguments-delta', choice: 0, call: 1, text: 'ret"}' },
      { type: 'text-delta', choice: 0, text: 'ret' },
      { type: 'finish', choice: 0, reason: 'stop' },
    ];
    const calls = (out: readonly StreamEvent[]): string =>
      out.map((event) => (event.type === 'tool-arguments-delta' ? event.text : '')).join('');
    const chat = through(redaction, events, 'openai-chat');
    assert.deepEqual([textOf(chat), calls(chat)], ['[redacted]', '{"q":"a [redacted]"}']);
    assert.equal(chat.at(-1)?.type, 'finish');
    const blocks = through(redaction, events, 'anthropic-messages');
    assert.deepEqual([textOf(blocks), calls(blocks)], ['secret', '{"q":"a [redacted]"}']);
    assert.deepEqual(blocks[0], { type: 'text-delta', choice: 0, text: 'sec' });
    assert.deepEqual(blocks[1], events[1]);
  });

  test('what is put into arguments is part of their JSON', () => {
    const redaction = compiled([{ pattern: 'secret', replacement: '"\\' }]);
    const out = through(
      redaction,
      [{ type: 'tool-arguments-delta', choice: 0, call: 0, name: 'find', text: '{"q":"secret"}' }],
      'google-gemini',
    );
    assert.deepEqual(out, [
      { type: 'tool-arguments-delta', choice: 0, call: 0, name: 'find', text: '{"q":"\\"\\\\"}' },
    ]);
  });

  const refused: readonly (readonly [string, RegExp])[] = [
    ['sk-[a-z]+', /^the pattern of rule 1 has matches of any length .*"\{1,200\}" in place of "\+"$/],
    ['(?:a{2,}b){3}', /has matches of any length/],
    ['a*', /has matches of any length/],
    ['\\x61?', /matches the empty text/],
    ['(?i)', /matches the empty text/],
    ['\\b', /matches the empty text/],
    ['a|', /matches the empty text/],
    ['(?:a?b?){3}', /matches the empty text/],
    ['(?<=a)b', /looks ahead or behind/],
    ['(a)\\1', /has a back-reference/],
    ['(', /is no valid regular expression/],
    ['(?:[^x]{1,1000}){3}', /is too large|UTF-16 units, and 4096 is the most/],
  ];
  for (const [source, expected] of refused) {
    test(`refuses ${source}`, () => {
      const made = redactor([{ pattern: 'fine' }, { pattern: source }]);
      assert.ok(typeof made === 'string');
      assert.match(made, expected);
    });
  }

  const lengths: readonly (readonly [string, number])[] = [
    ['abc', 3],
    ['(?i)a(b|cde|)f{2,4}', 8],
    ['[0-9]{3}-[[:alpha:]]{2}', 6],
    ['.{2}', 4],
    ['[^a]\\D\\pL', 6],
    ['\\x{1F30A}\\x41\\n\\b$', 4],
    ['(?P<name>a{1,2}?)(?:b)', 3],
    ['🌊{2}', 4],
  ];
  for (const [source, longest] of lengths) {
    test(`${source} has matches of up to ${longest} units`, () => {
      assert.equal(compiled([{ pattern: source }]).longest, longest + 1);
    });
  }
});
