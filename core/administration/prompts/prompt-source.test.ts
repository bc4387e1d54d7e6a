import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { DirectoryStanding } from '../../ports/directory.ts';
import type { PromptData } from '../../ports/record-kinds.ts';
import type { RecordVersion, StoredRecord } from '../../ports/records.ts';
import type { Resources } from '../../ports/resources.ts';
import { findPrompt, includedPartials } from './find-prompt.ts';
import { DirectorySource, type PromptSource } from './prompt-source.ts';
import { compileTemplate } from './template.ts';

const envelope = {
  organisationId: 'o',
  workspaceId: 'w',
  parentId: '',
  secrets: {},
  status: 'active' as const,
  createdBy: '',
  updatedBy: '',
  createdAt: 0,
  updatedAt: 0,
  version: 1,
};
const data: PromptData = {
  template: 'one',
  parameters: {},
  virtualKey: '',
  model: '',
  functions: [],
  tools: [],
  toolChoice: null,
  metadata: {},
  isRawTemplate: false,
  defaultVersion: 1,
};
const prompt: StoredRecord<'prompt'> = {
  ...envelope,
  kind: 'prompt',
  id: 'p',
  slug: 'pp-p',
  name: 'P',
  data,
};
const place = { organisationId: 'o', workspaceId: 'w' };

/** A directory of these records, in front of a store with versions 1 and 2 of the prompt, which counts its readings. */
function setUp(record: () => StoredRecord, standing: () => DirectoryStanding = () => 'current') {
  const asked: unknown[] = [];
  const version = (number: number): RecordVersion => ({
    id: `v${number}`,
    recordId: 'p',
    number,
    name: 'P',
    data: { ...data, template: `number ${number}` },
    description: '',
    labelId: '',
    createdBy: '',
    createdAt: 0,
  });
  const records = {
    version(
      _kind: string,
      _organisation: string,
      _id: string,
      wanted: { number?: number; labelId?: string },
    ) {
      asked.push(wanted);
      const number = wanted.number ?? 2;
      return Promise.resolve(number > 2 ? undefined : version(number));
    },
    versions() {
      asked.push('latest');
      return Promise.resolve({ total: 2, data: [version(2)] });
    },
  };
  const resources = {
    read: (work: (reader: unknown) => unknown) => work({ records }),
  } as unknown as Resources;
  const label = { ...envelope, kind: 'label', id: 'l', slug: 'beta', name: 'beta' };
  const find = (kind: string, _place: unknown, name: string) =>
    [record(), label].find((one) => one.kind === kind && [one.id, one.slug].includes(name));
  const source = new DirectorySource({ record: find as never, standing }, resources);
  const template = async (reference: string) => (await findPrompt(source, place, reference)).data.template;
  return { asked, template };
}

describe('a prompt on the request path', () => {
  test('is served by default without asking the store', async () => {
    const { asked, template } = setUp(() => prompt);
    assert.deepEqual([await template('p'), await template('pp-p@1'), asked], ['one', 'one', []]);
  });

  test('is read once for another version, and again for labels and the latest when it changed', async () => {
    let record = prompt;
    const { asked, template } = setUp(() => record);
    for (const reference of ['p@2', 'p@latest', 'p@beta'])
      for (let time = 0; time < 2; time++) assert.equal(await template(reference), 'number 2');
    assert.deepEqual(asked, [{ number: 2 }, 'latest', { labelId: 'l' }]);
    record = { ...prompt, version: 2 };
    for (const reference of ['p@2', 'p@latest', 'p@beta']) await template(reference);
    assert.equal(asked.length, 5);
  });

  test('that is not there, or not in this version, is resource_not_found', async () => {
    const { template } = setUp(() => prompt);
    for (const reference of ['q', 'p@3', 'p@gamma', 'p@@'])
      await assert.rejects(template(reference), { code: 'resource_not_found' });
  });
});

describe('a prompt while the store that may know it is away', () => {
  for (const standing of ['behind', 'unknown'] as const)
    test(`can be asked for again when it is not found (${standing})`, async () => {
      const { template } = setUp(
        () => prompt,
        () => standing,
      );
      const again = { code: 'store_unavailable', status: 503, message: /cannot be read now/ };
      for (const reference of ['q', 'pp-other', 'p@3', 'p@gamma'])
        await assert.rejects(template(reference), again, reference);
      assert.equal(await template('p'), 'one');
      await assert.rejects(template('p@@'), { code: 'resource_not_found' });
    });

  test('is not called faulty for a partial that is not found', async () => {
    const source: PromptSource = { record: () => undefined, version: () => undefined, isBehind: true };
    await assert.rejects(includedPartials(source, place, ['other']), { code: 'store_unavailable' });
  });
});

describe('partials', () => {
  const sourceOf = (texts: Readonly<Record<string, string>>): PromptSource => ({
    record(kind, _place, name) {
      const text = texts[name];
      if (kind !== 'prompt_partial' || text === undefined) return undefined;
      const partial = { ...envelope, kind, id: `id-${name}`, slug: name, name };
      return { ...partial, data: { template: text, defaultVersion: 1 } } as never;
    },
    version: () => undefined,
    isBehind: false,
  });
  const include = (texts: Readonly<Record<string, string>>, ...names: string[]) =>
    includedPartials(sourceOf(texts), place, names);

  test('are found with what they include', async () => {
    const found = await include({ a: '{{>b}}{{>c}}', b: '{{>c}}', c: 'x' }, 'a');
    assert.deepEqual([...found.keys()].sort(), ['a', 'b', 'c']);
  });

  const bad: readonly [name: string, texts: Record<string, string>, message: RegExp][] = [
    ['a circle', { a: '{{>b}}', b: '{{>c}}', c: '{{>b}}' }, /in a circle: b → c → b/],
    ['what is not there', { a: '{{>nobody}}' }, /there is no partial "nobody"/],
    ['a version that is not there', { a: '{{>b@7}}', b: '' }, /has no version that|no version number 7/],
    ['a label', { a: '{{>b@beta}}', b: '' }, /slug@5/],
    [
      'eleven levels',
      Object.fromEntries(
        Array.from({ length: 12 }, (_, at) => [at === 0 ? 'a' : `n${at}`, `{{>n${at + 1}}}`]),
      ),
      /more than 10 deep/,
    ],
  ];
  for (const [name, texts, message] of bad)
    test(`are refused for ${name}`, () =>
      assert.rejects(include(texts, 'a'), { code: 'invalid_request', message }));

  test('that are to be saved are looked at as if they were', async () => {
    const self = { id: 'id-a', slug: 'a', template: compileTemplate('{{>b}}') };
    const source = sourceOf({ a: 'old', b: '{{>a}}' });
    await assert.rejects(includedPartials(source, place, ['b'], self), /in a circle: a → b → a/);
  });
});
