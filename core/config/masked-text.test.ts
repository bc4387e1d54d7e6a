import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { maskText, unmaskText } from './masked-text.ts';

const secret = 'hunter2-hunter2';
const lines = (text: string): string => maskText(text)?.text ?? 'no YAML';

describe('maskText', () => {
  test('masks literals under secret names, and keeps references', () => {
    const text = `providers:
  openai: { api_key: ${secret} }
  other: { api_key: '\${OTHER_KEY}', base_url: https://example.com/v1 } # the second
  third:
    headers: { x-team: "${secret}", authorization: 'Bearer \${file:/run/token}' }
`;
    assert.equal(
      lines(text),
      `providers:
  openai: { api_key: "***1***" }
  other: { api_key: '\${OTHER_KEY}', base_url: https://example.com/v1 } # the second
  third:
    headers: { x-team: "***2***", authorization: 'Bearer \${file:/run/token}' }
`,
    );
  });

  test('masks what hides behind another name, in an address, a default, a comment or a block', () => {
    for (const text of [
      `url: redis://user:${secret}@redis:6379`,
      `url: https://example.com/hook?sig=${secret}`,
      `api_key: '\${KEY:-${secret}}'`,
      `api_key: $\${${secret}}`,
      `value: sk-${secret}${secret}`,
      `a: 1\n# api_key: ${secret}`,
      `a: 1 #   - password = ${secret}`,
      `a: 1\n# redis://user:${secret}@redis:6379`,
      `a: 1\n# was sk-${secret}${secret}`,
      `private_key: |\n  one\n  ${secret}\nb: 1`,
      `pin_secret: 4711`,
      `"token": "${secret}"`,
    ]) {
      const masked = maskText(text);
      assert.ok(masked, text);
      assert.doesNotMatch(masked.text, /hunter2|4711/, text);
      assert.equal(masked.secrets.length, 1, text);
      assert.equal(unmaskText(masked.text, masked.secrets).text, text);
    }
  });

  test('leaves prefixes, counts of tokens and the options of the plugin auth as they are', () => {
    const text = `server: { header_prefix: x-service }
security: { key_prefix: wk_ }
pipelines:
  - plugins: [auth, { auth: { name: plain } }, { limit: { max_tokens: 400 } }]
`;
    assert.equal(lines(text), text);
  });

  test('tells nothing of a text that is no YAML', () => {
    assert.equal(maskText(`a: [\napi_key: ${secret}`), undefined);
  });
});

describe('unmaskText', () => {
  test('puts secrets back wherever their masks went, however they are quoted, and says which masks are of none', () => {
    const { text, unknown } = unmaskText(`b: '***2***'\na: "***1***"\nc: "***3***"`, ['one', '"two"']);
    assert.equal(text, `b: "two"\na: one\nc: "***3***"`);
    assert.deepEqual(unknown, [`b: '***2***'\na: "***1***"\nc: `.length]);
  });

  test('finds the places of the text with secrets in the one with masks', () => {
    const masked = 'a: "***1***"\nb: "***2***" # end';
    const { text, masked: place } = unmaskText(masked, ['x', '|\n  long\n  text']);
    for (const word of ['a:', 'b:', '# end'])
      assert.equal(place(text.indexOf(word)), masked.indexOf(word), word);
    assert.equal(place(text.indexOf('long')), masked.indexOf('"***2***"'));
  });
});
