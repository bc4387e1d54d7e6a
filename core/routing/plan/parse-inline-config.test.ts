import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { compiled } from './config-kit.test-support.ts';
import { parseInlineConfig } from './read-config.ts';

function issuesOf(text: string): string[] {
  const parsed = parseInlineConfig(text);
  return parsed.ok ? [] : parsed.issues.map(({ path, message }) => `${path}: ${message}`);
}

describe('parseInlineConfig', () => {
  it('takes both spellings of keys, fills in defaults, and leaves data alone', () => {
    const text = JSON.stringify({
      overrideParams: { maxTokens: 1, max_tokens: 2 },
      requestTimeout: 5,
      targets: [{ retry: { attempts: 1, useRetryAfterHeader: true }, strict_openai_compliance: false }],
    });
    const parsed = parseInlineConfig(text);
    assert.deepEqual(parsed, {
      ok: true,
      config: {
        override_params: { maxTokens: 1, max_tokens: 2 },
        request_timeout: 5,
        weight: 1,
        targets: [
          {
            retry: { attempts: 1, use_retry_after_headers: true },
            strict_open_ai_compliance: false,
            weight: 1,
          },
        ],
      },
    });
  });

  it('keeps integers beyond 2^53', () => {
    const parsed = parseInlineConfig('{"provider":"openai","override_params":{"seed":12345678901234567890}}');
    assert.ok(parsed.ok);
    assert.equal(parsed.config.override_params?.['seed'], 12345678901234567890n);
    assert.deepEqual(compiled({ provider: 'openai' }).leaves.length, 1);
  });

  it('keeps a member named __proto__ data', () => {
    const parsed = parseInlineConfig('{"default_params":{"a":{"__proto__":{"x":1}}}}');
    assert.ok(parsed.ok);
    const { a } = parsed.config.default_params ?? {};
    assert.deepEqual(Object.keys(a as object), ['__proto__']);
  });

  const rows: [text: string, ...issues: RegExp[]][] = [
    ['{', /^config: it is no JSON object; send one object/],
    ['', /^config: it is no JSON object/],
    ['[]', /^config: it is no JSON object/],
    ['null', /^config: it is no JSON object/],
    ['{"a":1}', /^config\.a: unknown key "a"; known here:/],
    ['{"providr":"openai"}', /^config\.providr: unknown key "providr"; did you mean "provider"\?$/],
    [
      '{"max_age":1,"targets":[{"cache":{"mode":"simpel"}}]}',
      /^config\.max_age: unknown key/,
      /^config\.targets\[0\]\.cache\.mode: .*did you mean "simple"\?$/,
    ],
    ['{"options":[{}]}', /^config\.options: expected no such key: it is what older clients call "targets"/],
    ['{"strategy":{}}', /^config\.strategy\.mode: missing key "mode"/],
    [
      '{"strategy":{"mode":"loadblance"},"targets":[]}',
      /^config\.strategy\.mode: .*did you mean "loadbalance"/,
    ],
    ['{"weight":-1}', /^config\.weight: expected a number of at least 0, found -1$/],
    ['{"retry":{}}', /^config\.retry\.attempts: missing key/],
    [
      '{"retry":{"attempts":"2"}}',
      /^config\.retry\.attempts: expected a whole number of at least 0, found "2"; remove the quotes$/,
    ],
    [
      '{"retry":{"attempts":1,"use_retry_after_header":true,"use_retry_after_headers":true}}',
      /two spellings of the same key/,
    ],
    [
      '{"cb_config":{"failure_threshold":0,"cooldown_interval":29999}}',
      /^config\.cb_config\.failure_threshold: .*at least 1|from 1/,
      /^config\.cb_config\.cooldown_interval: expected a whole number from 30000/,
    ],
    [
      '{"strategy":{"mode":"fallback","on_status_codes":[42]}}',
      /^config\.strategy\.on_status_codes\[0\]: expected an HTTP status/,
    ],
    [
      '{"strategy":{"mode":"conditional","conditions":[{"query":[],"then":"a"}]}}',
      /^config\.strategy\.conditions\[0\]\.query: expected an object/,
    ],
    [
      '{"hedge":{"after_ms":10,"max":4}}',
      /^config\.hedge\.max: expected a whole number from 1 to 3, found 4$/,
    ],
    ['{"request_timeout":-1}', /^config\.request_timeout: expected a whole number from 0/],
    ['{"custom_host":"ftp://x"}', /^config\.custom_host: expected an address that begins with https/],
    ['{"forward_headers":["a b"]}', /^config\.forward_headers\[0\]: expected the name of a header/],
    ['{"targets":{}}', /^config\.targets: expected a list/],
  ];
  for (const [text, ...expected] of rows)
    it(text, () => {
      const issues = issuesOf(text);
      assert.equal(issues.length, expected.length, issues.join('\n'));
      expected.forEach((pattern, index) => assert.match(issues[index] ?? '', pattern));
    });

  it('shows no credential', () => {
    const text = '{"api_key":["sk-secret"],"targets":[{"aws_secret_access_key":12345678}]}';
    assert.doesNotMatch(issuesOf(text).join(), /sk-secret|12345678/);
    assert.equal(issuesOf(text).length, 2);
  });

  it('is bounded in bytes', () => {
    const of = (bytes: number): string => {
      const frame = JSON.stringify({ default_params: { a: '' } });
      return frame.replace('""', `"${'x'.repeat(bytes - frame.length)}"`);
    };
    assert.deepEqual(issuesOf(of(65_536)), []);
    assert.match(issuesOf(of(65_537)).join(), /^config: it is longer than 65536 bytes/);
    assert.match(issuesOf(of(65_536).replace('x', 'ü')).join(), /^config: it is longer than 65536 bytes/);
  });

  it('is bounded in depth', () => {
    const deep = (depth: number): string =>
      `{"default_params":{"a":${'['.repeat(depth)}${']'.repeat(depth)}}}`;
    assert.deepEqual(issuesOf(deep(60)), []);
    for (const depth of [100, 32_000])
      assert.match(issuesOf(deep(depth)).join(), /^config: its lists and objects are nested more than/);
  });

  it('works out a bounded number of issues', () => {
    const unknown = (count: number): string =>
      `{${Array.from({ length: count }, (_, index) => `"zz${index}":1`).join()}}`;
    const wrong = (count: number): string =>
      `{"targets":[${Array.from({ length: count }, () => '1').join()}]}`;
    assert.equal(issuesOf(unknown(1500)).length, 100);
    assert.equal(issuesOf(wrong(1500)).length, 100);
    for (const text of [unknown(5000), wrong(20_000)]) assert.equal(issuesOf(text).length, 1);
    const members = Object.fromEntries(Array.from({ length: 4000 }, (_, index) => [`p${index}`, index]));
    assert.deepEqual(issuesOf(JSON.stringify({ override_params: members })), []);
  });

  it('never throws', () => {
    const keys = fc.constantFrom(
      ...[
        'targets',
        'strategy',
        'retry',
        'cache',
        'hedge',
        'cb_config',
        'override_params',
        'options',
        'name',
      ],
      ...[
        'weight',
        'mode',
        'conditions',
        'query',
        'then',
        'input_guardrails',
        'deployments',
        'x',
        '__proto__',
      ],
    );
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 5 },
        fc.jsonValue(),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(keys, tie('value'), { maxKeys: 5 }),
      ),
    }));
    fc.assert(
      fc.property(fc.oneof(value, fc.string()), (any) => {
        const parsed = parseInlineConfig(JSON.stringify(any));
        assert.ok(parsed.ok || parsed.issues.length > 0);
      }),
      { numRuns: 500 },
    );
    fc.assert(fc.property(fc.string(), (text) => void parseInlineConfig(`{${text}`)));
  });
});
