import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { createMetrics } from '../../../adapters/telemetry/prometheus.ts';
import { startTestGateway } from '../../../tests/kit/gateway-kit.ts';
import { send } from '../../../tests/kit/http-kit.ts';
import { definePlugin, defineRoute, Type } from '../../pipeline/plugin.ts';
import { createOperations } from '../operations.ts';
import { describedPipelines, issuesOf, operationsIn, wholeDocument } from '../../../tests/kit/openapi-kit.ts';
import { administrationOperation, createReferencePages } from './document.ts';
import { DocumentWriter } from './document-writer.ts';
import { anchorOf, renderReference } from './render-reference.ts';
import { createHomePages, createInvitePage, isPresent } from '../home-page.ts';

const server = { base_path: '/v1', header_prefix: 'x-service' };
const { document, compiled } = await wholeDocument();

test('a page is made once for a generation, and anew for the next one', async () => {
  let generation = { compiled };
  const pages = createReferencePages(server, () => generation);
  const first = pages.document();
  assert.equal(pages.document(), first);
  assert.deepEqual(JSON.parse(first.body), document);
  assert.equal(first.headers['content-type'], 'application/json');
  generation = { compiled };
  assert.equal(
    pages.document().headers['etag'],
    first.headers['etag'],
    'the same interface has the same tag',
  );
  generation = { compiled: await describedPipelines([]) };
  assert.notEqual(pages.document().headers['etag'], first.headers['etag']);
  assert.notEqual(
    pages.reading().headers['etag'],
    createReferencePages(server, () => ({ compiled })).reading().headers['etag'],
  );
});

test('the page for people needs nothing from elsewhere, and runs nothing', () => {
  const { body, headers } = createReferencePages(server, () => ({ compiled })).reading();
  assert.doesNotMatch(
    body,
    /<(script|link|img|iframe|object|embed|form|base)\b|\bon\w+=|\bsrc=|@import|url\(/i,
  );
  const policy = headers['content-security-policy']!;
  const [, style = ''] = /<style>([^]*?)<\/style>/.exec(body) ?? [];
  const hash = createHash('sha256').update(style).digest('base64');
  assert.ok(policy.startsWith(`default-src 'none'; style-src 'sha256-${hash}';`));
  assert.match(body, /<meta name="viewport" content="width=device-width/);
  assert.match(style, /prefers-color-scheme: dark/);
  for (const [, href = ''] of body.matchAll(/href="([^"]*)"/g)) assert.match(href, /^(#|\/openapi\.json$)/);
});

test('everything is on the page, and every link on it leads somewhere', () => {
  const { body } = createReferencePages(server, () => ({ compiled })).reading();
  const anchors = new Set([...body.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
  for (const { operation } of operationsIn(document))
    assert.ok(anchors.has(anchorOf('operation', operation['operationId'])), operation['operationId']);
  for (const name of Object.keys(document.components['schemas']!))
    assert.ok(anchors.has(anchorOf('schema', name)));
  const targets = [...body.matchAll(/href="#([^"]+)"/g)].map(([, target]) => target);
  assert.deepEqual(
    targets.filter((target) => !anchors.has(target)),
    [],
  );
  assert.match(body, /<code>max_tokens<\/code>[^]{0,200}deprecated/);
  const opened = [...body.matchAll(/<(details|section|dl|dd|dt|div|p|pre)\b/g)].length;
  const closed = [...body.matchAll(/<\/(details|section|dl|dd|dt|div|p|pre)>/g)].length;
  assert.equal(opened, closed);
});

test('what a plugin says is text', () => {
  const hostile = '<script>alert("1")</script>&\'`<b>`';
  const route = defineRoute({
    id: hostile,
    method: 'GET',
    path: `/things/${hostile}`,
    summary: hostile,
    scope: hostile,
    audit: null,
    query: Type.Object({ [hostile]: Type.Literal(hostile, { description: hostile }) }),
    reply: Type.Object({ [hostile]: Type.String({ description: hostile, format: hostile }) }),
    examples: { response: { [hostile]: hostile } },
    handle: () => ({ [hostile]: hostile }),
  });
  const writer = new DocumentWriter(server);
  writer.add(administrationOperation(route));
  const page = renderReference(writer.finish());
  assert.doesNotMatch(page, /<script|<b>/);
  assert.match(page, /&lt;script&gt;alert\(&quot;1&quot;\)/);
});

test('a tag is known in every form in which clients say it', () => {
  for (const [said, known] of [
    [undefined, false],
    ['', false],
    ['"a"', true],
    ['W/"a"', true],
    ['"b", W/"a"', true],
    ['"b"', false],
    ['*', true],
  ] as const)
    assert.equal(isPresent(said, '"a"'), known, said);
});

test('a gateway serves both, and its answers are what they say', async (t) => {
  const thing = definePlugin({
    name: 'things',
    create: () => ({
      request: () => ({ status: 200, headers: [], body: Buffer.from('{}'), source: 'gateway' as const }),
    }),
  });
  const gateway = await startTestGateway(t, {
    plugins: [thing],
    operations: createOperations({
      metrics: createMetrics(),
      draining: () => false,
      refusal: () => undefined,
      dependencies: { look: () => Promise.resolve({ journal: 'ok' }) },
      unready: () => [],
      status: () => ({ status: 'serving', generation: '0f3a91b2c4d5' }),
      reference: createReferencePages(server, () => ({ compiled })),
      home: () => createHomePages(server, { hasConsole: true }),
      invitePage: createInvitePage(server),
    }),
  });
  for (const { path, operation } of operationsIn(document).filter(({ operation: { operationId } }) =>
    /^operations\./.test(operationId),
  )) {
    const answer = await send(gateway.url, { path });
    assert.equal(answer.status, 200, path);
    const [type, { schema }] = Object.entries<any>(operation['responses']['200'].content)[0]!;
    assert.ok(answer.headers['content-type']?.startsWith(type), path);
    const value = type === 'application/json' ? answer.json() : answer.text;
    assert.deepEqual(issuesOf(document, schema, value), [], path);
  }
});
