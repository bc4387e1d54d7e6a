import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readStatement, sqlTokens, EngineError } from './statement.ts';

const texts = (sql: string): string[] => [...sqlTokens(sql)].map((token) => token.text);

const table: [name: string, sql: string, tokens: string[]][] = [
  ['words and symbols', 'SELECT a1+b_2', ['SELECT', 'a1', '+', 'b_2']],
  ['backslash before a quote', String.raw`'a\'b' c`, [String.raw`'a\'b'`, 'c']],
  ['backslash before the end', String.raw`'a\\' b`, [String.raw`'a\\'`, 'b']],
  ['doubled quote', "'it''s' b", ["'it''s'", 'b']],
  ['quoted names', '"a;b" `c``d`', ['"a;b"', '`c``d`']],
  ['line comments', "a -- it's ; \nb # x ;\nc #! y\nd", ['a', 'b', 'c', 'd']],
  ['nested block comment', 'a /* b /* c */ d ; */ e', ['a', 'e']],
  ['heredoc', "$x$ ; ' $x$ b", ["$x$ ; ' $x$", 'b']],
  ['curly quotes', '‘a;b’ “c;d” e', ['‘a;b’', '“c;d”', 'e']],
  ['unclosed string', "a 'b ; c", ['a', "'b ; c"]],
  ['unclosed comment', 'a /* b', ['a']],
  ['letters beyond ASCII', 'größe 表', ['größe', '表']],
];
for (const [name, sql, tokens] of table) {
  test(`tokens: ${name}`, () => assert.deepEqual(texts(sql), tokens));
}

test('tokens: any text ends, in order and without overlap', () => {
  const piece = fc.constantFrom(
    "'",
    '"',
    '`',
    '\\',
    '/*',
    '*/',
    '--',
    '\n',
    '$',
    '$a$',
    ';',
    '{a:String}',
    'x',
    '“',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const sql = pieces.join('');
      let at = 0;
      for (const token of sqlTokens(sql)) {
        assert.ok(token.start >= at && token.text.length > 0);
        at = token.start + token.text.length;
      }
      assert.ok(at <= sql.length);
    }),
  );
});

test('placeholders are found outside strings, names and comments only', () => {
  const sql =
    "SELECT {a:String}, { b : Array(String) }, '{c:String}', `{d:String}` -- {e:String}\n/* {f:String} */ {'g':1}";
  assert.deepEqual([...readStatement(sql).placeholders], ['a', 'b']);
});

test('a final semicolon goes; a second statement is refused', () => {
  assert.equal(readStatement("SELECT ';' ; -- end\n;").sql, "SELECT ';' ");
  for (const sql of ['SELECT 1; SELECT 2', "SELECT '' ; DROP TABLE requests --", '', ' ; ', '-- nothing']) {
    assert.throws(
      () => readStatement(sql),
      (error) => error instanceof EngineError && error.engineCode === 62,
    );
  }
});

const inserts: [sql: string, target: unknown][] = [
  ['INSERT INTO t FORMAT JSONEachRow', { table: 't', columns: undefined, format: 'JSONEachRow' }],
  ['insert into table `d`."t" (a, `b`)\nformat CSV;', { table: 'd.t', columns: ['a', 'b'], format: 'CSV' }],
  ['INSERT INTO t VALUES (1)', undefined],
  ['INSERT INTO t SELECT 1', undefined],
  ['INSERT INTO t SETTINGS a = 1 FORMAT CSV', undefined],
  ['INSERT INTO `a b` FORMAT CSV', undefined],
  ['INSERT INTO t (a, FORMAT CSV', undefined],
  ['INSERT INTO t FORMAT JSONEachRow {"a":1}', undefined],
  ['SELECT 1 FORMAT CSV', undefined],
];
for (const [sql, target] of inserts) {
  test(`insert target of ${JSON.stringify(sql)}`, () => assert.deepEqual(readStatement(sql).insert, target));
}
