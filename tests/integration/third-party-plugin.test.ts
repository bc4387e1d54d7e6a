import assert from 'node:assert/strict';
import { cp, mkdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  makeHome,
  saidBy,
  startGateway,
  type Asking,
  type GatewayProcess,
  type Home,
} from '../kit/gateway-process.ts';
import { send } from '../kit/http-kit.ts';
import { eventually, ownerKey, stopEverything } from '../kit/process-kit.ts';
import { SteadyLoad } from '../kit/steady-load.ts';

const examples = fileURLToPath(new URL('../../examples/plugins', import.meta.url));

/** Each plugin is a line of YAML and stands between `auth` and `provider`; `note` makes two files differ. */
function configuration(plugins: readonly string[], note = ''): string {
  return `# ${note}
version: 1
storage: { analytics: { url: "none:" } }
pipelines:
  - name: gateway
    match: { path: /** }
    plugins:
      - auth
${plugins.map((line) => `      - ${line}\n`).join('')}      - provider
      - logger
`;
}

function stamp(mark: string): string {
  return `export const mark: string = '${mark}';\n`;
}

/** Puts its option, its module's mark and its own version into a header of the answer. */
function stamper(version: string, more = ''): string {
  return `import { definePlugin, GatewayError, Type } from 'weir-gateway/plugin';
import { mark } from './stamp.ts';

interface Named { readonly label: string }

export default definePlugin({
  name: 'stamper',
  schema: Type.Object({ label: Type.String() }, { additionalProperties: false }),
  capabilities: { reads: ['request.text'] },
  create(options: Named) {
    return {
      request(context) {
        ${more}
        if (context.conversation.texts.some(({ text }) => text.includes('forbidden')))
          throw new GatewayError('hooks_failed', 'No: ' + mark);
        context.addResponseHeader('x-stamp', options.label + '-' + mark + '-${version}');
      },
    };
  },
});
`;
}

/** Does what a plugin should not when the prompt says so. */
const careless = `import { definePlugin } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'careless',
  capabilities: { reads: ['request.text'] },
  create() {
    return {
      request(context) {
        const said = context.conversation.texts.map(({ text }) => text).join();
        if (said.includes('timer')) setTimeout(() => { throw new Error('thrown by a bare timer'); }, 1);
        if (said.includes('float')) void later();
        if (said.includes('throw')) throw new TypeError('a secret detail');
        if (said.includes('reject')) return later();
      },
    };
  },
});

async function later(): Promise<void> {
  await Promise.resolve();
  throw new Error('rejected by a promise of its own');
}
`;

const shout = `import { definePlugin } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'shout',
  capabilities: { reads: ['response.json'], changes: ['response.text'], stream: 'window' },
  create() {
    return {
      response({ response }) {
        const content = response.json.choices[0].message.content;
        response.set(['choices', 0, 'message', 'content'], content.toUpperCase());
      },
      stream() {
        return {
          event(event, emit) {
            emit(event.type === 'text-delta' ? { ...event, text: event.text.toUpperCase() } : event);
          },
        };
      },
    };
  },
});
`;

/** Breaks in the middle of a stream, hangs, and ticks, as the prompt and its options say. */
const fragile = `import { definePlugin, Type } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'fragile',
  schema: Type.Object({ create: Type.Optional(Type.String()), tick: Type.Optional(Type.String()) }),
  capabilities: { reads: ['request.text'], changes: ['response.text'], stream: 'window' },
  create({ create, tick }, scope) {
    if (create === 'throws') throw new RangeError('it cannot be made');
    if (create === 'returns nothing') return undefined;
    if (tick) scope.setInterval(() => { throw new Error('tick ' + tick); }, 20);
    return {
      async request(context) {
        if (context.conversation.texts.some(({ text }) => text.includes('hang'))) await new Promise(() => {});
      },
      response() {},
      stream(context) {
        const breaks = context.conversation.texts.some(({ text }) => text.includes('break'));
        let seen = 0;
        return {
          event(event, emit) {
            seen += 1;
            if (breaks && seen === 5) throw new Error('the tap broke');
            emit(event);
          },
        };
      },
    };
  },
});
`;

const mask = `import { definePlugin, GatewayError } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'mask',
  capabilities: { reads: ['response.json'], changes: ['response.json'], stream: 'hold' },
  create() {
    return {
      response({ response }) {
        const content = response.json.choices[0].message.content;
        if (content.includes('unspeakable')) throw new GatewayError('hooks_failed', 'The answer is refused.');
        response.set(['choices', 0, 'message', 'content'], content.replace('mock provider', 'm*** provider'));
      },
    };
  },
});
`;

describe('a plugin outside of the project', { timeout: 90_000 }, () => {
  let home: Home;
  let gateway: GatewayProcess;
  let load: SteadyLoad;
  /** How much was logged before this test. */
  let loggedBefore = 0;

  beforeEach(() => {
    loggedBefore = gateway.stderr.length;
  });
  before(async () => {
    home = await makeHome(configuration([]));
    await mkdir(path.join(home.folder, 'plugins'));
    gateway = await startGateway(home);
    load = new SteadyLoad(gateway);
  });
  after(async () => {
    await load?.stop();
    await stopEverything();
    await home?.remove();
  });

  const configure = (...plugins: string[]): Promise<string> =>
    home.write('gateway.config.yaml', configuration(plugins));
  const stamped = async (): Promise<string | null> => (await gateway.ask()).headers.get('x-stamp');

  /** Asks until the stamp is this one, and then a few times more: no answer may fall back. */
  async function nextStamp(expected: string | null): Promise<void> {
    await eventually(
      async () => (await stamped()) === expected || undefined,
      () => `the stamp ${expected}; standard error: ${gateway.stderr}`,
    );
    for (let again = 0; again < 5; again += 1) assert.equal(await stamped(), expected);
  }

  /** Writes another configuration and waits until its generation serves. */
  async function swap(...plugins: string[]): Promise<void> {
    const { generation } = await gateway.status();
    await configure(...plugins);
    await eventually(
      async () => (await gateway.status())['generation'] !== generation || undefined,
      () => `another generation; standard error: ${gateway.stderr}`,
    );
  }

  const loggedSoon = (expected: RegExp): Promise<true> =>
    eventually(
      () => expected.test(gateway.stderr.slice(loggedBefore)) || undefined,
      () => `${expected} in standard error: ${gateway.stderr}`,
    );

  test('is added, reconfigured, rewritten and removed by editing files only', async () => {
    await home.write('plugins/stamp.ts', stamp('red'));
    await home.write('plugins/stamper.ts', stamper('v1'));
    await nextStamp(null);
    await configure('./plugins/stamper.ts: { label: first }');
    await nextStamp('first-red-v1');
    await configure('./plugins/stamper.ts: { label: second }');
    await nextStamp('second-red-v1');
    await home.write('plugins/stamp.ts', stamp('blue'));
    await nextStamp('second-blue-v1');
    await home.write('plugins/stamper.ts', stamper('v2'));
    await nextStamp('second-blue-v2');
    const refused = await gateway.ask({ content: 'something forbidden' });
    assert.equal(refused.status, 446);
    assert.match(refused.text, /No: blue/);
    await configure();
    await nextStamp(null);
    assert.equal((await gateway.ask({ content: 'something forbidden' })).status, 200);
  });

  test('with a mistake in it is not used: the old code serves, and the mistake has a place', async () => {
    await home.write('plugins/stamper.ts', stamper('v3'));
    await configure('./plugins/stamper.ts: { label: kept }');
    await nextStamp('kept-blue-v3');
    // The place is that of the file that holds the mistake, in its own lines.
    const cases: [string, string, string, RegExp][] = [
      ['stamper.ts', stamper('v4', 'const = 1;'), stamper('v3'), /plugins\/stamper\.ts:13:1[45]: /],
      ['stamp.ts', `\n\nexport const mark = ;\n`, stamp('blue'), /plugins\/stamp\.ts:3:2[01]: /],
      ['stamp.ts', `export const other = 1;\n`, stamp('blue'), /plugins\/stamper\.ts:2:\d+: .*"mark"/],
      ['stamper.ts', `import './none.ts';\n${stamper('v4')}`, stamper('v3'), /plugins\/stamper\.ts:1:\d+: /],
      ['stamper.ts', `export default 1;\n`, stamper('v3'), /stamper\.ts": it exports 1 as default/],
      [
        'stamper.ts',
        `${stamper('v4')}\nthrow new Error('at once');\n`,
        stamper('v3'),
        /stamper\.ts:\d+:\d+.*at once/,
      ],
    ];
    for (const [file, broken, right, expected] of cases) {
      await home.write(`plugins/${file}`, broken);
      const problems = await eventually(
        async () => ((await gateway.status())['config_error'] as { problems: string[] } | null)?.problems,
        () => `a refusal of ${broken}`,
      );
      assert.match(problems.join('\n'), expected);
      assert.match(gateway.stderr, expected);
      assert.equal(await stamped(), 'kept-blue-v3');
      await home.write(`plugins/${file}`, right);
      await eventually(
        async () => (await gateway.status())['config_error'] === null || undefined,
        () => `the repair; standard error: ${gateway.stderr}`,
      );
    }
    await nextStamp('kept-blue-v3');
  });

  test('that is deleted while it serves goes on serving', async () => {
    await rm(path.join(home.folder, 'plugins/stamper.ts'));
    await loggedSoon(/error .*plugins\/stamper\.ts.*\n.* keeps serving/);
    assert.equal(await stamped(), 'kept-blue-v3');
    await home.write('plugins/stamper.ts', stamper('v5'));
    await nextStamp('kept-blue-v5');
  });

  test('with options that its schema refuses is refused with the place', async () => {
    await configure('./plugins/stamper.ts: { lable: typo }');
    await loggedSoon(/gateway\.config\.yaml:9:\d+: .*lable.*did you mean "label"/);
    assert.equal(await stamped(), 'kept-blue-v5');
    await configure();
    await nextStamp(null);
  });

  test('that throws in a timer or lets a promise float is named, and the gateway lives on', async () => {
    await home.write('plugins/careless.ts', careless);
    await swap('./plugins/careless.ts');
    for (let time = 0; time < 3; time += 1) {
      assert.equal((await gateway.ask({ content: 'timer' })).status, 200);
      assert.equal((await gateway.ask({ content: 'float' })).status, 200);
    }
    await loggedSoon(
      /plugin "careless" threw where nothing catches.*thrown by a bare timer.*careless\.ts:\d+/s,
    );
    await loggedSoon(
      /plugin "careless" left a rejected promise unhandled.*rejected by a promise.*careless\.ts:\d+/s,
    );
    assert.equal((await gateway.ask()).status, 200);
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
    assert.match(metrics, /weir_plugin_errors_total\{[^}]*plugin="careless"[^}]*\} 3/);
  });

  test('whose hook throws refuses the request (on_error: fail) or is passed over (skip)', async () => {
    await swap('./plugins/careless.ts: { on_error: fail }');
    for (const content of ['throw', 'reject']) {
      const { status, text } = await gateway.ask({ content });
      const { error } = JSON.parse(text) as { error: { code: string; message: string } };
      assert.deepEqual([status, error.code], [500, 'plugin_failed']);
      assert.match(error.message, /"careless"/);
      assert.doesNotMatch(text, /secret detail/);
    }
    await loggedSoon(/A plugin failed.*plugin=careless.*hook=request.*a secret detail/);
    await swap('./plugins/careless.ts: { on_error: skip }');
    for (const content of ['throw', 'reject']) assert.equal((await gateway.ask({ content })).status, 200);
    assert.match(gateway.stderr, /A plugin failed.*on_error=skip/);
  });

  test('deny-words, the example, refuses prompts with these words', async () => {
    await cp(path.join(examples, 'deny-words.ts'), path.join(home.folder, 'plugins/deny-words.ts'));
    await swap('./plugins/deny-words.ts: { words: [Initech] }');
    const { status, text } = await gateway.ask({ content: 'What does INITECH do?' });
    assert.equal(status, 446);
    assert.match(text, /The prompt mentions \\"initech\\"/);
    assert.equal((await gateway.ask({ content: 'What does Initrode do?' })).status, 200);
    await loggedSoon(/refused a prompt.*word=initech/);
  });

  test('is found where the configuration names it: relative, above its folder too', async () => {
    const example = path.relative(home.folder, path.join(examples, 'deny-words.ts'));
    await swap(`${example}: { words: [Globex] }`);
    assert.equal((await gateway.ask({ content: 'globex' })).status, 446);
  });

  const say = async (asking: Asking): Promise<string> => saidBy(await (await gateway.open(asking)).text());

  test('with a tap changes what streams, piece by piece', async () => {
    await home.write('plugins/shout.ts', shout);
    await swap('./plugins/shout.ts');
    assert.match(await say({ stream: true, content: 'Straße' }), /^YOU SAID: "STRASSE"\. THIS ANSWER COMES/);
    assert.match((await gateway.ask()).text, /"YOU SAID: \\"HELLO\\"/);
    const { body } = await gateway.open({ stream: true, model: 'mock:tokens=30,chunk_latency_ms=50' });
    const reader = body!.getReader();
    const first = new TextDecoder().decode((await reader.read()).value);
    assert.doesNotMatch(first, /\[DONE\]/, 'the stream was collected instead of passed on');
    await reader.cancel();
  });

  /** The plugins of docs/plugins.md by their file names. */
  async function documented(name: string): Promise<string> {
    const page = await readFile(new URL('../../docs/plugins.md', import.meta.url), 'utf8');
    const [, code] = new RegExp(`\\n\`\`\`ts\\n(// plugins/${name}\\n.*?)\`\`\``, 's').exec(page) ?? [];
    assert.ok(code !== undefined, `docs/plugins.md has no example ${name}`);
    return home.write(`plugins/${name}`, code);
  }

  test('house-style of the docs changes the texts of every API, streamed or not, and no other byte', async () => {
    await swap();
    const asks: Asking[] = [
      {},
      {
        path: '/messages',
        body: { model: 'm', max_tokens: 200, messages: [{ role: 'user', content: 'Hi' }] },
      },
      { path: '/responses', body: { model: 'm', input: 'Hi' } },
      { path: '/models/m:generateContent', body: { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] } },
    ];
    const plain = (text: string): string =>
      text.replace(/"(?:id|responseId|createTime)": ?"[^"]*"|\d{6,}/g, '');
    const before = await Promise.all(asks.map(async (asking) => (await gateway.ask(asking)).text));
    await documented('house-style.ts');
    await swap('./plugins/house-style.ts');
    for (const [i, asking] of asks.entries()) {
      const { text } = await gateway.ask(asking);
      assert.match(text, /integrated mock provider/);
      assert.equal(plain(text.replaceAll('integrated', 'built-in')), plain(before[i] ?? ''));
    }
    assert.match(await say({ stream: true }), /integrated mock provider/);
  });

  test('redact of the docs leaves no torn match, and refuses a pattern without end', async () => {
    await documented('redact.ts');
    await swap(
      String.raw`./plugins/redact.ts: { pattern: '\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b', replacement: '[ssn]' }`,
    );
    for (const content of ['Mine is 123-45-6789.', '123-45-6789', 'No 123-45-67890, but 000-00-0000']) {
      const wanted = content.replaceAll(/\b\d{3}-\d\d-\d{4}\b/g, '[ssn]');
      assert.ok((await gateway.ask({ content })).text.includes(JSON.stringify(wanted).slice(1, -1)));
      const streamed = await say({ stream: true, content });
      assert.ok(streamed.includes(wanted), streamed);
      assert.match(streamed, /was called\.$/);
    }
    await configure(`./plugins/redact.ts: { pattern: '[0-9]+', replacement: '' }`);
    await loggedSoon(/has matches of any length.*\{1,200\}/);
  });

  test('call-counter of the docs is listed once: its hook counts and its route tells', async () => {
    await documented('call-counter.ts');
    await configure('./plugins/call-counter.ts');
    await loggedSoon(/the routes of plugin "call-counter" would not be served; add a pipeline/);
    const { generation } = await gateway.status();
    const admin = '  - { name: admin, match: { routes: contributed }, plugins: [auth] }\n';
    const listed = configuration(['./plugins/call-counter.ts']);
    await home.write('gateway.config.yaml', listed.replace('pipelines:\n', `pipelines:\n${admin}`));
    await eventually(async () => (await gateway.status())['generation'] !== generation || undefined);
    const calls = async (): Promise<number> => {
      const headers = { 'x-service-api-key': ownerKey };
      const answer = await fetch(`${gateway.url}/v1/call-counter`, { headers });
      assert.equal(answer.status, 200, await answer.clone().text());
      return ((await answer.json()) as { calls: number }).calls;
    };
    const before = await calls();
    await gateway.ask();
    assert.ok((await calls()) > before);
    assert.equal((await fetch(`${gateway.url}/v1/call-counter`)).status, 401);
  });

  test('that holds streams judges and changes the whole answer', async () => {
    await home.write('plugins/mask.ts', mask);
    await swap('./plugins/mask.ts');
    assert.match(await say({ stream: true }), /built-in m\*\*\* provider; no model/);
    assert.match((await gateway.ask()).text, /built-in m\*\*\* provider; no model/);
    for (const stream of [true, false]) {
      const { status, text } = await gateway.ask({ stream, content: 'unspeakable' });
      assert.equal(status, 446, text);
      assert.doesNotMatch(text, /You said/);
    }
  });

  test('whose tap throws ends the stream with an error (fail) or is passed over (skip)', async () => {
    await home.write('plugins/fragile.ts', fragile);
    await swap('./plugins/fragile.ts: { on_error: fail }');
    const headers = { 'x-service-api-key': ownerKey, 'x-service-provider': 'mock' };
    const messages = [{ role: 'user', content: 'break' }];
    const body = { model: 'mock:chunk_latency_ms=30', stream: true, messages };
    const { text, complete } = await send(`${gateway.url}/v1/chat/completions`, { headers, body });
    assert.equal(complete, false, 'a broken stream must not look like a whole one');
    assert.match(text, /^data: .*"role":"assistant"/);
    assert.match(text, /"code":"plugin_failed"/);
    assert.match(text, /\\"fragile\\"/);
    assert.doesNotMatch(text, /the tap broke|\[DONE\]|"finish_reason":"stop"/);
    await swap('./plugins/fragile.ts: { on_error: skip }');
    assert.match(await say({ stream: true, content: 'break' }), /^You said: "break"\. This .* was called\.$/);
    await loggedSoon(/A plugin failed.*plugin=fragile.*hook=stream.*the tap broke/);
  });

  test('that hangs is ended by timeout_ms', async () => {
    await swap('./plugins/fragile.ts: { timeout_ms: 100 }');
    const { status, text } = await gateway.ask({ content: 'hang' });
    assert.equal(status, 500);
    assert.match(text, /"code":"plugin_timeout"/);
    assert.match(text, /\\"fragile\\" did not finish its request hook within 100 ms/);
  });

  test('that cannot be created leaves the old generation serving', async () => {
    const { generation } = await gateway.status();
    for (const [how, expected] of [
      ['throws', /"fragile" could not be created: it cannot be made \(at .*plugins\/fragile\.ts:8:\d+\)/],
      ['returns nothing', /"fragile" could not be created: /],
    ] as const) {
      await configure(`./plugins/fragile.ts: { create: ${how} }`);
      await loggedSoon(expected);
      assert.equal((await gateway.status())['generation'], generation);
      assert.equal((await gateway.ask()).status, 200);
    }
  });

  test('loses its timers with its generation', async () => {
    await swap('./plugins/fragile.ts: { tick: old }');
    await loggedSoon(/plugin=fragile.*tick old/);
    await swap('./plugins/fragile.ts: { tick: new }');
    await loggedSoon(/plugin=fragile.*tick new/);
    await eventually(
      async () => (await gateway.status())['retiring_generations'] === 0 || undefined,
      () => 'the end of the old generation',
    );
    await swap();
    await eventually(async () => (await gateway.status())['retiring_generations'] === 0 || undefined);
    const before = gateway.stderr.length;
    await pause(100);
    assert.doesNotMatch(gateway.stderr.slice(before), /tick/);
  });

  test('meanwhile no request failed and no stream was cut', async () => {
    await configure();
    await load.stop();
    assert.deepEqual(load.failures, []);
    assert.ok(load.answered > 100, `only ${load.answered} requests were answered`);
    assert.ok(load.streamed > 4, `only ${load.streamed} streams came to their end`);
    assert.equal(await gateway.stop(), 0, gateway.stderr);
  });
});
