import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { JsonObject, JsonValue } from './context.ts';
import { ChangedBody } from './request-body.ts';
import { beginsDocument, jsonRefusal } from './json-guard.ts';
import { removeAt, setAt } from './json-splice.ts';
import { largeBytes, type LargeDocument, readLargeJson } from './large-document.ts';
import { parseJson, writeJson } from '../base/json.ts';

const bounds = { maxMembers: 1_000_000, maxDepth: 60 };
const few = { numRuns: 10 };

/** Texts of which one character may stand at any edge of a piece: of one to four bytes, escaped in every way. */
const scrap = fc.constantFrom(
  'a',
  'é',
  '日',
  '😀',
  '"',
  '\\',
  '\n',
  '\u0007',
  '/',
  '\u2028',
  '\ud83d',
  ' 1234567890123456789',
);
const longText = fc
  .tuple(fc.array(scrap, { minLength: 1, maxLength: 9 }), fc.integer({ min: 200_000, max: 300_000 }))
  .map(([scraps, length]) => scraps.join('').repeat(length / scraps.join('').length));
/** Texts that become parts of a longer one, and some that are too short for it. */
const someText = fc
  .tuple(fc.array(scrap, { minLength: 1, maxLength: 9 }), fc.integer({ min: 90, max: 3000 }))
  .map(([scraps, length]) => scraps.join('').repeat(length / scraps.join('').length + 1));
const name = fc.constantFrom('model', 'a b', '5', '__proto__', 'ключ', 'say "so"', 'x\\', '');
const scalar = fc.oneof(
  fc.constantFrom<JsonValue>(null, true, 0, -1.5e-7, 12345678901234567890n, 'x', ''),
  fc.string(),
);
/** A document with lists and objects of many members, and long texts among short ones, at several depths. */
const { large } = fc.letrec<{ large: JsonValue }>((tie) => ({
  large: fc.oneof(
    { maxDepth: 2, depthSize: 'small' },
    longText,
    fc
      .tuple(fc.array(scalar, { minLength: 1, maxLength: 5 }), fc.integer({ min: 1, max: 9000 }))
      .map(([items, times]): JsonValue =>
        Array.from({ length: items.length * times }, (_, i) => items[i % items.length] as JsonValue),
      ),
    fc
      .tuple(fc.array(someText, { minLength: 1, maxLength: 5 }), name, fc.integer({ min: 1, max: 300 }))
      .map(([texts, member, times]): JsonValue =>
        Array.from({ length: texts.length * times }, (_, i): JsonValue => {
          const content = `${i} ${texts[i % texts.length] as string}`;
          if (i % 3 === 0) return content;
          return i % 3 === 1 ? [[content], i] : Object.fromEntries([[member, { content }]]);
        }),
      ),
    fc
      .integer({ min: 1, max: 9000 })
      .map((count): JsonValue =>
        Object.fromEntries(
          Array.from({ length: count }, (_, i) => [`member ${i}`, { content: 'some text', i }]),
        ),
      ),
    fc.array(tie('large'), { minLength: 1, maxLength: 2 }),
    fc.dictionary(name, tie('large'), { minKeys: 1, maxKeys: 2, noNullPrototype: true }),
  ),
}));
const document = fc
  .tuple(fc.dictionary(name, large, { maxKeys: 2, noNullPrototype: true }), large)
  .map(([members, value]): JsonObject => ({ ...members, 'long one': value, end: 'x'.repeat(largeBytes) }));
/** As it may be written: with spaces, and names and texts escaped. */
const written = fc
  .tuple(document, fc.constantFrom(undefined, 1), fc.boolean())
  .map(([value, indent, escaped]) => {
    const compact = writeJson(value);
    const text =
      indent === undefined || compact.includes('12345678901234567890')
        ? compact
        : JSON.stringify(value, null, 1);
    return escaped ? text.replaceAll('日', '\\u65e5').replaceAll('a', '\\u0061') : text;
  });

async function read(text: string): Promise<JsonValue | undefined> {
  const { refused, json } = await readLargeJson(Buffer.from(text), bounds);
  assert.equal(refused, undefined);
  return json;
}

/** The same members in the same order. */
function assertSame(actual: JsonValue | undefined, expected: JsonValue | undefined): void {
  assert.ok(writeJson(actual) === writeJson(expected), 'it says something else');
}

describe('a large JSON document', () => {
  it('says in pieces what it says at once', async () => {
    await fc.assert(
      fc.asyncProperty(written, async (text) => {
        // As it comes: halves of characters beyond 16 bits become what UTF-8 makes of them.
        const received = Buffer.from(text).toString('utf8');
        assertSame(await read(text), parseJson(received));
      }),
      few,
    );
  });

  it('that is broken somewhere is no JSON, or refused for the same reason', async () => {
    const broken = fc.tuple(
      written,
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.constantFrom('', ',', ']', '}', '"', '\\', '{', '\u0001', ' '),
      fc.integer({ min: 0, max: 2 }),
    );
    await fc.assert(
      fc.asyncProperty(broken, async ([text, where, put, cut]) => {
        const at = Math.floor(where * text.length);
        const bytes = Buffer.from(text.slice(0, at) + put + text.slice(at + cut));
        fc.pre(beginsDocument(bytes));
        const { refused, json } = await readLargeJson(bytes, bounds);
        const expected = jsonRefusal(bytes, bounds);
        assert.equal(refused?.message, expected?.message);
        if (expected === undefined) assertSame(json, parseJson(bytes.toString('utf8')));
      }),
      { numRuns: 20 },
    );
  });

  for (const [what, text] of [
    ['two commas where it is taken apart', `[${'"x",'.repeat(100_000)},"x"]`],
    ['a comma at its end', `{"a":[${'"x",'.repeat(100_000)}]}`],
    ['a bracket of the other kind', `{"a":["${'x'.repeat(400_000)}"}]`],
    ['no end', `{"a":["${'x'.repeat(400_000)}"]`],
    ['something behind it', `{"a":"${'x'.repeat(400_000)}"} {}`],
    ['a control character', `{"a":"${'x'.repeat(400_000)}\n"}`],
  ] as const) {
    it(`with ${what} is no JSON`, async () => assert.equal(await read(text), undefined));
  }

  it('lets others have their turn while it is read, however many there are', async () => {
    const message = { role: 'user', content: 'The flow over a weir. '.repeat(10) };
    const bytes = Buffer.from(JSON.stringify({ messages: Array.from({ length: 20_000 }, () => message) }));
    let turns = 0;
    let isReading = true;
    const count = (): void => {
      turns += 1;
      if (isReading) setImmediate(count);
    };
    setImmediate(count);
    await Promise.all([1, 2, 3].map(() => readLargeJson(bytes, bounds)));
    isReading = false;
    // 5 MB are checked in ten pieces, and parsed in some.
    assert.ok(turns >= 30, `${turns} turns`);
  });
});

describe('a change of a large JSON object', () => {
  const firstMessage = { role: 'user', content: 'x'.repeat(largeBytes) };
  const deep: JsonObject = {
    model: 'm',
    messages: [firstMessage, { role: 'user', content: 'é日' }],
    ключ: { a: [1, 2] },
  };
  const texts = [JSON.stringify(deep), JSON.stringify(deep, null, 2), `{ ${JSON.stringify(deep).slice(1)}`];
  const path = fc.constantFrom<(string | number)[]>(
    ...[
      ['model'],
      ['messages', 1, 'content'],
      ['messages', 2],
      ['ключ', 'a', 0],
      ['ключ', 'ä'],
      ['new'],
      ['neu ä'],
    ],
    ...[['messages', 0], ['messages'], ['ключ']],
  );
  const edit = fc.record({
    path,
    value: fc.constantFrom<JsonValue>('ü', 7, { a: '日' }, [12345678901234567890n]),
    removes: fc.boolean(),
  });

  it('says what the same change of a short one says, and leaves every other byte', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...texts), fc.array(edit, { maxLength: 6 }), async (text, edits) => {
        const read = await readLargeJson(Buffer.from(text), bounds);
        let document = read.document as LargeDocument;
        let expected = text;
        for (const { path, value, removes } of edits) {
          const change = (): string => (removes ? removeAt(expected, path) : setAt(expected, path, value));
          let changed: string;
          try {
            changed = change();
          } catch {
            assert.throws(() => document.set(path, value), RangeError);
            continue;
          }
          document = removes ? document.remove(path) : document.set(path, value);
          expected = changed;
        }
        assert.deepEqual(document.json, parseJson(document.text));
        assert.deepEqual(document.json, parseJson(expected));
        // Members that are removed and added again are put in other places; otherwise it is the same text.
        if (!edits.some(({ removes }) => removes)) assert.equal(document.text, expected);
      }),
      { numRuns: 40 },
    );
  });

  it('of one attempt is seen by that attempt alone', async () => {
    const bytes = Buffer.from(JSON.stringify(deep));
    const { document } = await readLargeJson(bytes, bounds);
    assert.ok(document);
    const base = {
      loaded: true,
      text: '',
      bytes,
      json: deep,
      outgoing: bytes,
      large: document,
      hold: () => undefined,
    };
    const body = new ChangedBody(base);
    body.replaceAll([
      { path: ['messages', 1, 'content'], value: 'ü' },
      { path: ['ключ', 'a', 1], value: 9 },
    ]);
    body.remove(['model']);
    const expected = {
      messages: [firstMessage, { role: 'user', content: 'ü' }],
      ключ: { a: [1, 9] },
    };
    assert.deepEqual([body.json, JSON.parse(body.outgoing.toString())], [expected, expected]);
    assert.equal(document.bytes, bytes);
    assert.throws(() => body.replaceAll([{ path: ['nowhere'], value: 1 }]), RangeError);
  });
});
