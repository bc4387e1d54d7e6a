/** Plugins that offer checks, whose code runs in the gateway or in a thread of its own, and a gateway that uses them. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import guardrails from '../../../plugins/guardrails/index.ts';
import { providerPlugin, startTestGateway } from '../../../tests/kit/gateway-kit.ts';
import { send } from '../../../tests/kit/http-kit.ts';
import type { AnyPlugin } from '../../pipeline/plugin.ts';
import { checkDefinition, defaultExport } from '../check-definition.ts';
import { soundCheck } from '../offered-checks.ts';
import { pluginFolder } from '../plugin-files.test-support.ts';
import { realClock } from '../recording-services.test-support.ts';
import { isolatedDefinition } from './isolated-plugin.ts';
import type { IsolationLimits } from './isolated-thread.ts';

export const usual: IsolationLimits = { memoryMb: 64, cpuMs: 300 };

/** What ends a thread: its name, the code, the limits that it meets, and the reason that metrics name. */
export const endings = [
  ['a loop', 'for (;;);', usual, 'cpu'],
  [
    'memory without end',
    'const all = []; for (;;) all.push(new Array(1e4).fill({}));',
    { memoryMb: 48, cpuMs: 20_000 },
    'memory',
  ],
  [
    'buffers without end',
    'const all = globalThis.all = []; setInterval(() => all.push(Buffer.alloc(8e6, 1)), 1); await new Promise(() => {});',
    { memoryMb: 64, cpuMs: 400 },
    'memory',
  ],
  ['process.exit', 'process.exit(3);', usual, 'exit'],
] as const;

/** The definition in a source, whose code runs here, or in threads where there are limits. */
export async function loaded(t: TestContext, source: string, limits?: IsolationLimits): Promise<AnyPlugin> {
  const where = await pluginFolder(t);
  await where.write({
    'theirs.ts': `import { defineCheck, definePlugin, failed, GatewayError, passed, skipped, Type } from 'weir-gateway/plugin';\n${source}`,
  });
  const place = { file: 'x.yaml', line: 1, column: 1 };
  const bundled = await where.bundler.bundle({
    ...{ entry: where.path('theirs.ts'), folder: where.folder, place, pointer: '' },
  });
  if (!bundled.ok) assert.fail(JSON.stringify(bundled.problems));
  const made =
    limits === undefined
      ? checkDefinition(defaultExport((await where.bundler.load(bundled.bundle)).exports))
      : await isolatedDefinition({
          file: await where.bundler.write(bundled.bundle),
          limits,
          clock: realClock,
        });
  if ('faults' in made) assert.fail(made.faults.join('; '));
  const { definition } = made;
  return { ...definition, offers: (definition.offers ?? []).map(soundCheck) };
}

export async function serving(t: TestContext, plugin: AnyPlugin) {
  const gateway = await startTestGateway(t, {
    plugins: [guardrails, plugin, providerPlugin({ default: 'mock' })],
    checksOf: [plugin],
  });
  let asked = 0;
  /** Asks with a config of these guardrails. */
  const ask = async (config: object, text = 'Hello Zanzibar', body: object = {}) => {
    const answer = await send(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        'x-service-config': JSON.stringify({ provider: 'mock', ...config }),
        'content-type': 'application/json',
        'x-custom': 'theirs',
      },
      body: { model: 'mock-gpt', messages: [{ role: 'user', content: text }], ...body },
    });
    const { facts } = await gateway.untilSettled(++asked);
    return {
      status: answer.status,
      records: facts.verdicts.map(({ hook, verdict }) => `${hook} ${verdict}`),
      text: answer.text,
      results: resultsIn(answer.text),
    };
  };
  return { gateway, ask };
}

export type Asked = Awaited<ReturnType<Awaited<ReturnType<typeof serving>>['ask']>>;

/** Verdict, data and error of each check, as clients see them. */
function resultsIn(text: string): unknown[] {
  if (!text.startsWith('{')) return [];
  const { hook_results: results = {}, error = {} } = JSON.parse(text) as Record<
    string,
    Record<string, unknown>
  >;
  const all = { ...results, ...(error['hook_results'] as object | undefined) } as Record<
    string,
    { checks: Record<string, unknown>[] }[]
  >;
  return Object.values(all)
    .flat()
    .flatMap(({ checks }) =>
      checks.map(({ verdict, data, error: fault, transformed }) => ({ verdict, data, fault, transformed })),
    );
}
