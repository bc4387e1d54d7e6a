import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { AnyCheck } from '../../../core/pipeline/plugin.ts';
import { builtIn, faults, judge, subject, verdict } from './subject.test-support.ts';

const pii = builtIn('default.pii');
const secrets = builtIn('default.secrets');

const personal: [string, readonly string[]][] = [
  ['EMAIL_ADDRESS', ['ann.b+c@mail.example.com']],
  ['IBAN', ['DE89 3704 0044 0532 0130 00', 'GB29NWBK60161331926819', 'fr1420041010050500013m02606']],
  ['CREDIT_CARD', ['4111 1111 1111 1111', '378282246310005', '5555-5555-5555-4444']],
  ['SSN', ['123-45-6789', '123 45 6789']],
  [
    'NATIONAL_ID',
    [
      '12345678Z',
      'X1234567L',
      'RSSMRA85T10A562S',
      '529.982.247-25',
      '1 84 12 76 451 089 46',
      '11010519491231002X',
      '131052-308T',
      '44051401359',
      'AB 12 34 56 C',
    ],
  ],
  ['IP_ADDRESS', ['192.168.0.1', '2001:db8::ff00:42:8329']],
  ['PHONE_NUMBER', ['+49 30 1234567', '(555) 123-4567']],
];
const harmless = [
  'GB29NWBK60161331926810',
  '4111 1111 1111 1112',
  '000-45-6789',
  '123-00-6789',
  '12345678A',
  'RSSMRA85T10A562T',
  '529.982.247-26',
  '11010519491231002Y',
  '131052-308U',
  '44051401358',
  'version 1.2.3, 2026-11-25, 12:30:45, me@localhost',
];

const random = 'q7Rz2LmX9vKp4TwB8nYd6HsJ3cFg5AeU';
const keys: [string, readonly string[]][] = [
  ['PRIVATE_KEY', ['-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----']],
  ['JSON_WEB_TOKEN', ['eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl']],
  ['AWS', ['AKIAIOSFODNN7EXAMPLE', 'aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY']],
  ['GITHUB', [`ghp_${random}abcd`, `github_pat_${random}`]],
  ['GITLAB', ['glpat-abcdefghij0123456789']],
  ['SLACK', ['xoxb-123456789012-abcdefghij', 'https://hooks.slack.com/services/T0000/B0000/xxxxxxxxxxxx']],
  ['STRIPE', ['sk_live_abcdefghij0123456789']],
  ['ANTHROPIC', ['sk-ant-api03-abcdefghij0123456789']],
  ['OPENAI', ['sk-proj-abcdefghij0123456789']],
  ['GOOGLE', ['AIzaSyA1234567890abcdefghijklmnopqrstuv']],
  ['OTHER_SERVICE', ['hf_abcdefghij0123456789']],
  ['GATEWAY', ['wk_abcdefghij0123456789']],
  ['HIGH_ENTROPY', [random]],
];
const innocent = [
  'a-rather-long-identifier-made-of-words-only',
  '550e8400-e29b-41d4-a716-446655440000',
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  'the task-force of sk-learn, risk-averse',
];

for (const [check, parameter, examples, others] of [
  [pii, 'categories', personal, harmless],
  [secrets, 'kinds', keys, innocent],
] as [AnyCheck, string, [string, readonly string[]][], readonly string[]][]) {
  describe(check.id, () => {
    for (const [kind, texts] of examples) {
      for (const text of texts)
        test(`finds ${kind} in ${JSON.stringify(text.slice(0, 30))}, and does not repeat it`, async () => {
          const { verdict: said, data } = await judge(check, {}, `See: ${text}, please.`);
          assert.equal(said, 'failed');
          const { categories } = data as { categories: unknown };
          assert.deepEqual(categories, [{ category: kind, count: 1 }]);
          for (const part of text.split(/[ \n]/).filter(({ length }) => length > 3))
            assert.equal(kind.includes(part) || !JSON.stringify(data).includes(part), true);

          const redacted = subject(`See: ${text}, please.`);
          assert.equal(await verdict(check, { [parameter]: [kind], redact: true }, redacted), 'passed');
          assert.match(redacted.texts[0]?.text ?? '', new RegExp(`^See: .*\\[${kind}\\], please\\.$`));
        });
    }

    test('finds nothing in what only looks like it', async () => {
      for (const text of others) {
        const { verdict: said, data } = await judge(check, {}, `See: ${text}, please.`);
        assert.equal(said, 'passed', `${text} ${JSON.stringify(data)}`);
      }
    });

    test('not, kinds that are not asked for, no text', async () => {
      const [[first, [text = ''] = []] = [''], [second] = ['']] = examples;
      assert.equal(await verdict(check, { not: true }, text), 'passed');
      assert.equal(await verdict(check, { not: true }, 'hi'), 'failed');
      assert.equal(await verdict(check, { [parameter]: [second] }, text), 'passed');
      assert.equal(await verdict(check, { [parameter]: [first] }, text), 'failed');
      assert.equal(await verdict(check, {}, ''), 'skipped');
      assert.match(faults(check, { [parameter]: ['NAME'] }), new RegExp(parameter));
      assert.match(faults(check, { [parameter]: [] }), new RegExp(parameter));
      assert.match(faults(check, { redacted: true }), /redacted/);
    });

    test('redaction leaves nothing that it finds, in texts and in arguments that stay JSON', async () => {
      const pieces = [
        ...examples.flatMap(([, texts]) => texts),
        ...others,
        ' ',
        '-',
        ':',
        'x',
        '7',
        '\\',
        '"',
        '\n',
      ];
      const text = fc.array(fc.constantFrom(...pieces), { maxLength: 6 }).map((parts) => parts.join(''));
      const one = fc.oneof(
        text.map((value) => ({ text: value })),
        fc.dictionary(text, fc.oneof(text, fc.constant(4111111111111111))).map((value) => ({
          type: 'tool-arguments' as const,
          text: JSON.stringify(value),
        })),
      );
      await fc.assert(
        fc.asyncProperty(fc.array(one, { maxLength: 3 }), async (texts) => {
          const redacted = subject({ texts });
          await judge(check, { redact: true }, redacted);
          assert.notEqual(
            await verdict(check, {}, redacted),
            'failed',
            redacted.texts.map((each) => each.text).join(),
          );
          for (const { type, text: after } of redacted.texts)
            if (type === 'tool-arguments') assert.doesNotThrow(() => JSON.parse(after));
        }),
        { numRuns: 150 },
      );
    });

    test('takes time in proportion to hostile texts', async () => {
      for (const hostile of [
        '1',
        '1 ',
        'DE89',
        'a@',
        '1:',
        'eyJ.',
        'sk-',
        '-----BEGIN PRIVATE KEY-----',
        'aws=:',
        '12.',
      ])
        assert.notEqual(await verdict(check, {}, hostile.repeat(200_000 / hostile.length)), 'skipped');
    });
  });
}
