// Every block of code in a document is judged: configurations, and parts of them, are taken by the loader; JSON is what its
// route takes or answers; TypeScript has the right types, JavaScript runs. Commands run in `document-commands.test.ts`, guides and
// recipes in tests of their own; what cannot run is in `exceptions`, and what it names is there.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Ajv } from 'ajv';
import ts from 'typescript';
import { parse, stringify } from 'yaml';
import { loadConfig } from '../../core/config/load-config.ts';
import type { Problem } from '../../core/config/problem.ts';
import { GatewayConfigSchema } from '../../core/config/schema.ts';
import { schemaMap, schemaObject } from '../../core/config/describe-schema.ts';
import { PluginBundler } from '../../core/lifecycle/plugin-bundler.ts';
import { readConfigObject } from '../../core/routing/plan/read-config.ts';
import { checkPlugins, prepareGeneration } from '../../core/lifecycle/prepare.ts';
import { recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import { systemClock as clock } from '../../core/ports/clock.ts';
import { builtIns, providerNames, providerRows } from '../../main/built-ins.ts';
import {
  documents,
  exceptionOf,
  exceptions,
  runsWithItsPage,
  samplesOf,
  type Sample,
} from '../kit/document-samples.ts';
import { issuesOf, operationsIn, wholeDocument } from '../kit/openapi-kit.ts';
import { runWeir, stopEverything, temporaryFolder } from '../kit/process-kit.ts';

after(stopEverything);

const root = new URL('../../', import.meta.url);

const samples = (await Promise.all((await documents()).map((one) => samplesOf(one)))).flat();
const of = (...languages: string[]): readonly Sample[] =>
  samples.filter(({ language }) => languages.includes(language));

const sections = new Set(
  [...schemaMap(schemaObject(GatewayConfigSchema), 'properties')].map(([name]) => name),
);
const pipeline = 'pipelines: [{ name: gateway, match: { path: /** }, plugins: [auth, provider] }]';

/** A whole configuration around what a document shows of one; undefined when it shows something else. */
function wholeConfiguration(text: string): string | undefined {
  const value: unknown = parse(text);
  if (Array.isArray(value)) {
    if (isPlugins(value)) return withPlugins(value);
    const arePipelines = value.every((one) => 'match' in Object(one));
    return arePipelines ? JSON.stringify({ version: 1, pipelines: value }) : undefined;
  }
  const { plugins, servers, ...others } = Object(value) as Record<string, unknown>;
  // Servers stand in the options of the plugin `mcp`.
  if (servers !== undefined) return withPlugins([{ mcp: { servers } }], others);
  if (Array.isArray(plugins) && isPlugins(plugins)) return withPlugins(plugins, others);
  const members = new Map(Object.entries(others));
  if (members.size === 0 || ![...members.keys()].every((name) => sections.has(name))) return undefined;
  return [
    ...(members.has('version') ? [] : ['version: 1']),
    text,
    ...(members.has('pipelines') ? [] : [pipeline]),
  ].join('\n');
}

const nameOf = (entry: unknown): string =>
  typeof entry === 'string' ? entry : (Object.keys(Object(entry))[0] ?? '');

function isPlugins(entries: readonly unknown[]): boolean {
  return entries.map(nameOf).some((name) => builtIns.has(name) || name.startsWith('./'));
}

/** These entries between those without which none of them serves. */
function withPlugins(entries: readonly unknown[], sections: Readonly<Record<string, unknown>> = {}): string {
  const names = entries.map(nameOf);
  const isAdmin = names.includes('management');
  const plugins = [
    ...(names.includes('auth') ? [] : ['auth']),
    ...entries,
    ...(names.includes('provider') || isAdmin ? [] : ['provider']),
  ];
  const match = isAdmin ? { routes: 'contributed' } : { path: '/**' };
  return JSON.stringify({ version: 1, ...sections, pipelines: [{ name: 'gateway', match, plugins }] });
}

/** Languages whose blocks are judged or run. */
const languages = new Set(['yaml', 'json', 'jsonc', 'ts', 'js', 'sh', 'sql', 'text']);

/** Members of a config of requests by which it is known. */
const inConfigs = new Set(['strategy', 'targets', 'retry', 'cache', 'input_guardrails', 'output_guardrails']);

/** JSON that is the body of a request: words that it has, and the operation. */
const bodies: readonly (readonly [says: string, method: string, path: string])[] = [
  ['rotation_policy', 'put', '/api-keys/{id}'],
];

/** YAML of other programs. */
const otherYaml: readonly {
  readonly says: string;
  readonly problems: (sample: Sample, folder: string) => Promise<readonly string[]>;
}[] = [
  {
    says: 'existingSecret: weir',
    async problems({ place, text }, folder) {
      const values = parse(text) as { readonly config: object };
      const schema: unknown = JSON.parse(
        await readFile(new URL('deploy/helm/weir/values.schema.json', root), 'utf8'),
      );
      const ajv = new Ajv({ allErrors: true });
      const isRight = ajv.validate(schema as object, values);
      const inChart = isRight
        ? []
        : (ajv.errors ?? []).map(
            (one) => `${place}: ${one.instancePath} ${one.message} ${JSON.stringify(one.params)}`,
          );
      const config = wholeConfiguration(stringify(values.config)) ?? '';
      return [...inChart, ...(await problemsOf({ place }, config, folder))];
    },
  },
  {
    says: 'scrape_configs:',
    // `npm run check:deployment` asks promtool about the files of deploy.
    problems: ({ text, place }) => {
      const { scrape_configs: jobs } = parse(text) as { scrape_configs?: { job_name?: string }[] };
      return Promise.resolve(jobs?.[0]?.job_name === 'weir' ? [] : [`${place}: the job is not named weir`]);
    },
  },
];

/** Variables whose values have a form. */
const variables: Readonly<Record<string, string>> = {
  WEIR_HOOK_SECRET: `whsec_${Buffer.alloc(24).toString('base64')}`,
};

/** Everything that the loader has against it, but for what only a machine of the reader has: hosts, files, records. */
async function problemsOf(
  { place }: Pick<Sample, 'place'>,
  text: string,
  folder: string,
): Promise<readonly string[]> {
  const env: Record<string, string> = {};
  for (const [, name = ''] of text.matchAll(/\$\{(\w+)/g))
    env[name] =
      variables[name] ?? (/URL|ISSUER/.test(name) ? 'https://host.example.com' : `value-of-${name}`);
  for (const [, name = ''] of text.matchAll(/(\.\/[\w./-]+\.ts)/g)) {
    const file = path.join(folder, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, '');
  }
  const file = path.join(folder, 'gateway.config.yaml');
  const readText = (name: string): Promise<Buffer> =>
    Promise.resolve(Buffer.from(name === file ? text : 'text of a file'));
  const loaded = await loadConfig(file, { env, readFile: readText });
  const bundler = new PluginBundler({ folder: path.join(folder, 'data'), clock, log: recordingLog([]) });
  const sources = { builtIns, bundler, providerNames, providerRows, clock, withoutCode: true };
  const told = loaded.ok
    ? await prepareGeneration({ config: loaded.config, source: loaded.source, ...sources }).then(
        (prepared) => (prepared.ok ? prepared.prepared.warnings : prepared.problems),
      )
    : loaded.draft === undefined
      ? loaded.problems
      : await checkPlugins({ ...loaded.draft, ...sources }, loaded.problems);
  return told.filter(isMistake).map(({ path: at, message }) => `${place}: ${at}: ${message}`);
}

/** A model stands on the machine of a reader, and not on this one. */
function isMistake({ severity, path: at }: Problem): boolean {
  return severity !== 'note' && severity !== 'warning' && !at.includes('/local-classifier');
}

describe('samples of documents', () => {
  test('configurations, and parts of them, are valid', async () => {
    const folder = await temporaryFolder();
    const problems: string[] = [];
    for (const sample of of('yaml', 'yml')) {
      // A file that a guide has its reader save, and works with.
      if (runsWithItsPage(sample) && /^# [\w.-]+\.yaml\n/.test(sample.text)) continue;
      const text = wholeConfiguration(sample.text);
      const other = otherYaml.find(({ says }) => sample.text.includes(says));
      if (text !== undefined) problems.push(...(await problemsOf(sample, text, folder)));
      else if (other !== undefined) problems.push(...(await other.problems(sample, folder)));
      else
        problems.push(`${sample.place} is no configuration, nor a part of one: add its kind to otherYaml.`);
    }
    assert.deepEqual(problems, []);
  });

  test('links lead to files, and to headings in them', async () => {
    const dead: string[] = [];
    for (const document of await documents()) {
      const page = new URL(document, root);
      const text = (await readFile(page, 'utf8')).replaceAll(/^ *```[^]*?^ *```/gm, '');
      for (const [, link = ''] of text.matchAll(/\]\((?!\w+:)([^)\s]+)\)/g)) {
        const [file = '', anchor] = link.split('#');
        const target = file === '' ? page : new URL(file, page);
        const isThere = existsSync(target);
        const headings =
          isThere && anchor !== undefined ? headingsOf(await readFile(target, 'utf8')) : undefined;
        if (!isThere || headings?.includes(anchor ?? '') === false) dead.push(`${document}: ${link}`);
      }
    }
    assert.deepEqual(dead, []);
  });

  test('JSON is a config, or what a route takes', async () => {
    const { document } = await wholeDocument();
    const wrong: string[] = [];
    for (const sample of of('json', 'jsonc')) {
      const { place, text } = sample;
      // `document-commands.test.ts` has the answer.
      if (followsCommand(sample)) continue;
      let value: unknown;
      try {
        value = JSON.parse(text);
      } catch (error) {
        wrong.push(`${place}: ${String(error)}`);
        continue;
      }
      const members = Object.keys(Object(value) as object);
      // A check as it stands in a config.
      if (members.some((name) => /^\w+\.\w+$/.test(name))) value = { input_guardrails: [value] };
      const taken = bodies.find(([says]) => text.includes(says));
      if (Object.keys(Object(value) as object).some((name) => inConfigs.has(name))) {
        const read = readConfigObject(value);
        if (!read.ok)
          wrong.push(...read.issues.map(({ path: at, message }) => `${place}: ${at}: ${message}`));
      } else if (taken !== undefined) {
        const [, method, at] = taken;
        const operation = operationsIn(document).find((one) => one.path === at && one.method === method);
        const schema: unknown = operation?.operation['requestBody']?.content['application/json'].schema;
        assert.ok(schema !== undefined, `${method} ${at} takes no body`);
        wrong.push(
          ...issuesOf(document, schema, value).map((issue) => `${place}: ${issue.path}: ${issue.message}`),
        );
      } else if (exceptionOf(sample) === undefined)
        wrong.push(
          `${place}: nothing judges this JSON; show the command that prints it, add its operation to bodies, or an exception`,
        );
    }
    assert.deepEqual(wrong, []);
  });

  test('TypeScript has the right types', () => {
    // Those that import weir-gateway/testing bring the whole gateway along; tests/installed-package runs such a test.
    const found = of('ts').filter(({ text }) => !text.includes('weir-gateway/testing'));
    assert.deepEqual(complaints(found), []);
  });

  test('JavaScript runs', async () => {
    const { text } =
      of('js').find((one) => one.text.includes('function isGenuine')) ?? assert.fail('no isGenuine');
    const [file, key] = [path.join(await temporaryFolder(), 'webhook.mjs'), Buffer.alloc(24, 7)];
    await writeFile(file, `${text}\nexport { isGenuine };\n`);
    const { isGenuine } = (await import(pathToFileURL(file).href)) as {
      isGenuine: (request: { headers: object; body: string }, secret: string) => boolean;
    };
    const [id, at, body] = [
      'msg_1',
      String(Math.floor(Date.now() / 1000)),
      '{"type":"usage.limit_exhausted"}',
    ];
    const mac = createHmac('sha256', key).update(`${id}.${at}.${body}`).digest('base64');
    const headers = { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': `v1,${mac}` };
    const secret = `whsec_${key.toString('base64')}`;
    assert.equal(isGenuine({ headers, body }, secret), true);
    assert.equal(isGenuine({ headers, body: `${body} ` }, secret), false);
  });

  test('every block names its language, and every exception is one block', async () => {
    const wrong = samples
      .filter(({ language }) => !languages.has(language))
      .map(
        ({ place, language }) =>
          `${place}: ${language === '' ? 'the block names no language' : `nothing judges ${language}`}; write one of ${[...languages].join(', ')} behind its fence`,
      );
    for (const sample of [...of('text'), ...of('sql')])
      if (
        exceptionOf(sample) === undefined &&
        !runsWithItsPage(sample) &&
        !sample.text.startsWith('$ ') &&
        !followsCommand(sample) &&
        sample.document !== 'docs/features.md'
      )
        wrong.push(
          `${sample.place}: nothing prints or judges this block; show the command above it, or add it to exceptions in tests/kit/document-samples.ts`,
        );
    for (const { document, says, because } of exceptions) {
      const [, file] = /^is judged by (\S+)$/.exec(because) ?? [];
      const names = [document, document.replace(/^docs\//, '')];
      const text =
        file === undefined ? document : await readFile(new URL(file, root), 'utf8').catch(() => '');
      if (!names.some((name) => text.includes(name)) && document !== 'docs/plugins.md')
        wrong.push(`exceptions: ${file} does not name ${document}`);
      const found = samples.filter((one) => one.document === document && one.text.includes(says)).length;
      if (found !== 1)
        wrong.push(`exceptions: "${says}" is in ${found} blocks of ${document}; correct or delete it`);
    }
    assert.deepEqual(wrong, []);
  });

  test('what is not run names commands, options, scripts and files that are there, and is a shell script', async () => {
    const { stdout: help } = await runWeir(['help']);
    const { scripts } = JSON.parse(await readFile(new URL('package.json', root), 'utf8')) as {
      scripts: object;
    };
    const dockerfile = await readFile(new URL('Dockerfile', root), 'utf8');
    const chart: unknown = parse(await readFile(new URL('deploy/helm/weir/values.yaml', root), 'utf8'));
    const wrong: string[] = [];
    for (const sample of samples.filter((one) => exceptionOf(one) !== undefined)) {
      const { text, place, language } = sample;
      for (const [, name = ''] of text.matchAll(/\bnpm (?:run )?([\w:]+)/g))
        if (!(name in scripts) && !['ci', 'install'].includes(name))
          wrong.push(`${place}: package.json has no script ${name}`);
      for (const [, file = ''] of text.matchAll(
        /(?:^|[\s=])((?:adapters|core|deploy|docs|plugins|scripts|storage)\/[\w./-]*[\w])/g,
      ))
        if (!existsSync(new URL(file, root)) && file !== 'deploy/.env')
          wrong.push(`${place}: there is no ${file}`);
      for (const [, name = ''] of text.matchAll(/--build-arg (\w+)=/g))
        if (!new RegExp(`^ARG ${name}\\b`, 'm').test(dockerfile))
          wrong.push(`${place}: the Dockerfile has no argument ${name}`);
      for (const [, name = ''] of text.matchAll(/--set(?:-file)? ([\w.]+)=/g))
        if (name.split('.').reduce<unknown>((value, part) => Object(value)[part], chart) === undefined)
          wrong.push(`${place}: the chart has no value ${name}`);
      if (language !== 'sh' && !text.startsWith('$ ')) continue;
      const script = text.replaceAll(/^\$ /gm, '').replaceAll(/…|<\w+>/g, 'x');
      if (language === 'sh') {
        const { status, stderr } = spawnSync('bash', ['-n', '-c', script], { encoding: 'utf8' });
        if (status !== 0) wrong.push(`${place}: ${stderr}`);
      }
      for (const [, command = '', rest = ''] of script.matchAll(
        /(?:npx weir(?:-gateway)?|run\.mjs|weir\.mjs) ([a-z][\w-]+)?([^\n#]*)/g,
      )) {
        if (command === '') continue;
        if (!help.includes(`weir ${command}`)) {
          wrong.push(`${place}: weir has no command ${command}`);
          continue;
        }
        helps.set(command, helps.get(command) ?? help + (await runWeir([command, '--help'])).stdout);
        for (const [option] of rest.matchAll(/(?<= )--[a-z][\w-]*/g))
          if (!helps.get(command)?.includes(option))
            wrong.push(`${place}: weir ${command} has no option ${option}`);
      }
    }
    assert.deepEqual(wrong, []);
  });
});

const helps = new Map<string, string>();

/** A block that shows what the command above it prints, below the same heading. */
function followsCommand(sample: Sample): boolean {
  const above = samples[samples.indexOf(sample) - 1];
  return above?.language === 'sh' && above.document === sample.document && above.section === sample.section;
}

/** Names of the headings of a page in links, as GitHub makes them. */
function headingsOf(text: string): readonly string[] {
  return [...text.matchAll(/^#{1,6} (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

/** A part of a module, with what its page has before it. */
function wholeModule(sample: Sample): Sample {
  const { text } = sample;
  const from = (names: string): string => `import { ${names} } from 'weir-gateway/plugin';\n`;
  const whole = /^\s*(check|create)\(/.test(text)
    ? `${from('definePlugin, GatewayError, linearPattern, Type')}const schema = Type.Object({ pattern: Type.String(), url: Type.String(), most: Type.Integer() });
export default definePlugin({ name: 'part', schema, ${text.trimStart().startsWith('check') ? `create: () => ({}), ${text}` : text} });`
    : text.startsWith('definePlugin')
      ? from('definePlugin') + text
      : text.startsWith('defineRoute')
        ? `${from('defineRoute, Type')}${text.replace('// …', "id: 'part', method: 'POST', path: '/part', summary: 'Part', scope: 'logs.view', audit: null, body: Type.Object({ name: Type.String() }), reply: Type.Object({ id: Type.String(), name: Type.String() }), handle: () => ({ id: '7', name: 'weir' }),")}`
        : text.includes('OpenAIRealtimeWS') && !text.includes('new OpenAI(')
          ? `import OpenAI from 'openai';\nimport { OpenAIRealtimeWS } from 'openai/realtime/ws';\nconst client = new OpenAI();\n${text}`
          : text;
  // Without an import it would be no module, and share its names with the others.
  return { ...sample, text: `${whole}\nexport {};\n` };
}

/** What the compiler says of the samples, each a module of its own, with the options of this project. */
function complaints(found: readonly Sample[]): readonly string[] {
  const folder = fileURLToPath(root);
  const { config } = ts.readConfigFile(path.join(folder, 'tsconfig.json'), (file) =>
    ts.sys.readFile(file),
  ) as {
    config: { compilerOptions: object };
  };
  const { options } = ts.convertCompilerOptionsFromJson(
    { ...config.compilerOptions, noUnusedLocals: false, noUnusedParameters: false },
    folder,
  );
  const host = ts.createCompilerHost(options);
  const named = new Map(
    found.map(
      (sample, at) => [path.join(folder, 'examples', `sample-${at}.ts`), wholeModule(sample)] as const,
    ),
  );
  const { getSourceFile, fileExists, readFile: readSource } = host;
  host.fileExists = (file) => named.has(file) || fileExists.call(host, file);
  host.readFile = (file) => named.get(file)?.text ?? readSource.call(host, file);
  host.getSourceFile = (file, version, ...rest) => {
    const text = named.get(file)?.text;
    return text === undefined
      ? getSourceFile.call(host, file, version, ...rest)
      : ts.createSourceFile(file, text, version);
  };
  const program = ts.createProgram([...named.keys()], options, host);
  return [...named].flatMap(([file, { place }]) => {
    const source = program.getSourceFile(file);
    return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)].map(
      (one) => `${place}: ${ts.flattenDiagnosticMessageText(one.messageText, '\n')}`,
    );
  });
}
