/** Configurations: the object of the header `x-portkey-config`, and the YAML of the gateway. */
import fc from 'fast-check';
import { stringify } from 'yaml';
import { GatewayConfigSchema } from '../../core/config/schema.ts';
import { requiredKeys, schemaMap, schemaObject } from '../../core/config/describe-schema.ts';
import { load } from '../../core/config/load-texts.test-support.ts';
import { RouteConfigSchema } from '../../core/organisation/route-config.ts';
import { compileConfig } from '../../core/routing/plan/compile-config.ts';
import { providerLookup, parseInlineConfig } from '../../core/routing/plan/read-config.ts';
import { brokenValues } from '../property/broken-values.ts';
import { valuesOf, type ValueSource } from '../property/schema-arbitrary.ts';
import { editedBytes } from './bytes.ts';
import { must, target, type FuzzTarget } from './target.ts';

const source: ValueSource = {
  document: { components: {} },
  known: {
    provider: ['openai', 'openai-prod', '@openai-prod', 'mock', 'nobody'],
    virtual_key: ['openai-prod', '@openai-prod'],
    mode: ['fallback', 'loadbalance', 'conditional', 'single'],
    use: ['auth', 'provider', 'cache', './x.ts'],
    dialect: ['openai-chat'],
    base_url: ['https://host.example/v1', 'ftp://x', 'http://127.0.0.1:1'],
  },
};
const knowsProvider = providerLookup({
  builtIn: ['openai', 'anthropic', 'mock'],
  configured: ['openai-prod'],
});

/** What the issues, problems and warnings of a config may come to. */
const mostIssues = 100;
const longestIssue = 5000;

function mustBeFew(issues: readonly { readonly message: string }[]): void {
  must(issues.length <= mostIssues, () => `${issues.length} issues`);
  for (const { message } of issues)
    must(
      message.length <= longestIssue,
      () => `An issue of ${message.length} characters: ${message.slice(0, 200)}`,
    );
}

function inlineTexts(): fc.Arbitrary<string> {
  const configs = valuesOf(RouteConfigSchema, source);
  const texts = fc.oneof(
    { arbitrary: configs, weight: 2 },
    brokenValues(configs, { pieces: configs, most: 4 }),
  );
  const json = texts.map((value) => JSON.stringify(value));
  return fc.oneof(
    { arbitrary: json, weight: 4 },
    editedBytes(
      json.map((text) => Buffer.from(text)),
      2,
    ).map((bytes) => bytes.toString()),
  );
}

/** Lines of YAML that mean more than they say. */
const yamlLines = fc.constantFrom(
  ...[
    'a: &a [*a]\n',
    '<<: *a\n',
    '? [x]\n: y\n',
    '%YAML 1.1\n---\n',
    '...\n',
    '---\n',
    '"\\u0000": 1\n',
    '\t- x\n',
  ],
  ...[
    'include: [ "*.yaml" ]\n',
    'include: main.yaml\n',
    'x: ${A:-${B}}\n',
    'x: ${file:/dev/zero}\n',
    'x: $${\n',
  ],
  ...[
    'version: 1\n',
    'a: !!binary x\n',
    'a: !!set {x}\n',
    'a: 0x1F\n',
    'a: 1e999\n',
    '__proto__: { x: 1 }\n',
  ],
);

/** Whole files of the required keys and a few of the others: all of them at once would hide each other's mistakes. */
function configFiles(): fc.Arbitrary<unknown> {
  const schema = schemaObject(GatewayConfigSchema);
  const sections = Object.fromEntries(
    [...schemaMap(schema, 'properties')].map(([name, section]) => [name, valuesOf(section, source, name)]),
  );
  const required = requiredKeys(schema);
  const others = Object.keys(sections).filter((name) => !required.includes(name));
  return fc
    .subarray(others, { maxLength: 3 })
    .chain((chosen) =>
      fc.record(
        Object.fromEntries(
          [...required, ...chosen].map((name) => [name, sections[name] as fc.Arbitrary<unknown>]),
        ),
      ),
    );
}

function yamlTexts(): fc.Arbitrary<string> {
  const configs = configFiles();
  const any = fc.oneof(
    { arbitrary: configs, weight: 2 },
    brokenValues(configs, { pieces: configs, most: 4 }),
  );
  const written = fc
    .tuple(any, fc.boolean())
    .map(([value, asJson]) =>
      asJson ? JSON.stringify(value) : stringify(value, { aliasDuplicateObjects: false }),
    );
  const edited = editedBytes(
    written.map((text) => Buffer.from(text)),
    2,
  ).map((bytes) => bytes.toString());
  const mixed = fc
    .tuple(edited, fc.array(yamlLines, { maxLength: 3 }))
    .map(([text, lines]) => lines.join('') + text);
  return fc.oneof({ arbitrary: written, weight: 2 }, edited, mixed);
}

/** Targets of this file. */
export const configurationTargets: readonly FuzzTarget[] = [
  target('config-inline', () => ({
    values: inlineTexts(),
    check(text) {
      const parsed = parseInlineConfig(text);
      if (!parsed.ok) {
        must(parsed.issues.length > 0, 'It is refused without an issue.');
        return mustBeFew(parsed.issues);
      }
      const result = compileConfig(parsed.config, {
        ...{ id: 'fuzzed', slug: undefined, configs: new Map([['main', parsed.config]]), knowsProvider },
        servicePrefixes: ['x-service-', 'x-portkey-'],
      });
      mustBeFew(result.warnings);
      if (result.ok) return;
      must(result.issues.length > 0, 'It is refused without an issue.');
      mustBeFew(result.issues);
    },
  })),
  target('config-file', () => ({
    values: yamlTexts(),
    async check(text) {
      const result = await load({ 'main.yaml': text }, { A: 'a', B: '1' });
      if (result.ok) return mustBeFew(result.warnings);
      must(result.problems.length > 0, 'It is refused without a problem.');
      mustBeFew(result.problems);
      for (const { file, line, message } of result.problems) {
        must(file.startsWith('/c/'), () => `The problem is said to be in ${file}.`);
        must(line > 0 || message.includes('the configuration file'), () => `Without a line: ${message}`);
      }
    },
  })),
];
