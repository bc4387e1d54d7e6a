// Requests that had no price get that of their integration, as an operator does it: with the API and the command.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { startUpstream } from '../kit/http-kit.ts';
import { chat, makePremises, operate } from '../kit/operator.ts';
import { runWeir, startWeir, stopEverything, temporaryFolder } from '../kit/process-kit.ts';

after(stopEverything);

/** US cents for a token. */
const cents = (requestToken: number, responseToken: number) => ({
  request_token: { price: requestToken },
  response_token: { price: responseToken },
});
const pipelines = [
  { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
  {
    name: 'gateway',
    match: { path: '/**' },
    plugins: ['auth', 'policies', 'provider', { logger: { bodies: false } }],
  },
];

describe('weir reprice with the prices of integrations', { skip: chdbMissing }, () => {
  test('prices what had none as the integration says for that time, and budgets can be corrected', async (t) => {
    const upstream = await startUpstream(t, (request, response) => {
      const { model } = JSON.parse(request.body.toString());
      const message = { role: 'assistant', content: 'Hello' };
      const usage = { prompt_tokens: 1000, completion_tokens: 500, total_tokens: 1500 };
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify({ id: 'x', model, choices: [{ index: 0, message, finish_reason: 'stop' }], usage }),
      );
    });
    const yaml = {
      version: 1,
      storage: { resources: { url: 'pglite:' }, analytics: { url: 'chdb:' } },
      security: { trusted_hosts: [upstream.host] },
      organisation: {
        integrations: [
          {
            ...{ name: 'Of the file', slug: 'filed', ai_provider_id: 'openai', key: 'sk-file' },
            ...{ configurations: { custom_host: upstream.url }, allow_all_models: true },
            global_workspace_access: { enabled: true },
            models: [
              {
                ...{ slug: 'filed-1', enabled: true, is_custom: true },
                // From tomorrow on: no price holds yet.
                pricing_config: {
                  ...{ type: 'static', pay_as_you_go: cents(0.1, 0.1) },
                  effective_from: new Date(Date.now() + 86_400_000).toISOString(),
                },
              },
            ],
          },
        ],
      },
      pipelines,
    };
    const folder = await temporaryFolder();
    const [config, data] = [path.join(folder, 'gateway.config.yaml'), path.join(folder, 'data')];
    await writeFile(config, JSON.stringify(yaml));
    const weir = await startWeir({ config, data });
    const { url } = weir;
    const { workspace, keyId, key } = await makePremises(url, 'house');
    await operate(url, {
      ...{ method: 'PUT', path: `/api-keys/${keyId}` },
      body: { usage_limits: { type: 'cost', credit_limit: 100 } },
    });
    for (const slug of ['house', 'gone', 'plain']) {
      const body = {
        ...{ name: slug, slug, ai_provider_id: 'openai', key: 'sk-test', workspace_id: workspace },
        configurations: { custom_host: upstream.url },
      };
      await operate(url, { path: '/integrations', body });
    }
    const ask = async (provider: string, model: string) => {
      const answer = await chat(url, { key, model, headers: { 'x-service-provider': provider } });
      assert.equal(answer.status, 200, answer.text);
    };
    for (const model of ['house-1', 'house-1', 'based-on-house', 'unknown-1']) await ask('@house', model);
    for (const provider of ['@gone', '@plain']) await ask(provider, 'house-1');
    await ask('@filed', 'filed-1');
    await operate(url, { method: 'DELETE', path: `/integrations/gone?workspace_id=${workspace}` });
    const house = `/integrations/house`;
    const models = [
      {
        ...{ slug: 'house-1', enabled: true, is_custom: true },
        pricing_config: {
          ...{ type: 'static', pay_as_you_go: cents(0.0007, 0.0011) },
          effective_from: new Date(Date.now() - 86_400_000).toISOString(),
          scheduled: [
            {
              effective_from: new Date(Date.now() + 86_400_000).toISOString(),
              pay_as_you_go: cents(1, 1),
            },
          ],
        },
      },
      { slug: 'based-on-house', enabled: true, is_custom: true, base_model_slug: 'gpt-4o-mini' },
    ];
    const inWorkspace = `?workspace_id=${workspace}`;
    await operate(url, {
      ...{ method: 'PUT', path: `${house}/models${inWorkspace}` },
      body: { models, allow_all_models: true },
    });
    const adjustments = { multiplier: { default: 1.1 } };
    await operate(url, {
      ...{ method: 'PUT', path: `${house}${inWorkspace}` },
      body: { pricing_adjustments: adjustments },
    });
    await weir.stop();

    // The price of the file's integration begins a year earlier than was thought.
    const [filed] = yaml.organisation.integrations;
    const [filedModel] = filed?.models ?? [];
    if (filedModel !== undefined) filedModel.pricing_config.effective_from = '2025-01-01T00:00:00Z';
    await writeFile(config, JSON.stringify(yaml));

    const days = ['--from', dayOf(Date.now() - 86_400_000), '--to', dayOf(Date.now())];
    const run = async (...args: string[]) => {
      const { code, stdout, stderr } = await runWeir([...args, '--config', config, '--data', data]);
      assert.equal(code, 0, stderr);
      return stdout;
    };
    const planned = JSON.parse(await run('reprice', ...days, '--dry-run', '--json'));
    const done = JSON.parse(await run('reprice', ...days, '--json'));
    assert.deepEqual({ ...done, dry_run: true }, planned);
    const priced = new Map(done.priced.map((one: { model: string }) => [one.model, one]));
    const of = (model: string, requests: number, cost: string) => ({
      ...{ service: 'openai', model, requests, tokens: 1500 * requests, cost },
    });
    assert.deepEqual(
      [...priced.values()],
      [
        // (1000 × 0.000007 + 500 × 0.000011) × 1.1, twice
        of('house-1', 2, '0.0275'),
        // (1000 × 0.15 + 500 × 0.6) / 1,000,000 × 1.1
        of('based-on-house', 1, '0.000495'),
        of('filed-1', 1, '1.5'),
      ],
    );
    const left = (requests: number, model: string, reason: string) => ({
      ...{ service: 'openai', model, requests, tokens: 1500 * requests, reason },
    });
    const notKnown = 'no price of this model is known';
    assert.deepEqual(done.unpriced.toSorted(byReason), [
      left(1, 'house-1', notKnown),
      left(1, 'unknown-1', notKnown),
      left(1, 'house-1', 'there is no provider "@gone" any more'),
    ]);
    assert.match(await run('reprice', ...days), /"@gone"/);

    const { differences } = JSON.parse(await run('reconcile', '--budgets', '--json'));
    const [{ counted, recorded, is_corrected }] = differences;
    assert.deepEqual([differences.length, counted, recorded, is_corrected], [1, 0, 1.527995, true]);
  });
});

function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

function byReason(one: { reason: string; model: string }, other: { reason: string; model: string }): number {
  return `${one.reason} ${one.model}` < `${other.reason} ${other.model}` ? -1 : 1;
}
