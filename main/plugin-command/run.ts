// A part of the composition root: `weir plugin new`, `weir plugin test` and `weir plugin docs`.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createLog } from '../../adapters/telemetry/line-log.ts';
import type { PluginCommand } from '../../core/administration/cli/command-arguments.ts';
import { formatProblem } from '../../core/config/problem.ts';
import { PluginBundler } from '../../core/lifecycle/plugin-bundler.ts';
import { loadPlugin } from '../../core/lifecycle/prepare.ts';
import type { AnyPlugin, Hooks } from '../../core/pipeline/plugin.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { builtIns } from '../built-ins.ts';
import { inspectGateway } from '../testing/gateway.ts';
import { checkMatrix } from './check-matrix.ts';
import { references } from './plugin-reference.ts';
import { version } from '../../core/administration/cli/arguments.ts';

/** Dependencies of the command. */
interface PluginCommandParts {
  readonly clock: Clock;
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
}

/** Runs the command; the exit code. */
export async function runPluginCommand(command: PluginCommand, parts: PluginCommandParts): Promise<number> {
  const { print, complain } = parts;
  try {
    if (command.action === 'new') {
      print(await makePluginFolder(command.plugin));
      return 0;
    }
    const definition = await loadDefinition(command.file, parts);
    if (command.action === 'test') return await checkMatrix({ ...command, definition }, print);
    print(references.plugin(definition, await hooksOf(definition, command)));
    return 0;
  } catch (error) {
    complain(error instanceof Error ? error.message : String(error));
    return 1;
  }
}

/** The definition in a file. Rejects with everything that is wrong with it. */
async function loadDefinition(file: string, { clock, complain }: PluginCommandParts): Promise<AnyPlugin> {
  const folder = await mkdtemp(path.join(tmpdir(), 'weir-plugin-'));
  try {
    const log = createLog({ level: 'error', format: 'text', write: complain, clock });
    const bundler = new PluginBundler({ folder, clock, log });
    const entry = {
      use: path.resolve(file),
      options: {},
      onError: undefined,
      timeoutMs: undefined,
      pointer: '',
      optionsPointer: '',
      file: path.resolve('gateway.config.yaml'),
    };
    const loaded = await loadPlugin(entry, { file, line: 0, column: 0 }, { builtIns, bundler, clock });
    if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
    return loaded.plugin.definition;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Hooks that the plugin's `create` returns; undefined where required options are not given. */
async function hooksOf(
  { schema }: AnyPlugin,
  { file, options }: Extract<PluginCommand, { action: 'docs' }>,
): Promise<Hooks | undefined> {
  const { required = [] } = (schema ?? {}) as { readonly required?: readonly string[] };
  if (options === undefined && required.length > 0) return undefined;
  const { gateway, plugin } = await inspectGateway({ plugin: file, options: options ?? {} });
  try {
    return plugin().hooks;
  } finally {
    await gateway.close();
  }
}

const longestName = 64;

/** Makes a folder of this name in the working folder, with a plugin to begin from. Resolves to the next steps. */
async function makePluginFolder(name: string): Promise<string> {
  if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name) || name.length > longestName)
    throw new Error(
      `"${name.slice(0, 80)}" is no name for a plugin: take small letters, digits and single dashes, as in "my-check" (at most ${longestName} characters).`,
    );
  const folder = path.resolve(name);
  try {
    await mkdir(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    throw new Error(`${folder} exists already. Take another name, or remove it first; nothing was written.`, {
      cause: error,
    });
  }
  for (const [file, text] of Object.entries(filesOf(name))) await writeFile(path.join(folder, file), text);
  return `${name}/ has the plugin (${name}.ts), its test and a configuration. Next:

  cd ${name}
  npm install
  npm install -D PATH_OF/weir-gateway-${version}.tgz   # unless a folder above has it installed (docs/plugins.md)
  npm test
  npx weir plugin test ./${name}.ts --options '{"words":["fox"]}'
  npx weir start`;
}

function filesOf(name: string): Readonly<Record<string, string>> {
  return {
    [`${name}.ts`]: pluginFile(name),
    [`${name}.test.ts`]: testFile(name),
    'gateway.config.yaml': `version: 1
storage: { analytics: { url: 'none:' }, resources: { url: 'none:' } }
pipelines:
  - name: gateway
    match: { path: /** }
    plugins:
      - auth
      - ./${name}.ts: { words: [Initech] }
      - provider: { default: mock }
      - logger
`,
    'package.json': `${JSON.stringify(
      {
        name,
        version: '0.1.0',
        private: true,
        type: 'module',
        scripts: { start: 'weir start', check: 'tsc -p .', test: `node --import tsx --test ${name}.test.ts` },
        devDependencies: {
          '@types/node': '^20.19.43',
          tsx: '^4.23.15',
          typescript: '^6.0.3',
        },
      },
      null,
      2,
    )}\n`,
    'tsconfig.json': `${JSON.stringify(
      {
        compilerOptions: {
          target: 'ES2023',
          module: 'nodenext',
          types: ['node'],
          strict: true,
          noEmit: true,
          allowImportingTsExtensions: true,
          skipLibCheck: true,
        },
        include: ['*.ts'],
      },
      null,
      2,
    )}\n`,
    'README.md': `# ${name}

A plugin for the gateway \`weir-gateway\`. \`${name}.ts\` takes the listed words out of answers, whole and streamed, and
refuses prompts that hold them; change it into what you need.

- \`npm test\`: its tests (\`weir-gateway/testing\`)
- \`npm run check\`: types
- \`npx weir plugin test ./${name}.ts --options '{"words":["fox"]}'\`: every wire, every cut of a stream, stores away, reload
- \`npx weir plugin docs ./${name}.ts\`: its options as Markdown
- \`npx weir start\`: a gateway with it, in front of the built-in mock provider
`,
    '.gitignore': 'node_modules/\ndata/\n',
  };
}

function pluginFile(name: string): string {
  return `import { definePlugin, GatewayError, redactor, Type } from 'weir-gateway/plugin';

export default definePlugin({
  name: '${name}',
  apiVersion: 1,
  description: 'Refuses prompts that hold one of the words, and takes the words out of answers.',
  schema: Type.Object(
    {
      words: Type.Array(Type.String({ minLength: 1, maxLength: 100 }), {
        minItems: 1,
        maxItems: 100,
        description: 'Compared as they are written.',
      }),
    },
    { additionalProperties: false },
  ),
  capabilities: {
    reads: ['request.text', 'response.text'],
    changes: ['response.text'],
    stream: 'window',
    guardrail: true,
  },
  create({ words }, scope) {
    const redaction = redactor(
      words.map((word) => ({ pattern: word.replace(/[^\\w\\s]/g, '\\\\$&'), replacement: '[removed]' })),
    );
    if (typeof redaction === 'string') throw new Error(redaction);
    const refused = scope.metrics.counter({
      name: '${name.replaceAll('-', '_')}_refused_total',
      help: 'Prompts that were refused.',
      labels: [],
    })({});
    return {
      request(context) {
        const found = words.find((word) => context.conversation.texts.some(({ text }) => text.includes(word)));
        if (found === undefined) return;
        refused.inc();
        throw new GatewayError('hooks_failed', \`The prompt holds "\${found}". Write it without.\`);
      },
      response: (context) => void redaction.response(context),
      stream: (context) => redaction.stream(context),
    };
  },
});
`;
}

function testFile(name: string): string {
  return `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cutsOf, startGateway, wires } from 'weir-gateway/testing';

const plugin = new URL('./${name}.ts', import.meta.url);
const options = { words: ['Initech'] };

test('takes the words out of answers, however they are cut', async (t) => {
  const gateway = await startGateway({ plugin, options, t });
  for (const wire of wires) {
    assert.equal((await gateway.ask({ wire, answer: 'Ask Initech.' })).text, 'Ask [removed].');
    for (const answer of cutsOf('Ask Initech.'))
      assert.equal((await gateway.ask({ wire, stream: true, answer })).text, 'Ask [removed].');
  }
});

test('refuses prompts that hold them, and counts that', async (t) => {
  const gateway = await startGateway({ plugin, options, t });
  const reply = await gateway.ask({ prompt: 'Who owns Initech?' });
  assert.equal(reply.status, 446);
  assert.match(reply.error ?? '', /holds "Initech"/);
  assert.deepEqual(reply.provider, []);
  assert.equal(await gateway.metric('${name.replaceAll('-', '_')}_refused_total'), 1);
});
`;
}
