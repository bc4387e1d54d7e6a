import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import {
  ClickHouseError,
  ClickHouseLogLevel,
  createClient,
  type ClickHouseClient,
  type ClickHouseClientConfigOptions,
} from '@clickhouse/client';
import fc from 'fast-check';
import { chdbMissing, startTestChdb } from '../chdb-fixture.ts';
import type { EmbeddedChdb } from '../start-chdb.ts';

const hostile = [
  "'; DROP TABLE kept; --",
  "\\'; DROP TABLE kept; --",
  '"quoted" `name` {other:String} {x}',
  'tab\t newline\n return\r backspace\b nul\0 bell\x07',
  String.raw`\N \0 \x41 \\ \' \t`,
  '😀 表 ‘’ “” é \u202e \uffff',
  '/* -- # $a$ */ ;',
  '',
  ' ',
  'DEFAULT',
  'NULL',
];

describe('the engine behind the HTTP interface', { skip: chdbMissing }, () => {
  let engine: EmbeddedChdb;
  let client: ClickHouseClient;
  let close: () => Promise<void>;

  before(async () => {
    ({ engine, close } = await startTestChdb());
    client = connect();
    await client.command({
      query: 'CREATE TABLE kept (id UInt64, text String) ENGINE = MergeTree ORDER BY id',
    });
  });
  after(async () => {
    await client.close();
    await close();
  });

  function connect(options: ClickHouseClientConfigOptions = {}): ClickHouseClient {
    const { url, username, password } = engine;
    return createClient({ url, username, password, log: { level: ClickHouseLogLevel.OFF }, ...options });
  }
  /** The first value of the first row; 64-bit integers as strings. */
  async function one<T>(
    query: string,
    query_params: Record<string, unknown> = {},
    clickhouse_settings: Record<string, string | number> = {},
  ): Promise<T> {
    const result = await client.query({
      query,
      query_params,
      clickhouse_settings: { output_format_json_quote_64bit_integers: 1, ...clickhouse_settings },
      format: 'JSONCompactEachRow',
    });
    return (await result.json<[T]>())[0]?.[0] as T;
  }
  const fails = (code: string, type: string) => (error: unknown) => {
    assert.ok(error instanceof ClickHouseError, String(error));
    assert.deepEqual([error.code, error.type], [code, type]);
    return true;
  };
  const raw = (path: string, authorization?: string): Promise<Response> =>
    fetch(engine.url + path, authorization === undefined ? {} : { headers: { authorization } });
  const basic = (name: string, password: string): string =>
    `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;

  test('answers pings, and nobody without the token', async () => {
    assert.deepEqual(await client.ping(), { success: true });
    assert.deepEqual(await client.ping({ select: true }), { success: true });
    const { username, password } = engine;
    for (const path of ['/ping', '/?query=SELECT%201']) {
      assert.equal((await raw(path, basic(username, password))).status, 200);
      for (const wrong of [
        undefined,
        '',
        'Bearer x',
        basic(username, ''),
        basic('default', password),
        basic(username, `${password}x`),
      ]) {
        const response = await raw(path, wrong);
        assert.equal(response.status, 401);
        assert.equal(response.headers.get('x-clickhouse-exception-code'), '516');
        assert.match(await response.text(), /^Code: 516\. DB::Exception: .*\(AUTHENTICATION_FAILED\)/);
      }
    }
  });

  test('hostile strings travel as values of every type that holds strings', async () => {
    for (const text of hostile) {
      assert.equal(await one('SELECT {x:String}', { x: text }), text);
      assert.equal(await one('SELECT {x:Nullable(String)}', { x: text }), text);
      assert.deepEqual(await one('SELECT {x:Array(String)}', { x: [text, 'b', text] }), [text, 'b', text]);
      assert.deepEqual(await one('SELECT {x:Map(String, String)}', { x: { [text]: text } }), {
        [text]: text,
      });
    }
    assert.equal(await one('SELECT count() FROM kept'), '0');
  });

  test('any string comes back as it was', async () => {
    const text = fc.string({ unit: 'binary', maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(fc.array(text, { minLength: 1, maxLength: 5 }), async (texts) => {
        assert.deepEqual(await one('SELECT {x:Array(String)}', { x: texts }), texts);
        assert.equal(await one('SELECT {x:String}', { x: texts[0] }), texts[0]);
      }),
      { numRuns: 20 },
    );
  });

  const typed: [type: string, value: unknown, sql: string, result: unknown][] = [
    ['Int64', -(2n ** 63n), 'SELECT toString({x:Int64})', '-9223372036854775808'],
    ['UInt64', 2n ** 64n - 1n, 'SELECT {x:UInt64}', '18446744073709551615'],
    ['Nullable(Int64)', null, 'SELECT {x:Nullable(Int64)}', null],
    ['Bool', true, 'SELECT {x:Bool}', true],
    ['Float64', 0.1, 'SELECT {x:Float64}', 0.1],
    [
      'DateTime64',
      new Date(1_700_000_000_123),
      "SELECT toString({x:DateTime64(3, 'UTC')})",
      '2023-11-14 22:13:20.123',
    ],
    ['Array(Int64)', [1, -2], 'SELECT toString({x:Array(Int64)})', '[1,-2]'],
    ['Array(Nullable(String))', ['a', null], 'SELECT {x:Array(Nullable(String))}', ['a', null]],
    ['Map(String, Int64)', { a: 1 }, "SELECT toString({x:Map(String, Int64)}['a'])", '1'],
    [
      'UUID',
      '018f0000-0000-7000-8000-000000000001',
      'SELECT {x:UUID}',
      '018f0000-0000-7000-8000-000000000001',
    ],
    ['Identifier', 'one', 'SELECT count() FROM system.{x:Identifier}', '1'],
  ];
  for (const [type, value, sql, result] of typed) {
    test(`binds ${type}`, async () => {
      assert.deepEqual(await one(sql, { x: value }), result);
    });
  }

  test('an identifier cannot become anything else', async () => {
    for (const name of ['kept; DROP TABLE kept', 'kept` UNION ALL SELECT 1 --', 'kept WHERE 1=0 --', '']) {
      await assert.rejects(one('SELECT count() FROM {x:Identifier}', { x: name }), ClickHouseError);
    }
    assert.equal(await one('SELECT count() FROM kept'), '0');
  });

  test('values of the wrong type are refused', async () => {
    await assert.rejects(one('SELECT {x:Int64}', { x: '1 OR 1=1' }), fails('457', 'BAD_QUERY_PARAMETER'));
    await assert.rejects(one('SELECT {x:Array(String)}', { x: "['a'); DROP TABLE kept" }), ClickHouseError);
  });

  test('parameters of one request are not seen by another', async () => {
    await Promise.all(
      Array.from({ length: 8 }, (_, x) => one('SELECT {secret:String}', { secret: String(x) })),
    );
    for (let i = 0; i < 8; i += 1) {
      await assert.rejects(one('SELECT {secret:String}'), fails('456', 'UNKNOWN_QUERY_PARAMETER'));
    }
  });

  test('requests at the same time get their own answers', async () => {
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        one('SELECT {x:String}, sleepEachRow(0.002)', { x: `value ${i}` }),
      ),
    );
    assert.deepEqual(
      answers,
      Array.from({ length: 40 }, (_, i) => `value ${i}`),
    );
  });

  test('settings reach every kind of statement and stay with it', async () => {
    const wide = "SELECT toString(getSetting('max_threads') = 3)";
    assert.equal(await one(wide, {}, { max_threads: 3 }), '1');
    const seen = await Promise.all(Array.from({ length: 8 }, () => one(wide)));
    assert.deepEqual(new Set(seen), new Set(['0']));
    const clickhouse_settings = { max_threads: 3 };
    await client.command({
      query: `CREATE TABLE made ENGINE = Memory AS ${wide} AS yes`,
      clickhouse_settings,
    });
    await client.command({ query: `INSERT INTO made ${wide}`, clickhouse_settings });
    assert.deepEqual(await one('SELECT groupArray(yes) FROM made'), ['1', '1']);
    const strict = { input_format_skip_unknown_fields: 0 } as const;
    const insert = (skip: 0 | 1): Promise<unknown> =>
      client.insert({
        table: 'kept',
        values: [{ id: 1, text: 'a', unknown: 1 }],
        format: 'JSONEachRow',
        clickhouse_settings: { ...strict, input_format_skip_unknown_fields: skip },
      });
    await assert.rejects(insert(0), fails('117', 'INCORRECT_DATA'));
    await insert(1);
    await client.command({ query: 'TRUNCATE TABLE kept' });
  });

  test('our bounds come back after a request that changed them', async () => {
    const bound = "SELECT toString(getSetting('max_execution_time'))";
    assert.equal(await one(bound, {}, { max_execution_time: 7 }), '7');
    for (let i = 0; i < 5; i += 1) assert.equal(await one(bound), '60');
  });

  test('an unknown setting is named, and the session goes on unchanged', async () => {
    for (let i = 0; i < 5; i += 1) {
      const settings = { max_threads: 3, no_such_setting: 1 };
      await assert.rejects(one('SELECT 1', {}, settings), fails('115', 'UNKNOWN_SETTING'));
    }
    for (let i = 0; i < 5; i += 1) assert.equal(await one("SELECT getSetting('max_threads') = 3"), 0);
    await assert.rejects(one('SELECT 1', {}, { 'x=1, y': 1 }), fails('115', 'UNKNOWN_SETTING'));
  });

  test('raw inserts, plain and gzip, with columns and databases', async () => {
    const zipped = connect({ database: 'other', compression: { request: true, response: true } });
    await client.command({ query: 'CREATE DATABASE other' });
    await client.command({
      query: 'CREATE TABLE other.t (id UInt64, text String) ENGINE = MergeTree ORDER BY id',
    });
    const values = Array.from({ length: 500 }, (_, id) => ({ id, text: hostile[id % hostile.length] }));
    await zipped.insert({ table: 't', values, format: 'JSONEachRow', columns: ['id', 'text'] });
    await client.insert({ table: 'other.t', values: [{ id: 500 }], format: 'JSONEachRow', columns: ['id'] });
    const result = await zipped.query({ query: 'SELECT text FROM t ORDER BY id', format: 'JSONEachRow' });
    assert.deepEqual(await result.json(), [...values.map(({ text }) => ({ text })), { text: '' }]);
    await assert.rejects(one('SELECT count() FROM t'), fails('60', 'UNKNOWN_TABLE'));
    await zipped.close();
  });

  test('a deduplication token makes a retried insert harmless', async () => {
    await client.command({
      query:
        'CREATE TABLE once (id UInt64) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 1000',
    });
    for (const token of ['a', 'a', 'b', 'a']) {
      const clickhouse_settings = { insert_deduplication_token: token, async_insert: 0 } as const;
      await client.insert({ table: 'once', values: [{ id: 1 }], format: 'JSONEachRow', clickhouse_settings });
    }
    assert.equal(await one('SELECT count() FROM once'), '2');
  });

  test('inserts are on disk before they are acknowledged', async () => {
    const query = "SELECT count() FROM system.merge_tree_settings WHERE name LIKE 'fsync_%' AND value = '1'";
    assert.equal(await one(query), '2');
  });

  test('the statement names the format, else the query string does', async () => {
    const authorization = basic(engine.username, engine.password);
    const text = async (search: string): Promise<string> => (await raw(`/?${search}`, authorization)).text();
    assert.equal(await text('query=SELECT+1+AS+a'), '1\n');
    assert.equal(await text('query=SELECT+1+AS+a&default_format=JSONEachRow'), '{"a":1}\n');
    assert.equal(await text('query=SELECT+1+AS+a+FORMAT+CSV&default_format=JSONEachRow'), '1\n');
    const settings = { output_format_json_quote_64bit_integers: 0 } as const;
    assert.equal(await one('SELECT toUInt64(7)', {}, settings), 7);
    assert.equal(await one('SELECT toUInt64(7)', {}, { output_format_json_quote_64bit_integers: 1 }), '7');
  });

  test('errors carry status, header and text as on a server', async () => {
    await assert.rejects(one('SELECT * FROM nowhere'), fails('60', 'UNKNOWN_TABLE'));
    await assert.rejects(one('SELEC 1'), fails('62', 'SYNTAX_ERROR'));
    await assert.rejects(one('SELECT 1; DROP TABLE kept'), fails('62', 'SYNTAX_ERROR'));
    const response = await raw(
      '/?query=SELECT+*+FROM+nowhere&query_id=my-id',
      basic(engine.username, engine.password),
    );
    assert.equal(response.status, 404);
    assert.equal(response.headers.get('x-clickhouse-exception-code'), '60');
    assert.equal(response.headers.get('x-clickhouse-query-id'), 'my-id');
  });

  test('a statement that takes too long or too much is ended by the engine', async () => {
    const endless = 'SELECT sum(cityHash64(number)) FROM numbers(1000000000000)';
    await assert.rejects(one(endless, {}, { max_execution_time: 0.3 }), fails('159', 'TIMEOUT_EXCEEDED'));
    const greedy = 'SELECT length(groupArray(number)) FROM numbers(100000000)';
    await assert.rejects(
      one(greedy, {}, { max_memory_usage: 20_000_000 }),
      fails('241', 'MEMORY_LIMIT_EXCEEDED'),
    );
    const large = 'SELECT repeat(toString(number), 100) FROM numbers(3000000)';
    const room = { max_memory_usage: 400_000_000 };
    await assert.rejects(one(large, {}, room), fails('396', 'TOO_MANY_ROWS_OR_BYTES'));
  });

  test('a client that leaves takes its statements with it', { timeout: 20_000 }, async () => {
    const leaving = new AbortController();
    const query = 'SELECT sum(cityHash64(number)) FROM numbers(99999999999999)';
    const lost = Array.from({ length: 6 }, () =>
      client.query({ query, abort_signal: leaving.signal }).then(
        () => 'answered',
        () => 'aborted',
      ),
    );
    await delay(200);
    leaving.abort();
    assert.deepEqual(new Set(await Promise.all(lost)), new Set(['aborted']));
    // Answered only when a session is free again, which needs one of the statements above to have ended.
    const others =
      "SELECT count() FROM system.processes WHERE query LIKE '%cityHash64%' AND query NOT LIKE '%processes%'";
    while ((await one(others)) !== '0') await delay(50);
  });
});
