// What guardrails do with the checks of a plugin is the same whether its code runs here or in a thread of its own.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Asked, loaded, serving, usual } from './isolated-checks.test-support.ts';

const offering = `
const seen = { calls: 0 };
const theirs = defineCheck({
  id: 'acme.theirs',
  aliases: ['acme.other'],
  description: 'Does as it is told.',
  phases: ['input', 'output'],
  schema: Type.Object({ does: Type.String(), word: Type.Optional(Type.String()) }, { additionalProperties: false }),
  check: ({ word }) => (word === '' ? [{ path: '/word', message: 'must not be empty' }] : []),
  reach: ({ does, word = 'Zanzibar' }) => (does === 'endless' ? Infinity : word.length),
  create({ does, word = 'Zanzibar' }, scope) {
    if (does === 'no-create') throw new TypeError('it cannot be made');
    return (subject) => {
      const found = subject.texts.some(({ text }) => text.includes(word));
      switch (does) {
        case 'find': return found ? failed({ found: word, at: subject.texts.map(({ path }) => path.join('/')) }) : passed();
        case 'skip': return skipped('nothing here');
        case 'throw': throw new TypeError('no route');
        case 'refuse': throw new GatewayError('overloaded', 'Too much.');
        case 'nonsense': return { verdict: 'fine' };
        case 'much': return passed('x'.repeat(70000));
        case 'function': return failed({ a: () => 1, b: 2 });
        case 'wait': return new Promise(() => {});
        case 'late': return Promise.resolve(passed({ late: true }));
        case 'abort': return new Promise((resolve) => subject.signal.addEventListener('abort', () => { scope.log.info('aborted'); resolve(passed()); }));
        case 'change': subject.setTexts(({ text }) => text.replaceAll(word, '[x]')); return passed();
        case 'tell': {
          const { id, phase, endpoint, provider, service, model, metadata, caller, text, json, request } = subject;
          return failed({ phase, endpoint, provider, service, model, metadata, caller: caller ?? null, text, id: id !== '', model2: json?.model ?? null, said: request.text, of: request.texts.length, asked: request.json.messages.length, header: subject.header('x-custom'), no: subject.header('x-no') ?? null });
        }
      }
    };
  },
});
const changing = defineCheck({
  id: 'acme.changing',
  description: 'Changes what it judges.',
  phases: ['input', 'output'],
  changes: true,
  schema: Type.Object({ does: Type.String() }, { additionalProperties: false }),
  create: ({ does }) => async (subject) => {
    await undefined;
    if (does === 'set') subject.set(['user'], 'somebody');
    else if (does === 'places') subject.replaceAll(subject.texts.map(({ path, text }) => ({ path, value: text.replaceAll('Zanzibar', '[y]') })));
    else if (does === 'nowhere') subject.set(['a', 'b', 'c'], 1);
    else subject.setTexts(({ text }) => text.replaceAll('Zanzibar', '[x]'));
    if (does === 'break') throw new Error('broken after a change');
    return passed({ text: subject.text, first: subject.texts[0].text, user: subject.json?.user ?? null, model: subject.json?.model ?? null });
  },
});
export default definePlugin({ name: 'theirs', offers: [theirs, changing], create: () => ({}) });
`;

const check = (does: string, more: object = {}) => ({ 'acme.theirs': { does }, ...more });
const changes = (does: string, more: object = {}) => ({ 'acme.changing': { does }, ...more });
const input = (...list: object[]) => ({ input_guardrails: list });
const output = (...list: object[]) => ({ output_guardrails: list });
const streamed = { stream: true };

interface Behaviour {
  readonly config: object;
  readonly text?: string;
  readonly body?: object;
  readonly status: number;
  readonly records?: readonly string[];
  readonly has?: RegExp;
  readonly hasNot?: RegExp;
}

const behaviours: Readonly<Record<string, Behaviour>> = {
  'a check that finds nothing passes': {
    config: input(check('find', { deny: true })),
    text: 'Hello',
    status: 200,
    records: ['attempt passed'],
  },
  'a check that finds something refuses': {
    config: input(check('find', { deny: true })),
    status: 446,
    records: ['attempt refused'],
    has: /"found":"Zanzibar","at":\["messages\/0\/content"\]/,
  },
  'a check that finds something flags': {
    config: input(check('find')),
    status: 246,
    records: ['attempt flagged'],
  },
  'another id of the check is the same': {
    config: input({ 'acme.other': { does: 'find' }, deny: true }),
    status: 446,
    records: ['attempt refused'],
  },
  'a check that skips': {
    config: input(check('skip', { deny: true })),
    status: 200,
    records: ['attempt skipped'],
  },
  'a check that answers later': {
    config: input(check('late', { deny: true })),
    status: 200,
    records: ['attempt passed'],
  },
  'a check that throws has not passed': {
    config: input(check('throw', { deny: true })),
    status: 446,
    records: ['attempt failed'],
    has: /"name":"TypeError","message":"no route"/,
  },
  'a check that throws, on_error: pass': {
    config: input({ 'acme.theirs': { does: 'throw', on_error: 'pass' }, deny: true }),
    status: 200,
    records: ['attempt failed'],
  },
  'a check that throws, on_error: fail': {
    config: input({ 'acme.theirs': { does: 'throw', on_error: 'fail' } }),
    status: 246,
    records: ['attempt failed'],
  },
  'a check that throws a refusal': {
    config: input(check('refuse', { deny: true })),
    status: 446,
    records: ['attempt failed'],
    has: /Too much/,
  },
  'a check that cannot be made': {
    config: input(check('no-create', { deny: true })),
    status: 446,
    records: ['attempt failed'],
    has: /it cannot be made/,
  },
  'a verdict that is none': {
    config: input(check('nonsense', { deny: true })),
    status: 446,
    records: ['attempt failed'],
    has: /must return passed\(\)/,
  },
  'more data than a result may have': {
    config: input(check('much', { deny: true })),
    status: 446,
    records: ['attempt failed'],
    has: /JSON of 65536 characters/,
  },
  'data that JSON cannot hold is left out': {
    config: input(check('function', { deny: true })),
    status: 446,
    records: ['attempt refused'],
    has: /"data":\{"b":2\}/,
  },
  'a check out of time': {
    config: input({ 'acme.theirs': { does: 'wait', timeout_ms: 60 }, deny: true }),
    status: 446,
    records: ['attempt failed'],
    has: /it has not judged within 60 ms/,
  },
  'a check out of time, on_error: pass': {
    config: input({ 'acme.theirs': { does: 'wait', timeout_ms: 60, on_error: 'pass' }, deny: true }),
    status: 200,
    records: ['attempt failed'],
  },
  'a change that is not declared': {
    config: input(check('change', { deny: true })),
    status: 446,
    records: ['attempt failed'],
    has: /does not declare \\"changes: true\\"/,
  },
  'all that a check sees of a request': {
    config: input(check('tell')),
    status: 246,
    records: ['attempt flagged'],
    has: /"said":"Hello Zanzibar","of":1,"asked":1,"header":"theirs","no":null/,
  },
  'all that a check sees of an answer': {
    config: output(check('tell')),
    status: 246,
    records: ['attempted flagged'],
    has: /"phase":"output".*"text":"You said.*"said":"Hello Zanzibar","of":1/,
  },
  'texts of a request are changed': {
    config: input(changes('texts')),
    status: 200,
    records: ['attempt changed'],
    has: /You said.*\[x\]/,
    hasNot: /Zanzibar/,
  },
  'places of a request are changed': {
    config: input(changes('places')),
    status: 200,
    records: ['attempt changed'],
    has: /You said.*\[y\]/,
    hasNot: /Zanzibar/,
  },
  'a member of a request is set': {
    config: input(changes('set')),
    status: 200,
    records: ['attempt changed'],
    has: /"user":"somebody"/,
  },
  'a place that does not exist': {
    config: input(changes('nowhere', { deny: true })),
    status: 446,
    records: ['attempt failed'],
    has: /Cannot set/,
  },
  'a check that breaks after its change': {
    config: input(changes('break')),
    status: 200,
    records: ['attempt failed'],
    has: /\[x\]/,
    hasNot: /Zanzibar/,
  },
  'the next check sees the change': {
    config: input(changes('texts'), check('find', { deny: true })),
    status: 200,
    records: ['attempt changed', 'attempt passed'],
  },
  'texts of an answer are changed': {
    config: output(changes('texts')),
    status: 200,
    records: ['attempted changed'],
    has: /You said.*\[x\]/,
  },
  'texts of a stream are changed, which is held': {
    config: output(changes('texts')),
    body: streamed,
    status: 200,
    records: ['attempted changed'],
    hasNot: /Zanzibar/,
  },
  'an answer is refused': {
    config: output(check('find', { deny: true })),
    status: 446,
    records: ['attempted refused'],
  },
  'a stream is held and refused': {
    config: output(check('find', { deny: true, stream: 'hold' })),
    body: streamed,
    status: 446,
    records: ['attempted refused'],
  },
  'a stream is held and passes': {
    config: output(check('find', { deny: true, stream: 'hold' })),
    text: 'Hello',
    body: streamed,
    status: 200,
    records: ['attempted passed'],
    has: /\[DONE\]/,
  },
  'a stream is judged in a window and refused': {
    config: output(check('find', { deny: true, stream: 'window' })),
    body: streamed,
    status: 200,
    records: ['stream refused'],
    has: /refused the answer/,
    hasNot: /Zanzibar/,
  },
  'a stream is judged in a window and passes': {
    config: output(check('find', { deny: true, stream: 'window' })),
    text: 'Hello there, and more of it',
    body: streamed,
    status: 200,
    records: ['stream passed'],
    has: /\[DONE\]/,
  },
  'a window whose check breaks': {
    config: output(check('throw', { deny: true, stream: 'window' })),
    body: streamed,
    status: 200,
    records: ['stream failed'],
    has: /could not judge it: no route/,
    hasNot: /You said/,
  },
  'a stream is observed': {
    config: output(check('find', { stream: 'observe' })),
    body: streamed,
    status: 200,
    records: ['stream flagged'],
    has: /\[DONE\]/,
  },
  'all that a check sees of a stream': {
    config: output(check('tell', { stream: 'observe' })),
    body: streamed,
    status: 200,
    records: ['stream flagged'],
  },
  'a window for findings of any length is refused where it is named': {
    config: output(check('endless', { stream: 'window' })),
    status: 400,
    has: /findings have no greatest length/,
  },
  'parameters that the schema refuses': {
    config: input({ 'acme.theirs': { dose: 'find' } }),
    status: 400,
    has: /did you mean \\"does\\"/,
  },
  'parameters that the author refuses': {
    config: input({ 'acme.theirs': { does: 'find', word: '' } }),
    status: 400,
    has: /must not be empty/,
  },
  'a check that is unknown': {
    config: input({ 'acme.their': { does: 'find' } }),
    status: 400,
    has: /did you mean \\"acme\.theirs\\"/,
  },
};

describe('checks of a plugin', () => {
  for (const [where, limits] of [
    ['in the gateway', undefined],
    ['in a thread of its own', usual],
  ] as const)
    test(`the same ${where}`, async (t) => {
      const { ask } = await serving(t, await loaded(t, offering, limits));
      for (const [name, { config, text, body, status, records = [], has, hasNot }] of Object.entries(
        behaviours,
      ))
        await t.test(name, async () => {
          const said = await ask(config, text, body);
          assert.deepEqual([said.status, said.records], [status, records], said.text);
          if (has !== undefined) assert.match(said.text, has);
          if (hasNot !== undefined)
            assert.doesNotMatch(said.text.replaceAll(/"hook_results".*/g, ''), hasNot);
        });
    });

  test('what clients are told is the same in both', async (t) => {
    const here = await serving(t, await loaded(t, offering));
    const away = await serving(t, await loaded(t, offering, usual));
    const shown = ({ status, records, results }: Asked) => ({ status, records, results });
    for (const [name, { config, text, body }] of Object.entries(behaviours))
      assert.deepEqual(
        shown(await away.ask(config, text, body)),
        shown(await here.ask(config, text, body)),
        name,
      );
  });
});
