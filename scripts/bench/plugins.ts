import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { createLog } from '../../adapters/telemetry/line-log.ts';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import { IsolatedChecks } from '../../core/lifecycle/isolation/isolated-checks.ts';
import { IsolatedThread } from '../../core/lifecycle/isolation/isolated-thread.ts';
import type { SentContext } from '../../core/lifecycle/isolation/messages.ts';
import { PluginBundler } from '../../core/lifecycle/plugin-bundler.ts';
import { testScope } from '../../tests/kit/plugin-kit.ts';
import { callHook, type PluginInstance } from '../../core/pipeline/call-hook.ts';
import type { SubjectParts } from '../../core/pipeline/context.ts';
import { type CheckSubject, definePlugin } from '../../core/pipeline/plugin.ts';
import { PluginWork } from '../../core/pipeline/plugin-breaker.ts';
import { systemClock as clock } from '../../core/ports/clock.ts';

/** Cost of calls of third-party plugins. */
interface PluginFigures {
  /** CPU of the call of a hook that does nothing, in this thread, nanoseconds. */
  readonly hook_ns: number;
  /** The same for a plugin of the gateway, which is not measured. */
  readonly built_in_ns: number;
  /** Time of the call of such a hook in a thread of its own, with a body of 1 KB, microseconds. */
  readonly isolated_us: number;
  readonly isolated_p99_us: number;
  /** The same for a check that such a plugin offers, of a request and of an answer of 1 KB with its request. */
  readonly isolated_check_us: number;
  readonly isolated_check_p99_us: number;
  readonly isolated_answer_check_us: number;
}

const source = `import { defineCheck, definePlugin, passed, failed, Type } from 'weir-gateway/plugin';
const word = defineCheck({
  id: 'bench.word',
  description: 'Fails for a word.',
  phases: ['input', 'output'],
  schema: Type.Object({ word: Type.String() }),
  create: ({ word }) => ({ texts }) => texts.some(({ text }) => text.includes(word)) ? failed({ word }) : passed(),
});
export default definePlugin({
  name: 'trivial',
  offers: [word],
  capabilities: { reads: ['request.text'] },
  create: () => ({ request: (context) => context.addResponseHeader('x-trivial', String(context.conversation.texts.length)) }),
});
`;

/** Measures them; about three seconds. */
export async function measurePlugins(quick: boolean): Promise<PluginFigures> {
  const { hook, ofRequest, ofAnswer } = await isolatedTimes(quick ? 2000 : 10_000);
  const [half, p99] = hook;
  return {
    hook_ns: hookCost(false),
    built_in_ns: hookCost(true),
    isolated_us: half,
    isolated_p99_us: p99,
    isolated_check_us: ofRequest[0],
    isolated_check_p99_us: ofRequest[1],
    isolated_answer_check_us: ofAnswer[0],
  };
}

function hookCost(builtIn: boolean): number {
  const log = createLog({ level: 'error', format: 'text', write: () => undefined, clock });
  const work = new PluginWork({ metrics: createMetrics(), log, clock });
  const runtime = { log, clock, work, countPluginError: () => undefined };
  const definition = definePlugin({ name: 'trivial', create: () => ({}) });
  const instance: PluginInstance = {
    ...{ definition, name: 'trivial', hooks: {}, onError: 'fail', timeoutMs: 0 },
    builtIn,
  };
  const calls = 1_000_000;
  let cpu = { user: 0, system: 0 };
  // The first round is warm-up.
  for (let round = 0; round < 2; round += 1) {
    const before = process.cpuUsage();
    for (let i = 0; i < calls; i += 1) void callHook(instance, 'request', runtime, () => undefined);
    cpu = process.cpuUsage(before);
  }
  return ((cpu.user + cpu.system) * 1000) / calls;
}

type Times = readonly [half: number, p99: number];

async function isolatedTimes(
  calls: number,
): Promise<Readonly<Record<'hook' | 'ofRequest' | 'ofAnswer', Times>>> {
  const folder = await mkdtemp(path.join(tmpdir(), 'weir-bench-'));
  const entry = path.join(folder, 'trivial.ts');
  await writeFile(entry, source);
  const log = createLog({ level: 'error', format: 'text', write: () => undefined, clock });
  const bundler = new PluginBundler({ folder: path.join(folder, 'plugins'), clock, log });
  const bundled = await bundler.bundle({
    entry,
    folder,
    place: { file: entry, line: 1, column: 1 },
    pointer: '',
  });
  if (!bundled.ok) throw new Error('The plugin of the bench could not be bundled.');
  const thread = new IsolatedThread({
    module: pathToFileURL(await bundler.write(bundled.bundle)).href,
    limits: { memoryMb: 128, cpuMs: 5000 },
    clock,
    heard: () => undefined,
    stopped: () => undefined,
  });
  const settings = { headerPrefix: 'x-service', keyPrefix: 'wk_', basePath: '/v1', publicUrl: undefined };
  await thread.call({ ask: 'create', options: {}, settings });
  const checks = new IsolatedChecks({
    clock,
    running: () => Promise.resolve(thread),
    ask: (call) => thread.call(call),
  });
  const described = {
    ...{ id: 'bench.word', description: 'Fails for a word.', phases: ['input', 'output'] as const },
    ...{ schema: '{}', hasCheck: false, hasReach: false },
  };
  const { scope } = testScope();
  const judge = checks.definition(described, 0).create({ word: 'Initech' }, scope);
  const judged = async (of: CheckSubject): Promise<void> => {
    const { verdict } = await judge(of);
    if (verdict !== 'passed') throw new Error('The check of the bench has not judged.');
  };
  const times = {
    hook: await timesOf(calls, () => thread.call({ ask: 'hook', hook: 'request', context: context() })),
    ofRequest: await timesOf(calls, () => judged(subject('input'))),
    ofAnswer: await timesOf(calls, () => judged(subject('output'))),
  };
  await thread.terminate();
  await rm(folder, { recursive: true, force: true });
  return times;
}

async function timesOf(calls: number, call: () => Promise<unknown>): Promise<Times> {
  const times: number[] = [];
  for (let i = 0; i < calls; i += 1) {
    const before = performance.now();
    await call();
    times.push((performance.now() - before) * 1000);
  }
  const sorted = times.slice(calls / 5).sort((a, b) => a - b);
  const at = (share: number): number => sorted[Math.floor(sorted.length * share)] ?? 0;
  return [at(0.5), at(0.99)];
}

const text = 'a sentence of a prompt '.repeat(40);
const body = Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: text }] }));

function context(): SentContext {
  return {
    id: 'bench',
    startedAt: 0,
    method: 'POST',
    path: '/chat/completions',
    originalPath: '/v1/chat/completions',
    query: '',
    headers: ['content-type', 'application/json', 'user-agent', 'bench'],
    service: { provider: 'mock' },
    remoteAddress: '127.0.0.1',
    endpoint: { id: 'chat.completions', dialect: 'openai-chat', modelled: true },
    generation: 'bench',
    facts: {
      ...{ organisationId: 'o', workspaceId: 'w', apiKeyId: 'k', userId: '', aiService: '', provider: '' },
      ...{ modelRequested: 'm', modelAnswered: '', stream: false, config: '', cacheStatus: '', attempts: 0 },
      ...{ usage: undefined, finishReason: '', metadata: {}, traceId: '', spanId: '', parentSpanId: '' },
    },
    body: { present: true, bytes: new Uint8Array(body) },
    texts: [{ role: 'user', text, path: ['messages', 0, 'content'] }],
    models: { names: ['m'], untold: undefined, isUnnamed: false },
  };
}

function subject(phase: CheckSubject['phase']): CheckSubject & SubjectParts {
  const texts = [{ role: 'user', type: 'text' as const, text, path: ['messages', 0, 'content'], choice: 0 }];
  const json = { model: 'm', messages: [{ role: 'user', content: text }] };
  const nothing = (): void => undefined;
  return {
    ...{ id: 'bench', phase, endpoint: 'chat.completions', provider: 'mock', service: 'mock', model: 'm' },
    ...{ texts, text, json, jsonText: body.toString(), metadata: {}, request: { texts, text, json } },
    ...{ caller: undefined, traceId: 't', spanId: 's', headers: context().headers },
    signal: new AbortController().signal,
    header: () => undefined,
    once: (_, make) => make(),
    ...{ setTexts: nothing, set: nothing, replaceAll: nothing, hold: nothing },
  };
}
