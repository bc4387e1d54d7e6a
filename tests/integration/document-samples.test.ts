// Code in the README and in docs is right: configurations, and parts of them, are taken by the loader; JSON parses;
// TypeScript that imports the gateway or an SDK has the right types.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { parse } from 'yaml';
import { loadConfig } from '../../core/config/load-config.ts';
import type { Problem } from '../../core/config/problem.ts';
import { GatewayConfigSchema } from '../../core/config/schema.ts';
import { schemaMap, schemaObject } from '../../core/config/schema-object.ts';
import { PluginBundler } from '../../core/lifecycle/plugin-bundler.ts';
import { checkPlugins, prepareGeneration } from '../../core/lifecycle/prepare.ts';
import { recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import { systemClock as clock } from '../../core/ports/clock.ts';
import { builtIns, providerNames, providerRows } from '../../main/built-ins.ts';
import { documents, samplesOf, type Sample } from '../kit/document-samples.ts';
import { stopEverything, temporaryFolder } from '../kit/process-kit.ts';

after(stopEverything);

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
  if (Array.isArray(value)) return isPlugins(value) ? withPlugins(value) : undefined;
  const members = new Map(Object.entries(Object(value)));
  const plugins: unknown = members.get('plugins');
  if (members.size === 1 && Array.isArray(plugins) && isPlugins(plugins)) return withPlugins(plugins);
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
function withPlugins(entries: readonly unknown[]): string {
  const names = entries.map(nameOf);
  const isAdmin = names.includes('management');
  const plugins = [
    ...(names.includes('auth') ? [] : ['auth']),
    ...entries,
    ...(names.includes('provider') || isAdmin ? [] : ['provider']),
  ];
  const match = isAdmin ? { routes: 'contributed' } : { path: '/**' };
  return JSON.stringify({ version: 1, pipelines: [{ name: 'gateway', match, plugins }] });
}

/** Variables whose values have a form. */
const variables: Readonly<Record<string, string>> = {
  WEIR_HOOK_SECRET: `whsec_${Buffer.alloc(24).toString('base64')}`,
};

/** Everything that the loader has against it, but for what only a machine of the reader has: hosts, files, records. */
async function problemsOf({ place }: Sample, text: string, folder: string): Promise<readonly string[]> {
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
    let checked = 0;
    for (const sample of of('yaml', 'yml')) {
      const text = wholeConfiguration(sample.text);
      if (text === undefined) continue;
      checked++;
      problems.push(...(await problemsOf(sample, text, folder)));
    }
    assert.deepEqual(problems, []);
    assert.ok(checked > 50, `only ${checked} were found`);
  });

  test('links lead to files, and to headings in them', async () => {
    const root = new URL('../../', import.meta.url);
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

  test('JSON parses', () => {
    const wrong = of('json').flatMap(({ place, text }) => {
      try {
        JSON.parse(text);
        return [];
      } catch (error) {
        return [`${place}: ${String(error)}`];
      }
    });
    assert.deepEqual(wrong, []);
  });

  test('TypeScript that imports the gateway or an SDK has the right types', () => {
    // Those that import weir-gateway/testing bring the whole gateway along; tests/package runs such a test.
    const found = of('ts').filter(
      ({ text }) =>
        /from '(weir-gateway\/plugin|openai|@anthropic-ai|@google)/.test(text) &&
        !text.includes('weir-gateway/testing'),
    );
    assert.ok(found.length >= 5);
    assert.deepEqual(complaints(found), []);
  });
});

/** Names of the headings of a page in links, as GitHub makes them. */
function headingsOf(text: string): readonly string[] {
  return [...text.matchAll(/^#{1,6} (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

/** What the compiler says of the samples, each a module of its own, with the options of this project. */
function complaints(found: readonly Sample[]): readonly string[] {
  const root = fileURLToPath(new URL('../../', import.meta.url));
  const { config } = ts.readConfigFile(path.join(root, 'tsconfig.json'), (file) => ts.sys.readFile(file)) as {
    config: { compilerOptions: object };
  };
  const { options } = ts.convertCompilerOptionsFromJson(
    { ...config.compilerOptions, noUnusedLocals: false, noUnusedParameters: false },
    root,
  );
  const host = ts.createCompilerHost(options);
  const named = new Map(
    found.map((sample, at) => [path.join(root, 'examples', `sample-${at}.ts`), sample] as const),
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
