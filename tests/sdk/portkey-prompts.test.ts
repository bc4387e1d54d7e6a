// Prompts as users of the `portkey-ai` client have them: with only the base URL changed.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { Portkey } from 'portkey-ai';
import type { StoredRecord } from '../../core/ports/records.ts';
import auth from '../../plugins/auth/index.ts';
import management from '../../plugins/management/index.ts';
import prompts from '../../plugins/prompts/index.ts';
import { openResourcesOfFile } from '../kit/administration-kit.ts';
import { providerPlugin, startTestGateway } from '../kit/gateway-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';
import { failureOf } from './sdk-setting.ts';

const resources = await openResourcesOfFile();

const apiKey = 'wk_prompts';

/** A client with a key of a workspace; its gateway knows the records that `learn` has read last. */
async function setUp(t: TestContext) {
  const [organisationId, workspaceId] = [randomUUID(), randomUUID()];
  await resources.write(organisationId, async ({ organisations, workspaces }) => {
    await organisations.ensure({ id: organisationId, name: 'prompts', createdAt: 1 });
    await workspaces.insert({
      id: workspaceId,
      organisationId,
      slug: 'ws-prompts',
      name: 'prompts',
      description: '',
      icon: '',
      status: 'active',
      isDefault: true,
      defaults: {},
      usageLimits: [],
      rateLimits: [],
      createdAt: 1,
      updatedAt: 1,
      version: 1,
    });
  });
  const known = new Map<string, StoredRecord>();
  const gateway = await startTestGateway(t, {
    providers: { echo: { base_url: 'mock:', credentials: 'none' } },
    keys: { [apiKey]: testKey({ kind: 'workspace-service', organisationId, workspaceId }) },
    resources,
    directory: {
      record: ((kind: string, _place: unknown, name: string) => known.get(`${kind}/${name}`)) as never,
    },
    pipelines: [
      { match: { routes: 'contributed' }, plugins: [auth, management] },
      { plugins: [auth, prompts, providerPlugin()] },
    ],
  });
  const learn = () =>
    resources.read(async ({ records }) => {
      for (const kind of ['prompt', 'prompt_partial', 'label'] as const) {
        const { data } = await records.list(kind, organisationId, {}, { offset: 0, limit: 100 });
        for (const one of data) for (const name of [one.id, one.slug]) known.set(`${kind}/${name}`, one);
      }
    });
  const portkey = new Portkey({ apiKey, baseURL: `${gateway.url}/v1` });
  return { portkey, learn, gateway };
}

/** The client makes an object of a list: its entries stand under their numbers. */
function entries(answer: object): any[] {
  return Object.entries(answer)
    .filter(([name]) => /^\d+$/.test(name))
    .map(([, entry]) => entry);
}

const template = JSON.stringify([
  { role: 'system', content: 'You speak {{language}}.' },
  { role: 'user', content: '{{>greeting}}{{#name}} {{name}}{{/name}}' },
]);

test('collections, labels and partials', async (t) => {
  const { portkey } = await setUp(t);
  const { collections, labels } = portkey;
  const top = await collections.create({ name: 'Top' });
  const below = await collections.create({ name: 'Below', parent_collection_id: top.id });
  const shown = await collections.retrieve(top.id);
  assert.deepEqual(
    shown.child_collections.map(({ id }: { id: string }) => id),
    [below.id],
  );
  assert.equal(Reflect.get(await failureOf(collections.delete(top.id)), 'status'), 409);
  await collections.update(below.id, { name: 'Under' });
  const listed = await collections.list({ search: 'under' });
  assert.deepEqual([listed.total, listed.data[0].parent_collection_id], [1, top.id]);
  await collections.delete(below.id);
  await collections.delete(top.slug);

  const label = await labels.create({ name: 'staging', color_code: '#00AA55' });
  await labels.update(label.id, { description: 'Before production' });
  assert.equal((await labels.retrieve(label.id)).description, 'Before production');
  assert.equal((await labels.list({ search: 'stag' })).total, 1);
  assert.equal(Reflect.get(await failureOf(labels.create({ name: 'latest' })), 'status'), 400);
  await labels.delete(label.id);

  const { partials } = portkey.prompts;
  const made = await partials.create({ name: 'Tone', string: 'Be kind.' });
  await partials.update(made['slug'], { string: 'Be brief.', description: 'shorter' });
  await partials.publish(made['slug'], { version: 2 });
  assert.equal((await partials.retrieve(made['slug'])).string, 'Be brief.');
  const versions = await partials.versions.list(made['slug']);
  assert.deepEqual(
    entries(versions).map(({ version }: { version: string }) => version),
    ['2', '1'],
  );
  assert.equal(entries(await partials.list({})).length, 1);
  await partials.delete(made['slug']);
});

test('prompts: versions, labels, rendering and completions, streamed too', async (t) => {
  const { portkey, learn, gateway } = await setUp(t);
  const { prompts } = portkey;
  const greeting = await prompts.partials.create({ name: 'Greeting', string: 'Say hello' });
  const collection = await portkey.collections.create({ name: 'All' });
  const made = await prompts.create({
    name: 'Greeter',
    collection_id: collection.id,
    parameters: { temperature: 0, max_tokens: 50 },
    string: template.replace('greeting', greeting['slug']),
    virtual_key: 'echo',
    model: 'mock-1',
  });
  const { slug } = made;
  assert.match(slug, /^pp-greeter-[a-z]{6}$/);
  const patched = { patch: true, model: 'mock-2', version_description: 'Another model' };
  const updated = await prompts.update(slug, patched);
  const label = await portkey.labels.create({ name: 'beta' });
  await prompts.versions.update(slug, updated['prompt_version_id'], { label_id: label.id });
  const stored = await prompts.retrieve(slug);
  assert.deepEqual(
    [stored['prompt_version'], stored['model'], stored['prompt_version_status']],
    [1, 'mock-1', 'active'],
  );
  assert.equal((await prompts.retrieve(`${slug}@beta`))['model'], 'mock-2');
  const [latest] = entries(await prompts.versions.list(slug));
  assert.deepEqual([latest.prompt_version, latest.label_id, latest.status], [2, label.id, 'archived']);
  assert.equal((await prompts.versions.retrieve(slug, latest.id)).string, stored['string']);
  assert.equal((await prompts.list({ collection_id: collection.id })).total, 1);
  for (const used of [prompts.partials.delete(greeting['slug']), portkey.labels.delete(label.id)])
    assert.equal(Reflect.get(await failureOf(used), 'status'), 409);

  const variables = { language: 'a "quoted" one', name: 'Ann\n"}]' };
  const rendered = await prompts.render({ promptID: made['id'], variables, max_tokens: 7 });
  assert.deepEqual(rendered.success, true);
  assert.deepEqual(rendered.data, {
    messages: [
      { role: 'system', content: 'You speak a "quoted" one.' },
      { role: 'user', content: 'Say hello Ann\n"}]' },
    ],
    model: 'mock-1',
    temperature: 0,
    max_tokens: 7,
  });
  const incomplete = await prompts.render({ promptID: slug, variables: {} });
  assert.deepEqual((incomplete.data as { messages?: unknown } | undefined)?.messages, [
    { role: 'system', content: 'You speak .' },
    { role: 'user', content: 'Say hello' },
  ]);
  const strict: object = { promptID: slug, variables: {}, strict: true };
  assert.match((await failureOf(prompts.render(strict))).message, /variable \\"language\\"/);

  await learn();
  const before = gateway.settled.length;
  const answer = await prompts.completions.create({ promptID: slug, variables });
  assert.equal(answer['object'], 'chat.completion');
  const { facts } = await gateway.untilSettled(before + 1);
  assert.deepEqual([facts.prompt, facts.provider, facts.modelRequested], [slug, 'echo', 'mock-1']);
  const stream = await prompts.completions.create({ promptID: `${slug}@beta`, variables, stream: true });
  let text = '';
  for await (const chunk of stream) text += chunk['choices'][0]?.delta?.content ?? '';
  assert.notEqual(text, '');
  const streamed = await gateway.untilSettled(before + 2);
  assert.equal(streamed.facts.modelRequested, 'mock-2');

  await prompts.publish(slug, { version: 2 });
  assert.equal((await prompts.retrieve(slug))['model'], 'mock-2');
  await prompts.delete(slug);
  assert.equal(Reflect.get(await failureOf(prompts.retrieve(slug)), 'status'), 404);
  await prompts.partials.delete(greeting['slug']);
});
