// A gateway with the stores that it brings along: prompts, the catalogue of models, feedback, and what the log says of them.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, test, type TestContext } from 'node:test';
import OpenAI from 'openai';
import { Portkey } from 'portkey-ai';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { startFakeProviders, type FakeProviders } from '../kit/fake-providers/fake-providers.ts';
import { call, chat, makePremises, operate, refusalOf, type Premises } from '../kit/operator.ts';
import { eventually, startWeir, stopEverything, temporaryFolder } from '../kit/process-kit.ts';
import { withStore } from '../kit/stored-copies.ts';

after(stopEverything);

const scopes = [
  ...['create', 'read', 'update', 'list', 'publish', 'render'].map((verb) => `prompts.${verb}`),
  ...['completions.write', 'logs.view', 'feedbacks.write', 'models.list', 'configs.create'],
];
/** What the fixtures of the provider say. */
const riverText = /^The Danube flows through Vienna/;

interface Setting extends Premises {
  readonly url: string;
  readonly provider: FakeProviders;
  readonly data: string;
  stop(): Promise<unknown>;
}

/** One gateway, and a workspace with an integration called `rivers`. */
async function setUp(t: TestContext): Promise<Setting> {
  const provider = await startFakeProviders(t);
  const data = path.join(await temporaryFolder(), 'data');
  const weir = await startWeir({
    data,
    yaml: {
      version: 1,
      security: { trusted_hosts: [new URL(provider.url).host] },
      storage: { resources: { url: 'pglite:' }, journal: { ship_ms: 50 } },
      pipelines: [
        { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
        {
          name: 'gateway',
          match: { path: '/**' },
          plugins: ['auth', 'prompts', 'policies', 'provider', { logger: { bodies: true } }],
        },
      ],
    },
  });
  const premises = await makePremises(weir.url, 'Laboratory', scopes);
  const rivers = {
    name: 'Rivers',
    slug: 'rivers',
    ai_provider_id: 'openai',
    key: 'sk-0123456789-abcdef',
    workspace_id: premises.workspace,
    configurations: { custom_host: `${provider.url}/openai/v1` },
  };
  await operate(weir.url, { path: '/integrations', body: rivers });
  return { ...premises, url: weir.url, provider, data, stop: () => weir.stop() };
}

/** The row of a request in the log, once it is there. */
function logged({ url, key }: Setting, request: string | null): Promise<any> {
  return eventually(async () => {
    const found = await call(url, { path: `/logs/${String(request)}`, key });
    return found.status === 200 ? found.json() : undefined;
  });
}

/** A prompt of two messages, one of them out of a partial, and a label on its first version. */
async function makePrompt({ url, key }: Setting) {
  const partial = await operate(url, {
    path: '/prompts/partials',
    key,
    body: { name: 'Tone', string: 'You speak {{language}}.' },
  });
  const string = JSON.stringify([
    { role: 'system', content: `{{>${partial.slug}}}` },
    { role: 'user', content: 'Name the rivers of {{country}}.' },
  ]);
  const version = { string, parameters: { temperature: 0 }, virtual_key: 'rivers', model: 'gpt-5.1' };
  const { slug, version_id } = await operate(url, {
    path: '/prompts',
    key,
    body: { name: 'Rivers', ...version },
  });
  const { id: label } = await operate(url, { path: '/labels', key, body: { name: 'live' } });
  const mark = (version: string): Promise<unknown> =>
    operate(url, {
      method: 'PUT',
      path: `/prompts/${slug}/versions/${version}`,
      key,
      body: { label_id: label },
    });
  await mark(version_id);
  return { slug, partial: partial.slug, mark };
}

test(
  'what administrators make is served, listed and logged',
  { skip: chdbMissing, timeout: 120_000 },
  async (t) => {
    const setting = await setUp(t);
    const { url, key, provider } = setting;
    const prompt = await makePrompt(setting);
    const lastSystem = (): string =>
      (provider.seen.at(-1)?.body.messages as { content: string }[])[0]?.content ?? '';
    const variables = { language: 'Latin', country: 'Austria' };

    await t.test('a prompt is streamed by the clients of OpenAI and portkey-ai', async () => {
      provider.play({ fixture: 'grid-text' });
      const portkey = new Portkey({ apiKey: key, baseURL: `${url}/v1` });
      const promptID = `${prompt.slug}@live`;
      let text = '';
      for await (const chunk of await portkey.prompts.completions.create({
        promptID,
        variables,
        stream: true,
      }))
        text += chunk['choices'][0]?.delta?.content ?? '';
      assert.match(text, riverText);

      // With the prompt's address as its base URL, the client's `completions` are the prompt's.
      const openai = new OpenAI({ apiKey: key, baseURL: `${url}/v1/prompts/${promptID}` });
      const asked = { variables, stream: true } as unknown as OpenAI.CompletionCreateParamsStreaming;
      const stream = (await openai.completions.create(asked)) as AsyncIterable<unknown>;
      let again = '';
      for await (const chunk of stream as AsyncIterable<OpenAI.ChatCompletionChunk>)
        again += chunk.choices[0]?.delta.content ?? '';
      assert.equal(again, text);
      assert.equal(provider.seen.length, 2);
      assert.deepEqual(provider.seen[1]?.body.messages, [
        { role: 'system', content: 'You speak Latin.' },
        { role: 'user', content: 'Name the rivers of Austria.' },
      ]);
      assert.equal(provider.seen[1]?.headers.authorization, 'Bearer sk-0123456789-abcdef');
    });

    await t.test('the next request follows a label that was moved', async () => {
      const body = { patch: true, string: 'Which rivers flow through {{country}}?', model: 'gpt-5.1-mini' };
      const updated = await operate(url, { method: 'PUT', path: `/prompts/${prompt.slug}`, key, body });
      const ask = async (reference: string): Promise<unknown> => {
        await operate(url, { path: `/prompts/${reference}/completions`, key, body: { variables } });
        return provider.seen.at(-1)?.body.model;
      };
      assert.equal(await ask(`${prompt.slug}@live`), 'gpt-5.1');
      await prompt.mark(updated.prompt_version_id);
      assert.equal(await ask(`${prompt.slug}@live`), 'gpt-5.1-mini');
      assert.equal(await ask(prompt.slug), 'gpt-5.1', 'the default version is the first');
      const partial = { method: 'PUT', path: `/prompts/partials/${prompt.partial}`, key };
      await operate(url, { ...partial, body: { string: 'Speak {{language}}!' } });
      await operate(url, { ...partial, path: `${partial.path}/makeDefault`, body: { version: 2 } });
      await ask(prompt.slug);
      assert.equal(lastSystem(), 'Speak Latin!');
    });

    await t.test('mistakes of templates are told with their place', async () => {
      const partials = { path: '/prompts/partials', key };
      const other = await operate(url, {
        ...partials,
        body: { name: 'Other', string: `{{>${prompt.partial}}}` },
      });
      for (const [string, wanted] of [
        ['One\nTwo {{country', /\/string.*line 2, column 5: the tag is never closed/],
        ['One\n {{#a}}\n{{/b}}', /\/string.*line 3, column \d+: /],
        [
          `One {{>${other.slug}}}`,
          new RegExp(`circle: ${prompt.partial} → ${other.slug} → ${prompt.partial}`),
        ],
      ] as const) {
        const refused = await call(url, {
          method: 'PUT',
          path: `/prompts/partials/${prompt.partial}`,
          key,
          body: { string },
        });
        assert.equal(refused.status, 400);
        assert.match(refused.json().data.message, wanted);
      }
      const body = { variables: { language: 'Latin' }, strict: true };
      const missing = await call(url, { path: `/prompts/${prompt.slug}/completions`, key, body });
      assert.match(refusalOf(missing)[2] ?? '', /variable "country"/);
    });

    await t.test('the log has the slugs of prompt, config and provider', async () => {
      const config = { retry: { attempts: 1 }, targets: [{ provider: '@rivers' }] };
      const { data } = await operate(url, { path: '/configs', key, body: { name: 'Main', config } });
      const client = new OpenAI({
        apiKey: key,
        baseURL: `${url}/v1`,
        defaultHeaders: { 'x-service-config': data.slug },
      });
      const messages = [{ role: 'user' as const, content: 'Hello' }];
      const { response } = await client.chat.completions
        .create({ model: 'gpt-5.1', messages })
        .withResponse();
      const row = await logged(setting, response.headers.get('x-service-request-id'));
      assert.deepEqual(
        [row.metrics.config, row.metrics.provider, row.metrics.ai_service, row.metrics.prompt],
        [data.slug, 'rivers', 'openai', ''],
      );
      const prompted = await call(url, {
        path: `/prompts/${prompt.slug}@live/completions`,
        key,
        body: { variables },
      });
      const { metrics, request } = await logged(setting, String(prompted.headers['x-service-request-id']));
      assert.deepEqual([metrics.prompt, metrics.provider, metrics.config], [prompt.slug, 'rivers', '']);
      assert.deepEqual([metrics.workspace_id, metrics.api_key_id], [setting.workspace, setting.keyId]);
      assert.equal(request.body.messages[0].content, 'Which rivers flow through Austria?');
      assert.ok(!JSON.stringify([row, metrics]).includes('sk-0123456789'));
    });

    await t.test('the catalogue is what the key may use', async () => {
      const { workspace } = setting;
      const organisation = {
        name: 'Seas',
        slug: 'seas',
        ai_provider_id: 'openai',
        key: 'sk-seas-0123456789',
      };
      await operate(url, { path: '/integrations', body: organisation });
      const listed = async (headers = {}): Promise<string[]> =>
        (await operate(url, { path: '/models', key, headers })).data
          .map(({ id }: { id: string }) => id)
          .sort();
      const allow = (slug: string, models: readonly string[]): Promise<unknown> =>
        operate(url, {
          method: 'PUT',
          path: `/integrations/${slug}/models`,
          body: {
            allow_all_models: false,
            models: models.map((one) => ({ slug: one, enabled: one !== 'gpt-4' })),
          },
        });
      const grant = (enabled: boolean): Promise<unknown> =>
        operate(url, {
          method: 'PUT',
          path: '/integrations/seas/workspaces',
          body: { workspaces: [{ id: workspace, enabled }] },
        });
      await allow('rivers', ['gpt-5.1', 'gpt-4']);
      await allow('seas', ['gpt-5.1-mini']);
      assert.deepEqual(await listed(), ['@rivers/gpt-5.1'], 'nobody has allowed the workspace the other one');
      await grant(true);
      assert.deepEqual(await listed(), ['@rivers/gpt-5.1', '@seas/gpt-5.1-mini']);
      assert.deepEqual(await listed({ 'x-service-provider': '@seas' }), ['gpt-5.1-mini']);
      const refused = await chat(url, { key, model: '@rivers/gpt-4' });
      assert.deepEqual(refusalOf(refused).slice(0, 2), [403, 'model_not_allowed']);
      await grant(false);
      assert.deepEqual(await listed(), ['@rivers/gpt-5.1']);
    });

    await t.test('feedback is found by who changes it, and is in the store', async () => {
      const { keyId, workspace } = setting;
      const body = { trace_id: 'trace-of-rivers', value: 7, weight: 0.5, metadata: { user: 'ann' } };
      const { feedback_ids: ids } = await operate(url, { path: '/feedback', key, body });
      const [id] = ids;
      await eventually(async () => {
        const changed = { method: 'PUT', path: `/feedback/${id}`, key, body: { value: -2 } };
        return (await call(url, changed)).status === 200 || undefined;
      });
      await setting.stop();
      const rows = await withStore(setting.data, (rowsOf) =>
        rowsOf<object>(
          'SELECT toString(feedback_id) AS id, trace_id, value, weight, api_key_id, workspace_id FROM feedback ORDER BY revision',
        ),
      );
      const row = {
        id,
        trace_id: 'trace-of-rivers',
        weight: 0.5,
        api_key_id: keyId,
        workspace_id: workspace,
      };
      assert.deepEqual(rows, [
        { ...row, value: 7 },
        { ...row, value: -2 },
      ]);
    });
  },
);
