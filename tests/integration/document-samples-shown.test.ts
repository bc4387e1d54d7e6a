// Blocks of the documents that show what another program is told, or what a gateway says in a case that no command of the page
// brings about: the code that makes them makes them here, or the program that reads them reads them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { parse } from 'yaml';
import { webhookBody } from '../../core/administration/alerts/alert-message.ts';
import { postWebhook } from '../../core/administration/alerts/usage-alerts.ts';
import { isJsonObject } from '../../core/base/json.ts';
import { degradedOf } from '../../core/http/dependencies.ts';
import type { UsageCrossing } from '../../core/ports/budgets.ts';
import type { GuardedRequest } from '../../core/ports/transport.ts';
import { compileRedaction } from '../../core/redaction/redaction.ts';
import type { RedactionRuleOption } from '../../core/redaction/redaction-options.ts';
import { createAnalytics } from '../../storage/clickhouse/create-analytics.ts';
import { chdbMissing, recordingLog, startTestChdb, testClock } from '../../storage/embedded/chdb-fixture.ts';
import { haproxyMissing } from '../kit/balancer.ts';
import { samplesOf } from '../kit/document-samples.ts';
import { issuesOf, operationsIn, wholeDocument } from '../kit/openapi-kit.ts';
import { stopEverything, temporaryFolder } from '../kit/process-kit.ts';

after(stopEverything);

/** The block of a document that has these words. */
async function block(document: string, says: string): Promise<string> {
  const found = (await samplesOf(document)).find(({ text }) => text.includes(says));
  return found?.text ?? assert.fail(`${document} has no block with ${says}`);
}

/** The names of an object's members, and of theirs; lists and values end a path. */
function namesIn(value: unknown, place = ''): readonly string[] {
  if (!isJsonObject(value)) return [place];
  return Object.entries(value).flatMap(([name, member]) => namesIn(member, `${place}/${name}`));
}

describe('samples of what a gateway says', () => {
  const crossing: UsageCrossing = {
    ...{ id: 'crossing', key: 'budget', mark: '1', organisationId: 'organisation', workspaceId: 'ws-search' },
    ...{ limit: 50, threshold: 40, used: 50.0131 },
    kind: 'exhausted',
    unit: 'cost',
    subject: { type: 'api_key', id: 'key', name: 'Search' },
    resetsAt: Date.UTC(2026, 11, 1),
    at: Date.UTC(2026, 10, 25, 10, 20, 30),
  };

  test('docs/alerts.md: the body of a webhook', async () => {
    const shown: unknown = JSON.parse(await block('docs/alerts.md', '"current_usage"'));
    const sent: unknown = JSON.parse(webhookBody(crossing));
    assert.deepEqual(namesIn(shown), namesIn(sent));
    const { type, timestamp, data } = shown as { type: string; timestamp: string; data: object };
    const told = sent as { type: string; timestamp: string; data: Record<string, unknown> };
    assert.deepEqual([type, timestamp], [told.type, told.timestamp]);
    const { unit, credit_limit, alert_threshold, current_usage, next_usage_reset_at } = told.data;
    const amounts = { unit, credit_limit, alert_threshold, current_usage, next_usage_reset_at };
    assert.deepEqual({ ...data, ...amounts }, data);
  });

  test('docs/alerts.md: the headers of a webhook', async () => {
    const [, ...lines] = (await block('docs/alerts.md', 'webhook-signature: v1')).split('\n');
    let sent: GuardedRequest | undefined;
    const fetch = {
      fetch(request: GuardedRequest) {
        sent = request;
        return { answer: Promise.reject(new Error('nobody takes it')), abort: () => undefined };
      },
    };
    const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
    const post = { url: 'https://host.example/weir', secret, id: 'msg_1', body: webhookBody(crossing) };
    await postWebhook(post, { fetch, now: crossing.at, signal: new AbortController().signal });
    const headers = sent?.headers ?? [];
    for (const line of lines) {
      const [, name = '', value = ''] = /^([\w-]+): (\S+)/.exec(line) ?? [];
      const given = headers[headers.indexOf(name) + 1] ?? '';
      assert.ok(headers.includes(name), `${name} is not sent`);
      // What differs from one to the next is of the same form.
      const form = (text: string): string =>
        text.replace(/(?<=^v1,|^msg_).+/, '…').replaceAll(/\d{10}/g, '0');
      assert.equal(form(given), form(value), name);
    }
  });

  test('docs/log-privacy.md: a request and its entry, by the rules of the page', async () => {
    const page = 'docs/log-privacy.md';
    const { plugins } = parse(await block(page, 'redact:')) as {
      plugins: [{ logger: { redact: readonly RedactionRuleOption[] } }];
    };
    const redaction = compileRedaction(plugins[0].logger.redact, 'wk_') ?? assert.fail('no rules');
    const shown = JSON.parse(await block(page, '[not logged]" }]')) as {
      request: { body: object };
      response: { body: { choices: [{ message: { content: string } }] } };
      metrics: { metadata: object };
    };
    const whole = { isEventStream: false, isTruncated: false };
    const request = await redaction.body(await block(page, '"I am ann@example.com" }]'), whole, testClock);
    assert.deepEqual(JSON.parse(request), shown.request.body);
    const [{ message }] = shown.response.body.choices;
    const answered = {
      choices: [{ message: { ...message, content: 'You said: "I am ann@example.com". …' } }],
    };
    const response = await redaction.body(JSON.stringify(answered), whole, testClock);
    assert.deepEqual(JSON.parse(response), shown.response.body);
    const metadata = { email: 'ann@example.com', ticket: 'EMP-123456 paid with 4111 1111 1111 1111' };
    assert.deepEqual(redaction.metadata(metadata), shown.metrics.metadata);
  });

  test('docs/deployment.md: the readiness of a gateway whose store is away', async () => {
    const shown = JSON.parse(await block('docs/deployment.md', '"degraded"')) as {
      degraded: string[];
      dependencies: Record<string, string>;
    };
    const { document } = await wholeDocument();
    const ready = operationsIn(document).find(({ path: at }) => at === '/readyz');
    const schema: unknown = ready?.operation['responses']['200'].content['application/json'].schema;
    assert.ok(schema !== undefined, '/readyz answers JSON');
    assert.deepEqual(issuesOf(document, schema, shown), []);
    assert.deepEqual(shown.degraded, degradedOf(shown.dependencies));
  });
});

describe('samples of what another program is told', () => {
  test('docs/telemetry.md: an exporter of OpenTelemetry finds its route, and its header', async () => {
    const text = await block('docs/telemetry.md', 'OTEL_EXPORTER');
    const [, base = ''] = /ENDPOINT=https:\/\/[^/]+\/v1(\S+)/.exec(text) ?? [];
    const { document } = await wholeDocument();
    const found = operationsIn(document).filter(({ path: at }) => at.startsWith(`${base}/v1/`));
    assert.deepEqual(found.map(({ path: at }) => at).sort(), [
      ...['/otel/v1/logs', '/otel/v1/metrics', '/otel/v1/traces'],
    ]);
    assert.match(text, /HEADERS=x-service-api-key=wk_/);
  });

  test('docs/realtime.md: the opening request has its route, and headers that are documented', async () => {
    const [first = '', ...headers] = (await block('docs/realtime.md', 'Upgrade: websocket')).split('\n');
    const [, at = ''] = /^GET \/v1(\/\w+)\?model=/.exec(first) ?? [];
    const { document } = await wholeDocument();
    assert.ok(operationsIn(document).some((one) => one.path === at && one.method === 'get'));
    const known = await readFile(new URL('../../docs/headers.md', import.meta.url), 'utf8');
    for (const header of headers) {
      const [name = ''] = header.split(':');
      assert.ok(
        ['Connection', 'Upgrade'].includes(name) || known.includes(`\`${name.replace('x-service-', '')}\``),
        name,
      );
    }
  });

  test('docs/deployment.md: HAProxy takes the back end', { skip: haproxyMissing }, async () => {
    const file = path.join(await temporaryFolder(), 'haproxy.cfg');
    const backend = await block('docs/deployment.md', 'option httpchk');
    const around = `global
  maxconn 100
defaults
  mode http
  timeout connect 10s
  timeout client 60s
  timeout server 60s
frontend gateways
  bind 127.0.0.1:8080
  default_backend gateways
`;
    await writeFile(file, `${around}${backend}\n`);
    const { status, stdout, stderr } = spawnSync('haproxy', ['-c', '-f', file], { encoding: 'utf8' });
    assert.equal(status, 0, stdout + stderr);
    assert.doesNotMatch(stdout + stderr, /WARNING|ALERT/);
  });

  test('docs/clickhouse.md: the engine understands the statements', { skip: chdbMissing }, async () => {
    const { engine, close } = await startTestChdb();
    const { url, username, password } = engine;
    const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
    const say = async (sql: string): Promise<string> => {
      const answer = await fetch(url, { method: 'POST', body: sql, headers: { authorization } });
      const text = await answer.text();
      assert.equal(answer.status, 200, `${sql}\n${text}`);
      return text;
    };
    const page = 'docs/clickhouse.md';
    try {
      const place = { url, username, password, log: recordingLog(), isEmbedded: true };
      const [create = '', ...grants] = (await block(page, 'CREATE USER weir')).split(/;\n?/);
      await say(create);
      await (await createAnalytics(place)).close();
      // The embedded engine has one account and no cluster: it reads these statements, and does not carry them out.
      const others = (await block(page, 'CREATE DATABASE weir_all')).split(/;\n?/);
      for (const statement of [...grants, ...others])
        if (statement.trim() !== '') await say(`EXPLAIN AST ${statement}`);
      for (const says of ['FROM weir.usage_days', 'FROM system.parts']) await say(await block(page, says));
      const tables = (await say('SHOW TABLES FROM weir')).split('\n');
      assert.ok(tables.includes('usage_days'));
    } finally {
      await close();
    }
  });
});
