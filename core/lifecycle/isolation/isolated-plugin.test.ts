import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { startTestGateway, providerPlugin, type PlacedPlugin } from '../../../tests/kit/gateway-kit.ts';
import { send } from '../../../tests/kit/http-kit.ts';
import { eventually } from '../../../tests/kit/process-kit.ts';
import { type AnyPlugin, GatewayError } from '../../pipeline/plugin.ts';
import { pluginFolder } from '../plugin-files.test-support.ts';
import { realClock } from '../recording-services.test-support.ts';
import { isolatedDefinition } from './isolated-plugin.ts';
import { endings, usual } from './isolated-checks.test-support.ts';
import type { IsolationLimits } from './isolated-thread.ts';

async function isolated(t: TestContext, source: string, limits = usual) {
  const where = await pluginFolder(t);
  await where.write({
    'theirs.ts': `import { definePlugin, GatewayError, judged, Type, defineKey } from 'weir-gateway/plugin';\n${source}`,
  });
  const place = { file: 'x.yaml', line: 1, column: 1 };
  const entry = where.path('theirs.ts');
  const bundled = await where.bundler.bundle({ entry, folder: where.folder, place, pointer: '' });
  if (!bundled.ok) assert.fail(JSON.stringify(bundled.problems));
  const file = await where.bundler.write(bundled.bundle);
  return isolatedDefinition({ file, limits, clock: realClock });
}

async function loaded(t: TestContext, source: string, limits?: IsolationLimits): Promise<AnyPlugin> {
  const made = await isolated(t, source, limits);
  return 'definition' in made ? made.definition : assert.fail(made.faults.join('; '));
}

async function serving(t: TestContext, plugin: AnyPlugin, placed: Omit<PlacedPlugin, 'plugin'> = {}) {
  const gateway = await startTestGateway(t, {
    plugins: [{ plugin, ...placed }, providerPlugin()],
    guardedFetch: {
      fetch: ({ url }) => ({
        answer: Promise.reject(new GatewayError('address_refused', `Not ${url}.`)),
        abort: () => undefined,
      }),
    },
  });
  const ask = (content: string, more: Record<string, unknown> = {}) =>
    send(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'x-service-provider': 'mock', 'content-type': 'application/json', 'x-custom': 'theirs' },
      body: { model: 'mock-gpt', messages: [{ role: 'user', content }], ...more },
    });
  return { gateway, ask };
}

describe('a plugin in a thread of its own', () => {
  test('sees requests and attempts, changes them, refuses and answers', async (t) => {
    const plugin = await loaded(
      t,
      `export default definePlugin({
        name: 'theirs',
        schema: Type.Object({ word: Type.String() }, { additionalProperties: false }),
        capabilities: { reads: ['request.text', 'request.json'], changes: ['request.json'], guardrail: true },
        check: ({ word }) => (word === 'bad' ? [{ path: '/word', message: 'no' }] : []),
        create({ word }, scope) {
          scope.log.info('created', { word });
          return {
            request(context) {
              const [first] = context.conversation.texts;
              if (first.text.includes('refuse')) throw new GatewayError('hooks_failed', 'No: ' + word);
              if (first.text.includes('answer'))
                return { status: 418, headers: ['content-type', 'text/plain'], body: Buffer.from('theirs') };
              if (first.text.includes('throw')) throw new TypeError('broken');
              context.body.set(['messages', 0, 'content'], first.text + ' ' + word + ' ' + context.header('x-custom'));
              context.addResponseHeader('x-said', String(context.json.messages[0].content));
              context.set(judged, 'changed');
            },
            attempt(context) {
              context.attempt.body.set(['messages', 0, 'content'], context.attempt.body.json.messages[0].content + ' at ' + context.attempt.provider);
            },
            settled(context, { kind, status }) {
              scope.log.info('settled', { kind, status });
            },
          };
        },
      });`,
    );
    assert.equal(plugin.name, 'theirs');
    assert.deepEqual(await plugin.check?.({ word: 'bad' }), [{ path: '/word', message: 'no' }]);
    const { gateway, ask } = await serving(t, plugin, { options: { word: 'kind' } });
    const changed = await ask('Hello');
    assert.equal(changed.status, 200);
    assert.equal(changed.headers['x-said'], 'Hello kind theirs');
    assert.match(changed.text, /Hello kind theirs at mock/);
    const refused = await ask('refuse');
    assert.deepEqual([refused.status, /No: kind/.test(refused.text)], [446, true]);
    const answered = await ask('answer');
    assert.deepEqual([answered.status, answered.text], [418, 'theirs']);
    const failed = await ask('throw');
    assert.deepEqual([failed.status, /plugin_failed/.test(failed.text)], [500, true]);
    const { facts } = await gateway.untilSettled(1);
    assert.deepEqual(
      facts.verdicts.map(({ hook, verdict }) => `${hook} ${verdict}`),
      ['request changed', 'attempt unknown'],
    );
    await eventually(
      () => gateway.lines.filter(({ message }) => message === 'settled').length === 4 || undefined,
    );
    assert.ok(
      gateway.lines.some(({ message, fields }) => message === 'created' && fields['word'] === 'kind'),
    );
  });

  test('changes answers, whole, held and event by event', async (t) => {
    const house = (stream: string): string => `export default definePlugin({
      name: 'theirs',
      capabilities: { reads: ['response.text'], changes: ['response.text'], stream: '${stream}' },
      create: () => ({
        response(context) {
          context.response.setTexts((part) => part.text.replaceAll('said', 'wrote'));
          context.response.setHeader('x-house', String(context.response.texts[0].text.includes('wrote')));
        },
        ${
          stream === 'window'
            ? `stream() {
          let held = '';
          let last;
          return {
            event(event, emit) {
              if (event.type !== 'text-delta') return emit(event);
              held += event.text;
              last = event;
            },
            end(emit) { if (last) emit({ ...last, text: held.replaceAll('said', 'wrote') }); },
          };
        },`
            : ''
        }
      }),
    });`;
    for (const stream of ['hold', 'window']) {
      const { ask } = await serving(t, await loaded(t, house(stream)));
      const whole = await ask('Hello');
      assert.match(whole.text, /You wrote/);
      assert.equal(whole.headers['x-house'], 'true');
      const streamed = await ask('Hello', { stream: true });
      assert.match(streamed.text, /data: \[DONE\]/);
      const said = [...streamed.text.matchAll(/"content":"((?:[^"\\]|\\.)*)"/g)]
        .map(([, text]) => text)
        .join('');
      assert.match(said, /^You wrote/);
    }
  });

  test('observes streams without changing a byte', async (t) => {
    const plugin = await loaded(
      t,
      `export default definePlugin({
        name: 'theirs',
        capabilities: { stream: 'observe' },
        create: (_, scope) => ({
          stream() {
            let text = '';
            return {
              event(event, emit) { if (event.type === 'text-delta') text += event.text; emit(event); },
              end() { scope.log.info('seen', { text }); },
            };
          },
        }),
      });`,
    );
    const { gateway, ask } = await serving(t, plugin);
    const streamed = await ask('Hello', { stream: true });
    assert.match(streamed.text, /data: \[DONE\]/);
    await eventually(() => gateway.lines.find(({ message }) => message === 'seen'));
    assert.match(
      String(gateway.lines.find(({ message }) => message === 'seen')?.fields['text']),
      /^You said/,
    );
  });

  for (const [what, code, limits, reason] of endings) {
    test(`${what} ends the thread, which is started again, and nothing else`, async (t) => {
      const plugin = await loaded(
        t,
        `export default definePlugin({
          name: 'theirs',
          capabilities: { reads: ['request.text'] },
          create: () => ({
            async request(context) {
              if (context.conversation.texts[0].text === 'break') { ${code} }
              context.addResponseHeader('x-theirs', 'yes');
            },
          }),
        });`,
        limits,
      );
      const { gateway, ask } = await serving(t, plugin);
      assert.equal((await ask('Hello')).status, 200);
      const broken = await ask('break');
      assert.equal(broken.status, 500);
      assert.match(broken.text, /plugin_failed/);
      await eventually(async () => (await ask('Hello')).headers['x-theirs'] === 'yes' || undefined);
      assert.equal(gateway.metrics.get(`weir_plugin_thread_stops_total{plugin=theirs,reason=${reason}}`), 1);
    });
  }

  test('what does not reach a thread is refused when it is loaded, or created', async (t) => {
    const faults = async (source: string): Promise<string> => {
      const made = await isolated(t, source);
      return 'faults' in made ? made.faults.join() : 'loaded';
    };
    assert.match(
      await faults(
        `export default definePlugin({ name: 'theirs', capabilities: { routes: true }, create: () => ({}) });`,
      ),
      /A route .* does not reach a plugin that runs in a thread of its own; remove "isolate"/,
    );
    await assert.rejects(
      isolated(
        t,
        `const key = defineKey('mine'); export default definePlugin({ name: 'theirs', create: () => ({}) });`,
      ),
      /A key of its own \(defineKey\) does not reach/,
    );
    for (const [hooks, sentence] of [
      ['(_, { router }) => ({ request() { router.plan(); } })', /scope\.router does not reach/],
      ['() => ({ attempted() {} })', /The hook "attempted" does not reach/],
    ] as const) {
      const plugin = await loaded(t, `export default definePlugin({ name: 'theirs', create: ${hooks} });`);
      await assert.rejects(startTestGateway(t, { plugins: [plugin, providerPlugin()] }), sentence);
    }
  });

  test('asks the gateway for counters, the cache and guarded fetches', async (t) => {
    const plugin = await loaded(
      t,
      `export default definePlugin({
        name: 'theirs',
        create: (_, scope) => ({
          async request(context) {
            await scope.cache.set('theirs', Buffer.from('kept'), 60000);
            const kept = Buffer.from((await scope.cache.get('theirs')).bytes).toString();
            const { allowed } = await scope.counters.take([{ key: 'theirs', limit: 1, windowMs: 60000 }], 1);
            const refused = await scope.guardedFetch.fetch({ url: 'http://127.0.0.1/', timeoutMs: 1000, maxBytes: 10 }).answer.catch(({ code }) => code);
            scope.metrics.counter({ name: 'theirs_total', help: 'x', labels: ['kind'] })({ kind: 'one' }).inc(2);
            context.addResponseHeader('x-theirs', [kept, allowed, refused].join());
          },
        }),
      });`,
    );
    const { gateway, ask } = await serving(t, plugin);
    assert.equal((await ask('Hello')).headers['x-theirs'], 'kept,true,address_refused');
    assert.equal((await ask('Hello')).headers['x-theirs'], 'kept,false,address_refused');
    await eventually(() => gateway.metrics.get('theirs_total{kind=one}') === 4 || undefined);
  });
});
