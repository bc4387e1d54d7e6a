import { parseInlineConfig } from '../../core/routing/plan/read-config.ts';
import { compileConfig } from '../../core/routing/plan/compile-config.ts';
import { guardsOf } from '../../core/lifecycle/offered-checks.ts';
import type { AttemptContext, StreamEvent } from '../../core/pipeline/plugin.ts';
import type { GuardrailSpec } from '../../core/ports/guardrails.ts';
import { builtInPlugins } from '../../plugins/index.ts';
import guardrails from '../../plugins/guardrails/index.ts';
import { RunningGuardrail } from '../../plugins/guardrails/running-guardrail.ts';
import { GuardrailTap } from '../../plugins/guardrails/streamed-answer.ts';
import { attemptContext } from '../../tests/kit/attempt-kit.ts';
import { testScope } from '../../tests/kit/plugin-kit.ts';

/** CPU of guardrails by themselves, the least of the rounds: other work on a shared machine only adds to it. */
interface GuardrailFigures {
  /** Ten local checks over a chat request of 2 KB. */
  readonly request_us: number;
  /** The same, each check alone. */
  readonly checks_us: Readonly<Record<string, number>>;
  /** A chunk of a stream that is judged by a window of three checks, beside one that is only passed on. */
  readonly chunk_us: number;
  /** A request that no guardrail judges. */
  readonly none_us: number;
}

const word = 'weirs hold back the water of a river and let the rest of it flow over their crest; ';

const checks: Readonly<Record<string, object>> = {
  'default.contains': { words: ['Initech', 'Globex', 'Umbrella'], operator: 'none' },
  'default.regexMatch': { rule: '(?i)ignore (all|previous) instructions', not: true },
  'default.wordCount': { maxWords: 5000 },
  'default.sentenceCount': { maxSentences: 500 },
  'default.characterCount': { maxCharacters: 50_000 },
  'default.endsWith': { suffix: 'confidential', not: true },
  'default.alluppercase': { not: true },
  'default.modelWhitelist': { models: ['gpt-4o-mini'] },
  'default.requestParametersCheck': { params: { blockedKeys: ['logit_bias'] } },
  'default.requiredMetadataKeys': { metadataKeys: ['team'], operator: 'none' },
};

/** In this process, without a socket: the figures include the checks and their runner. */
export async function measureGuardrails(quick: boolean): Promise<GuardrailFigures> {
  const runs = quick ? 2000 : 10_000;
  const { scope } = testScope({ guards: guardsOf(builtInPlugins) });
  const content = word.repeat(25).slice(0, 2000);
  const body = { model: 'gpt-4o-mini', messages: [{ role: 'user', content }] };
  const requestUs = async (specs: Readonly<Record<string, object>> | undefined): Promise<number> => {
    const hooks = await guardrails.create({}, scope);
    const input = specs === undefined ? undefined : specsOf({ ...specs, id: 'g', deny: true }, 'input');
    return leastCost(runs, async (count) => {
      const contexts: AttemptContext[] = [];
      for (let run = 0; run < count; run += 1) {
        const context = await attemptContext({ body });
        const judged = input === undefined ? undefined : { input, output: [] };
        const { dialect, endpoint } = context;
        let conversation: AttemptContext['conversation'] | undefined;
        Object.defineProperty(context, 'conversation', {
          get: () => (conversation ??= dialect.decodeConversation(endpoint.id, context.body.json)),
        });
        contexts.push(Object.assign(context, { attempt: { ...context.attempt, guardrails: judged } }));
      }
      return () => {
        for (const context of contexts) void hooks.attempt?.(context);
      };
    });
  };
  const checksUs: Record<string, number> = {};
  for (const [id, parameters] of Object.entries(checks)) checksUs[id] = await requestUs({ [id]: parameters });
  return {
    request_us: await requestUs(checks),
    checks_us: checksUs,
    chunk_us: await chunkUs(runs * 10, scope),
    none_us: await requestUs(undefined),
  };
}

async function chunkUs(chunks: number, scope: Parameters<typeof guardrails.create>[1]): Promise<number> {
  const written = {
    'default.contains': { words: ['Initech', 'Globex', 'Umbrella'], operator: 'none' },
    'default.regexMatch': { rule: '(?i)ignore (?:all|previous) instructions', not: true },
    id: 'g',
    deny: true,
    stream: 'window',
  };
  const [spec] = specsOf(written, 'output');
  if (spec === undefined) throw new Error('The guardrail of the bench is none.');
  const guardrail = new RunningGuardrail(spec, scope, ({ parameters }) => parameters);
  const context = await attemptContext({ path: '/chat/completions' });
  const measure = (count: number): Promise<() => void> => {
    const pieces = Array.from({ length: chunksOfStream }, (_, at): StreamEvent => {
      const from = (at * 5) % (word.length - 5);
      return { type: 'text-delta', choice: 0, text: word.slice(from, from + 5) };
    });
    let left = 0;
    const emit = (event: StreamEvent): void => void ('text' in event && (left += event.text.length));
    return Promise.resolve(() => {
      for (let stream = 0; stream < count / pieces.length; stream += 1) {
        const tap = new GuardrailTap({ context, windows: [guardrail], observers: [], took: () => undefined });
        for (const event of pieces) void tap.event(event, emit);
        void tap.end(emit);
        context.facts.verdicts = [];
      }
    });
  };
  return leastCost(chunks, measure, chunks / 10);
}

/** As a config means them. */
function specsOf(written: object, phase: 'input' | 'output'): readonly GuardrailSpec[] {
  const parsed = parseInlineConfig(JSON.stringify({ provider: 'mock', [`${phase}_guardrails`]: [written] }));
  if (!parsed.ok)
    throw new Error(`The guardrails of the bench are no config: ${JSON.stringify(parsed.issues)}`);
  const setup = {
    ...{ id: 'bench', slug: 'bench', configs: new Map(), knowsProvider: () => undefined },
    checks: guardsOf(builtInPlugins),
  };
  const compiled = compileConfig(parsed.config, setup);
  if (!compiled.ok)
    throw new Error(`The guardrails of the bench are not valid: ${JSON.stringify(compiled.issues)}`);
  const { root } = compiled.config;
  return root.kind === 'leaf' ? (root.settings.guardrails?.[phase] ?? []) : [];
}

const rounds = 7;
const chunksOfStream = 125;

/**
 * Microseconds of CPU for one of `count`; measures the function that `prepare` returns, not `prepare` itself. By default
 * so few are prepared at once that their memory costs no collection.
 */
async function leastCost(
  count: number,
  prepare: (count: number) => Promise<() => void>,
  batch = 250,
): Promise<number> {
  let least = Infinity;
  // The first round pays for the compiler.
  for (let round = 0; round <= rounds; round += 1) {
    let spent = 0;
    for (let done = 0; done < count; done += batch) {
      const run = await prepare(batch);
      const before = process.cpuUsage();
      run();
      const { user, system } = process.cpuUsage(before);
      spent += user + system;
    }
    if (round > 0) least = Math.min(least, spent / count);
  }
  return least;
}
