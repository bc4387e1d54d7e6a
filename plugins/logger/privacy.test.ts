import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { callerKey } from '../../core/pipeline/keys.ts';
import type { Outcome } from '../../core/pipeline/context.ts';
import type { RequestFacts } from '../../core/pipeline/facts.ts';
import { withoutStore } from '../../core/organisation/without-store.ts';
import { defaultSecurity, type SecuritySettings } from '../../core/ports/organisation-settings.ts';
import type { BodyRow, RequestRow } from '../../core/ports/request-row.ts';
import {
  optionErrors,
  TestContext,
  testKey,
  testOutcome,
  testScope,
  type TestRequest,
} from '../../tests/kit/plugin-kit.ts';
import logger from './index.ts';

interface Setup {
  readonly options?: object;
  readonly request?: TestRequest;
  readonly facts?: Partial<RequestFacts>;
  readonly mode?: SecuritySettings['logging']['mode'];
  readonly logBodies?: boolean;
}

async function log(
  outcome: Partial<Outcome>,
  { options = {}, request = {}, facts = {}, mode, logBodies }: Setup = {},
) {
  const { scope, journal } = testScope();
  const directory = {
    ...scope.directory,
    ...withoutStore,
    settingsIn: (organisationId: string, workspaceId: string) => {
      assert.deepEqual([organisationId, workspaceId], ['org-1', 'ws-1']);
      return { ...defaultSecurity, logging: { mode: mode ?? 'full' } };
    },
  };
  const hooks = await logger.create(options, { ...scope, directory });
  const context = new TestContext(request);
  Object.assign(context.facts, { organisationId: 'org-1', workspaceId: 'ws-1', ...facts });
  if (logBodies !== undefined) context.set(callerKey, testKey({ defaults: { logBodies } }));
  await hooks.settled?.(context, testOutcome(outcome));
  const [row] = journal.rows<Partial<RequestRow>>('requests');
  assert.ok(row, 'the row is always kept');
  for (const line of [...journal.lines.requests, ...journal.lines.bodies]) assert.ok(!line.includes('\n'));
  return { row, body: journal.rows<BodyRow>('bodies')[0], lines: journal.lines, owners: journal.owners };
}

const bodies = {
  requestBody: Buffer.from('{"messages":[{"role":"user","content":"I am ann@example.com"}],"user":"u1"}'),
  responseBody: Buffer.from('{"choices":[{"message":{"content":"Hello ann@example.com"}}]}'),
  requestIsJson: true,
  responseIsJson: true,
};

describe('what is kept: the strictest wins', () => {
  const off = { headers: { 'x-service-debug': 'false' } };
  const on = { headers: { 'x-service-debug': 'true' } };
  const cases: [boolean, string, Setup][] = [
    [true, 'nobody says anything', {}],
    [true, 'everybody says yes', { options: { bodies: true }, request: on, mode: 'full', logBodies: true }],
    [false, 'the workspace says metadata', { mode: 'metadata' }],
    [
      false,
      'the workspace says metadata and everybody else yes',
      { request: on, mode: 'metadata', logBodies: true },
    ],
    [false, 'the key says no', { logBodies: false, request: on }],
    [false, 'the request says no', { request: off, logBodies: true }],
    [false, 'the configuration says no', { options: { bodies: false }, request: on, logBodies: true }],
  ];
  for (const [kept, name, setup] of cases) {
    test(`${name}: ${kept ? 'bodies' : 'the row alone'}`, async () => {
      assert.equal((await log(bodies, setup)).body !== undefined, kept);
    });
  }

  test('rows share the room of the journal by their workspace', async () => {
    assert.deepEqual((await log(bodies)).owners, ['ws-1', 'ws-1']);
  });
});

describe('redaction', () => {
  const email = { redact: [{ pattern: 'email', replacement: '<mail>' }] };

  test('paths and patterns, in both bodies', async () => {
    const redact = [{ path: 'messages[*].content' }, { pattern: 'email', replacement: '<mail>' }];
    const { body } = await log(bodies, { options: { redact } });
    assert.deepEqual(
      [body?.request, body?.response, body?.log_format],
      [
        '{"messages":[{"role":"user","content":"[redacted]"}],"user":"u1"}',
        '{"choices":[{"message":{"content":"Hello <mail>"}}]}',
        'json',
      ],
    );
  });

  test('a streamed answer', async () => {
    const event = (text: string): string => `data: {"choices":[{"delta":{"content":"${text}"}}]}\n\n`;
    const { body } = await log(
      {
        ...bodies,
        responseIsJson: false,
        responseContentType: 'text/event-stream',
        responseBody: Buffer.from(`${event('Mail ann@')}${event('example.com!')}data: [DONE]\n\n`),
      },
      { options: email },
    );
    assert.equal(body?.log_format, 'sse');
    assert.equal(body.response, `${event('Mail <mail>')}${event('!')}data: [DONE]\n\n`);
  });

  test('metadata, error message, path and decision of the row', async () => {
    const { row, lines } = await log(
      {
        kind: 'refused',
        status: 400,
        error: new GatewayError('invalid_request', 'No ann@example.com here.'),
      },
      {
        options: { redact: [...email.redact, { path: 'metadata.team', replacement: '-' }] },
        request: { path: '/v1/users/ann@example.com/files' },
        facts: {
          metadata: { _user: 'ann@example.com', team: 'red', other: 'x' },
          decision: '{"because":"metadata._user is ann@example.com"}',
        },
      },
    );
    assert.deepEqual(row.metadata, { _user: '<mail>', team: '-', other: 'x' });
    assert.deepEqual(
      [row.error_message, row.decision],
      ['No <mail> here.', '{"because":"metadata._user is <mail>"}'],
    );
    assert.match(row.path ?? '', /<mail>/);
    assert.ok(!lines.requests.join('').includes('ann@'));
  });

  test('all metadata at once', async () => {
    const { row } = await log(
      {},
      { options: { redact: [{ path: 'metadata' }] }, facts: { metadata: { a: '1', b: '2' } } },
    );
    assert.deepEqual(row.metadata, { a: '[redacted]', b: '[redacted]' });
  });

  test('expressions of RE2, also with flags and across the escapes of JSON', async () => {
    const redact = [{ expression: '(?i)emp-[0-9]{3}', replacement: '#' }, { expression: 'line\\nbreak' }];
    const requestBody = Buffer.from(String.raw`{"a":"EMP-123 emp-4567","b":"a line\nbreak"}`);
    const { body } = await log({ ...bodies, requestBody }, { options: { redact } });
    assert.equal(body?.request, '{"a":"# #7","b":"a [redacted]"}');
  });

  test('a body that was cut keeps no half of what is found only whole', async () => {
    const text = `${'x'.repeat(1000)} ann@example.com`;
    const requestBody = Buffer.from(JSON.stringify({ text }));
    const { body } = await log({ ...bodies, requestBody }, { options: { ...email, max_body_bytes: 1024 } });
    assert.equal(body?.request_truncated, true);
    assert.equal(body.request, `{"text":"${'x'.repeat(1000)} `);
  });

  test('a body that is no text is not kept: what cannot be read cannot be searched', async () => {
    const requestBody = Buffer.from([0xff, 0xd8, 0xff, 0xe0]);
    const { body } = await log({ ...bodies, requestBody, requestIsJson: false }, { options: email });
    assert.deepEqual([body?.request, body?.request_truncated], ['', true]);
  });

  test('a compressed answer is read', async () => {
    const { gzipSync } = await import('node:zlib');
    const { body } = await log(
      {
        ...bodies,
        responseIsJson: false,
        responseContentEncoding: 'gzip',
        responseBody: gzipSync(bodies.responseBody),
      },
      { options: email },
    );
    assert.ok(body?.response.includes('Hello <mail>'));
  });

  test('a long body is redacted whole, in slices', async () => {
    const messages = Array.from({ length: 3000 }, (_, n) => ({
      content: `ann-${n}@example.com wrote EMP-${n}`,
    }));
    const requestBody = Buffer.from(JSON.stringify({ messages }));
    const redact = [...email.redact, { expression: 'EMP-[0-9]+' }];
    const { body } = await log({ ...bodies, requestBody }, { options: { redact } });
    assert.ok(body);
    assert.ok(body.request.includes('<mail> wrote [redacted]'));
    assert.doesNotMatch(body.request, /@|EMP-/);
  });
});

describe('options', () => {
  test('what is no rule is refused with its place', () => {
    assert.equal(
      optionErrors(logger, { redact: [{ path: 'a.b[*]' }, { pattern: 'ip_address' }, { expression: 'x+' }] }),
      '',
    );
    for (const rule of [
      {},
      { path: 'a..b' },
      { pattern: 'mail' },
      { path: 'a', pattern: 'email' },
      { paths: 'a' },
    ])
      assert.match(optionErrors(logger, { redact: [rule] }), /\/redact\/0/, JSON.stringify(rule));
  });

  for (const expression of ['(?=x)', '(a)\\1', '[', 'a{1001}']) {
    test(`${expression} is no expression of RE2`, async () => {
      const rules = { redact: [{ pattern: 'email' as const }, { expression }, { expression: 'x+' }] };
      const faults = await logger.check?.(rules);
      assert.deepEqual(
        faults?.map(({ path }) => path),
        ['/redact/1/expression'],
      );
      assert.match(faults[0]?.message ?? '', /^this is no regular expression of RE2 \(/);
    });
  }
});
