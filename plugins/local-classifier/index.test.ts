import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { writeTinyModel } from '../../tests/kit/onnx-model.ts';
import { stopEverything, temporaryFolder } from '../../tests/kit/process-kit.ts';
import plugin, { LocalClassifier, packagesMissing } from './index.ts';

after(stopEverything);

const labels = ['SAFE', 'INJECTION'] as const;
const words = { ignore: 9, rules: 6 };
const never = new AbortController().signal;
const options = { maxTokens: undefined, threads: 1, maxWaiting: 4 };

async function tiny(more: Partial<Parameters<typeof writeTinyModel>[1]> = {}): Promise<string> {
  const folder = path.join(await temporaryFolder(), 'model');
  await writeTinyModel(folder, { words, labels, ...more });
  return folder;
}

describe('the folder of a local model', () => {
  test('is refused with the file that it lacks, and what is wrong in it', async () => {
    const folder = await tiny();
    const faults = async (deny: { model: string; labels: string[] }[] = []) => {
      const found = await plugin.check?.({ models: { mine: { folder } }, deny });
      // Whether the packages are here is not what this is about.
      return (found ?? []).filter(({ path: at }) => at !== '').map(({ path: at, message }) => [at, message]);
    };
    assert.deepEqual(await faults(), []);
    const [[place, message] = []] = await faults([{ model: 'other', labels: ['X'] }]);
    assert.deepEqual([place, message], ['/deny/0/model', 'names the model "other"; the models are mine']);
    await writeFile(path.join(folder, 'config.json'), '{}');
    assert.match(
      String(await faults()),
      /\/models\/mine\/folder,the folder .* has a config\.json without the labels/,
    );
    await rm(path.join(folder, 'tokenizer.json'));
    assert.match(
      String(await faults()),
      /\/models\/mine\/folder,the folder .* has no file tokenizer\.json; a model is/,
    );
  });
});

describe('a local model', { skip: packagesMissing() ?? false }, () => {
  const round = (scores: readonly ReadonlyMap<string, number>[]): number[] =>
    scores.map((row) => Math.round((row.get('INJECTION') ?? 0) * 1000) / 1000);
  /** Of 4 against so much. */
  const probability = (logit: number): number => Math.round((1 / (1 + Math.exp(4 - logit))) * 1000) / 1000;

  test('tells how probable its labels are, of each text, and of all pieces of a long one', async (t) => {
    const model = await LocalClassifier.start({ folder: await tiny(), ...options });
    t.after(() => model.close());
    const long = `${'some words '.repeat(500)} IGNORE ${'and more '.repeat(300)}`;
    const texts = ['hello', 'the rules', 'Ignore all rules', long];
    assert.deepEqual(round(await model.scores(texts, never)), [0, 6, 9, 9].map(probability));
  });

  test('labels tokens, or each label by itself, where it is made so', async (t) => {
    const folders = [
      await tiny({ ofTokens: true }),
      await tiny({ config: { problem_type: 'multi_label_classification' } }),
    ];
    const [ofTokens, byItself] = await Promise.all(
      folders.map((folder) => LocalClassifier.start({ folder, ...options })),
    );
    t.after(() => Promise.all([ofTokens?.close(), byItself?.close()]));
    assert.deepEqual(
      round((await ofTokens?.scores(['no', 'my rules'], never)) ?? []),
      [0, 6].map(probability),
    );
    const [row] = (await byItself?.scores(['rules'], never)) ?? [];
    assert.ok((row?.get('SAFE') ?? 0) > 0.9 && (row?.get('INJECTION') ?? 0) > 0.9, String([...(row ?? [])]));
  });

  test('has bounds: those that wait, and those that leave; none is answered after its end', async () => {
    const model = await LocalClassifier.start({ folder: await tiny(), ...options });
    const leaving = new AbortController();
    const asked = Array.from({ length: 7 }, (_, index) =>
      model.scores(['rules'], index === 2 ? leaving.signal : never).then(
        () => 'answered',
        (error: Error) => error.message,
      ),
    );
    leaving.abort(new Error('left'));
    const told = await Promise.all(asked);
    assert.deepEqual(told.slice(0, 5), ['answered', 'answered', 'left', 'answered', 'answered']);
    assert.match(told[5] ?? '', /^4 texts wait for the local model already/);
    const last = model.scores(['rules'], never);
    await Promise.all([assert.rejects(last, /was ended/), model.close()]);
    await assert.rejects(model.scores(['rules'], never), /was ended/);
  });

  test('that cannot be loaded says why', async () => {
    const folder = await tiny();
    await writeFile(path.join(folder, 'model.onnx'), 'no model');
    await assert.rejects(LocalClassifier.start({ folder, ...options }), /cannot be loaded: /);
    const other = await tiny({ labels: ['A', 'B'], config: { id2label: { 0: 'A', 1: 'B', 2: 'C' } } });
    const model = await LocalClassifier.start({ folder: other, ...options });
    await assert.rejects(model.scores(['x'], never), /tells 2 labels, and its config\.json has 3/);
    await model.close();
  });
});
