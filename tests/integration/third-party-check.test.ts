// A check that a plugin file offers, in guardrails of the file, of configs, of headers and by default.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import {
  makeHome,
  startGateway,
  type Asking,
  type GatewayProcess,
  type Home,
} from '../kit/gateway-process.ts';
import { eventually, stopEverything } from '../kit/process-kit.ts';

const configured = '{ provider: mock, input_guardrails: [{ acme.tone: { rude: [darn] }, deny: true }] }';

/** `parameters` are those of the guardrail of the file; `without` leaves the plugin out. */
const configurationOf = (
  entry: string,
  { parameters = '{ rude: [blast] }', without = false, more = '' } = {},
): string => `
version: 1
storage: { analytics: { url: "none:" } }
configs:
  polite: ${without ? '{ provider: mock }' : configured}
organisation:
  guardrails:
    - slug: no-blast
      name: No blast
      checks: [{ id: acme.tone, parameters: ${parameters} }]
      actions: { deny: true }
  defaults: { input_guardrails: [no-blast] }
pipelines:
  - name: gateway
    match: { path: /** }
    plugins:
      - auth
      - guardrails
${without ? '' : `      - ${entry}\n`}${more}      - provider
      - logger
`;

/** The plugin of docs/plugins.md. */
async function documented(): Promise<string> {
  const page = await readFile(new URL('../../docs/plugins.md', import.meta.url), 'utf8');
  const [, code] = /\n```ts\n(\/\/ plugins\/tone\.ts\n.*?)```/s.exec(page) ?? [];
  assert.ok(code !== undefined, 'docs/plugins.md has no example tone.ts');
  return code;
}

const onDeno = process.env['WEIR_TEST_RUNTIME'] === 'deno';
const skipped = (where: string) =>
  onDeno && where !== 'in the gateway' && 'Deno has no threads with a bound of memory';

for (const [where, entry] of [
  ['in the gateway', './tone.ts'],
  ['in a thread of its own', '{ ./tone.ts: { isolate: true } }'],
] as const)
  describe(
    `a check of a plugin outside of the project, ${where}`,
    { timeout: 120_000, skip: skipped(where) },
    () => {
      const configuration = (more: Parameters<typeof configurationOf>[1] = {}) =>
        configurationOf(entry, more);
      let home: Home;
      let gateway: GatewayProcess;
      let tone: string;
      /** The same check by another plugin. */
      const other = (id: string) => tone.replace("name: 'tone'", "name: 'other'").replace('acme.tone', id);

      before(async () => {
        tone = await documented();
        home = await makeHome(configuration());
        await home.write('tone.ts', tone);
        gateway = await startGateway(home);
      });
      after(async () => {
        await stopEverything();
        await home?.remove();
      });

      const status = async (content: string, more: Asking = {}): Promise<number> =>
        (await gateway.ask({ content, ...more })).status;
      const written = async (config: object) => {
        const headers = { 'x-service-config': JSON.stringify(config) };
        return gateway.ask({ content: 'a', headers });
      };

      /** Why the configuration is not the one that serves. */
      const refusal = (): Promise<string> =>
        eventually(
          async () => {
            const error = (await gateway.status())['config_error'] as { problems: string[] } | null;
            return error?.problems.join('\n');
          },
          () => `a refusal; standard error: ${gateway.stderr}`,
        );
      const mended = (): Promise<true> =>
        eventually(
          async () => (await gateway.status())['config_error'] === null || undefined,
          () => `the repair; standard error: ${gateway.stderr}`,
        );

      test('judges wherever guardrails are named', async () => {
        assert.equal(await status('Hello'), 200);
        assert.equal(await status('Oh blast'), 446, 'by default');
        assert.equal(await status('Oh darn', { headers: { 'x-service-config': 'polite' } }), 446, 'a config');
        const inline = {
          provider: 'mock',
          output_guardrails: [{ 'acme.tone': { rude: ['fudge'] }, deny: true }],
        };
        assert.equal(
          await status('Oh fudge', { headers: { 'x-service-config': JSON.stringify(inline) } }),
          446,
        );
        const asked = JSON.stringify([{ 'acme.tone': { rude: ['heck'] }, deny: true }]);
        assert.equal(await status('heck', { headers: { 'x-service-default-input-guardrails': asked } }), 446);
      });

      test('has its id and its parameters looked at', async () => {
        const wrong = await written({ provider: 'mock', input_guardrails: [{ 'acme.tome': {} }] });
        assert.equal(wrong.status, 400);
        assert.match(wrong.text, /did you mean \\"acme\.tone\\"/);
        const misspelt = await written({
          provider: 'mock',
          input_guardrails: [{ 'acme.tone': { rud: ['a'] } }],
        });
        assert.equal(misspelt.status, 400);
        assert.match(misspelt.text, /input_guardrails\[0\]\[\\?"acme\.tone\\?"\].*did you mean \\"rude\\"/);
        await home.write('gateway.config.yaml', configuration({ parameters: '{ rude: [] }' }));
        assert.match(await refusal(), /gateway\.config\.yaml:\d+:\d+: .*rude.*\(guardrail "no-blast"\)/);
        assert.equal(await status('Oh blast'), 446, 'the old generation serves on');
        await home.write('gateway.config.yaml', configuration());
        await mended();
      });

      test('is exchanged when its author rewrites it', async () => {
        assert.equal(await status('Oh BLAST'), 200);
        await home.write('tone.ts', tone.replace('text.includes', 'text.toLowerCase().includes'));
        await eventually(
          async () => (await status('Oh BLAST')) === 446 || undefined,
          () => `the new code; standard error: ${gateway.stderr}`,
        );
        await home.write('tone.ts', tone);
        await eventually(
          async () => (await status('Oh BLAST')) === 200 || undefined,
          () => `the old code; standard error: ${gateway.stderr}`,
        );
      });

      test('cannot be taken away while guardrails of the file use it', async () => {
        await home.write('gateway.config.yaml', configuration({ without: true }));
        const problems = await refusal();
        assert.match(problems, /is "acme\.tone", and this gateway has no such check; list the plugin/);
        assert.match(problems, /\(guardrail "no-blast"\)/);
        assert.equal(await status('Oh blast'), 446, 'the old generation serves on');
        await home.write('gateway.config.yaml', configuration());
        await mended();
      });

      test('is offered by one plugin alone', async () => {
        await home.write('other.ts', other('acme.tone'));
        await home.write('gateway.config.yaml', configuration({ more: '      - ./other.ts\n' }));
        assert.match(
          await refusal(),
          /plugin "other" offers the check "acme\.tone", which the plugin "tone" \(.*gateway\.config\.yaml:\d+\) offers already/,
        );
        await home.write('other.ts', other('lakera.guard'));
        await eventually(
          async () => /the built-in plugin "guardrails" offers already/.test(await refusal()) || undefined,
          () => `a refusal; standard error: ${gateway.stderr}`,
        );
        await home.write('other.ts', other('default.tone'));
        await eventually(
          async () => /"default\." comes with the gateway/.test(await refusal()) || undefined,
          () => `a refusal; standard error: ${gateway.stderr}`,
        );
        await home.write('gateway.config.yaml', configuration());
        await mended();
      });
    },
  );

test(
  'a check that keeps looping in its thread is left alone by its breaker, and never passes',
  { timeout: 120_000, skip: skipped('') },
  async () => {
    const home = await makeHome(
      configurationOf(
        '{ ./tone.ts: { isolate: { cpu_ms: 100 }, breaker: { failure_threshold: 2, cooldown_interval: 60000, when_open: bypass } } }',
      ),
    );
    const tone = await documented();
    await home.write(
      'tone.ts',
      tone.replace(
        'const found =',
        `if (texts.some(({ text }) => text === 'loop')) for (;;);\n const found =`,
      ),
    );
    const gateway = await startGateway(home);
    const seconds = async (name: string) => {
      const { text } = await fetch(`${gateway.url}/metrics`).then(async (answer) => ({
        text: await answer.text(),
      }));
      return text
        .split('\n')
        .filter((line) => line.startsWith(name))
        .join('\n');
    };
    try {
      assert.equal((await gateway.ask({ content: 'Hello' })).status, 200);
      await eventually(async () => {
        const { status, text } = await gateway.ask({ content: 'loop' });
        assert.equal(status, 446, text);
        return /keeps failing and is left alone for now/.test(text) || undefined;
      });
      assert.equal(
        (await gateway.ask({ content: 'Hello' })).status,
        446,
        'not even where the breaker bypasses hooks',
      );
      assert.deepEqual((await gateway.status())['plugin_breakers'], [
        { plugin: 'tone', hook: 'acme.tone', state: 'open', when_open: 'bypass' },
      ]);
      assert.match(await seconds('weir_plugin_thread_stops_total'), /plugin="tone",reason="cpu"\} [12]/);
      assert.match(await seconds('weir_plugin_errors_total'), /plugin="tone",hook="acme\.tone"\} 2/);
      assert.match(await seconds('weir_plugin_hook_seconds_count'), /plugin="tone",hook="acme\.tone"\} \d/);
    } finally {
      await gateway.stop();
      await home.remove();
    }
  },
);
