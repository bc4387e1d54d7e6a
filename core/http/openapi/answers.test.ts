import assert from 'node:assert/strict';
import { test } from 'node:test';
import { providerPlugin, startTestGateway } from '../../../tests/kit/gateway-kit.ts';
import { send } from '../../../tests/kit/http-kit.ts';
import { issuesOf, operationsIn, wholeDocument } from '../../../tests/kit/openapi-kit.ts';

const { document } = await wholeDocument();

/** The schema of an answer as the document has it, its reference followed. */
function described(operation: Record<string, any>, status: number): unknown {
  const response = operation['responses'][status];
  assert.ok(response, `${operation['operationId']} answered ${status}, which the document does not know`);
  const name = response.$ref?.slice('#/components/responses/'.length);
  const whole: any = name === undefined ? response : document.components['responses']?.[name];
  return whole.content?.['application/json']?.schema;
}

test('endpoints of providers take their examples, and answer as the document says', async (t) => {
  const gateway = await startTestGateway(t, { plugins: [providerPlugin({ default: 'mock' })] });
  const answered = new Map<string, number>();
  for (const { path, method, operation } of operationsIn(document)) {
    const body = operation['requestBody']?.content['application/json']?.example;
    if (!('x-endpoint' in operation) || operation['responses']['101'] !== undefined) continue;
    if (body === undefined && method !== 'get') continue;
    const own = operation['parameters'].filter((one: any) => one.in === 'path');
    const filled = own.reduce((text: string, one: any) => text.replace(`{${one.name}}`, one.example), path);
    const answer = await send(gateway.url, {
      path: filled,
      method: method.toUpperCase(),
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    answered.set(operation['operationId'], answer.status);
    if (answer.status === 501) {
      // The mock provider plays a part of what providers have; what it does not play is not described here.
      assert.equal(answer.json().error.code, 'not_played', path);
      continue;
    }
    const schema = described(operation, answer.status);
    if (schema === undefined || !answer.headers['content-type']?.startsWith('application/json')) continue;
    assert.deepEqual(issuesOf(document, schema, answer.json()), [], `${method} ${path}: ${answer.text}`);
  }
  for (const id of [
    ...['chat.completions.create', 'completions.create', 'responses.create', 'messages.create'],
    ...['generate_content.create', 'embeddings.create', 'moderations.create', 'rerank.create'],
    ...['images.generate', 'audio.speech.create', 'models.list', 'files.list', 'fine_tuning.jobs.list'],
  ])
    assert.equal(answered.get(id), 200, id);
});

test('refusals are what the document says, in the shape of each wire', async (t) => {
  const gateway = await startTestGateway(t, { plugins: [providerPlugin({})] });
  for (const { path, method, operation } of operationsIn(document)) {
    const body = operation['requestBody']?.content['application/json']?.example;
    if (body === undefined || !('x-endpoint' in operation)) continue;
    const answer = await send(gateway.url, {
      path: path.replace('{model}', 'm'),
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });
    // No provider answers for MCP servers.
    const status = operation['x-endpoint'] === 'mcp' ? 404 : 400;
    assert.equal(answer.status, status, path);
    const issues = issuesOf(document, described(operation, status), answer.json());
    assert.deepEqual(issues, [], `${method} ${path}: ${answer.text}`);
  }
});
