import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TestContext } from '../../tests/kit/plugin-kit.ts';
import { sdkOf } from './members.ts';

const stainless = (language: string, version: string) => ({
  'x-stainless-lang': language,
  'x-stainless-package-version': version,
});
const cases: [string, Readonly<Record<string, string>>, string][] = [
  ['openai-js 6.49.0', stainless('js', '6.49.0'), 'OpenAI/JS 6.49.0'],
  ['openai-python 1.99.0', stainless('python', '1.99.0'), 'AsyncOpenAI/Python 1.99.0'],
  ['anthropic-js 1.11.0', stainless('js', '1.11.0'), 'Anthropic/JS 1.11.0'],
  ['stainless-go 0.1', stainless('go', '0.1'), ''],
  ['portkey 3.1.0', { 'x-service-package-version': 'portkey-3.1.0' }, 'node'],
  ['curl 8.5.0', {}, 'curl/8.5.0'],
  ['python-httpx 0.28.1', {}, 'python-httpx/0.28.1 (linux) other/2'],
  ['node', {}, 'node'],
  ['', {}, ''],
  ['', {}, '\u0001 <script>'],
  ['curl 8.5.0', stainless('<script>', '1'), 'curl/8.5.0'],
  ['openai-js', stainless('js', '\u007f'), 'OpenAI/JS'],
];
for (const [expected, headers, agent] of cases) {
  test(`${JSON.stringify(headers)} ${JSON.stringify(agent)} is "${expected}"`, () => {
    assert.equal(sdkOf(new TestContext({ headers }), agent), expected);
  });
}

test('a long one is cut', () => {
  assert.equal(sdkOf(new TestContext({}), 'x'.repeat(500)).length, 64);
});
