import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, it } from 'node:test';
import { loadConfig } from './load-config.ts';
import { formatProblem } from './problem.ts';

const minimal = 'version: 1\npipelines: [{ name: gateway, match: { path: /** }, plugins: [auth] }]\n';

describe('loadConfig: includes', () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-include-'));
  after(() => rmSync(folder, { recursive: true }));
  let number = 0;
  /** Loads `main.yaml` of a new folder with these files. */
  const loadFolder = async (files: Record<string, string>, env: Record<string, string> = {}) => {
    const base = join(folder, String(number++));
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(base, name)), { recursive: true });
      writeFileSync(join(base, name), text);
    }
    const result = await loadConfig(join(base, 'main.yaml'), { env });
    const problems = result.ok ? result.warnings : result.problems;
    const watched = result.ok ? result.source.files : result.files;
    return {
      result,
      problems: problems.map((problem) => formatProblem(problem).replaceAll(`${base}/`, '')),
      files: watched.map((file) => file.replace(`${base}/`, '')),
    };
  };
  const pipeline = (name: string): string =>
    `pipelines:\n  - { name: ${name}, match: { path: / }, plugins: [{ p: { file: x } }] }\n`;

  it('merges keys, appends lists in order, and keeps places and files', async () => {
    const { result, files } = await loadFolder({
      'main.yaml': `version: 1\ninclude: [conf.d/*.yaml, one.yaml]\nserver: { port: 1 }\n${pipeline('main')}`,
      'conf.d/b.yaml': `server: { host: "0.0.0.0" }\n${pipeline('b')}`,
      'conf.d/a.yaml': `version: 1\ninclude: [deep/../deep/more.yaml]\n${pipeline('a')}`,
      'conf.d/deep/more.yaml': `# empty above\n\n${pipeline('more')}`,
      'one.yaml': 'providers: { local: { base_url: "http://127.0.0.1:1/v1", api_key: "${file:key}" } }\n',
      key: 'k\n',
      'conf.d/.hidden.yaml': 'nonsense: true\n',
    });
    assert.ok(result.ok);
    const { config, source } = result;
    assert.deepEqual(
      config.pipelines.map(({ name }) => name),
      ['main', 'a', 'more', 'b'],
    );
    assert.deepEqual([config.server.port, config.server.host], [1, '0.0.0.0']);
    assert.equal(config.providers.local?.api_key, 'k');
    assert.deepEqual(files, [
      ...['main.yaml', 'conf.d/a.yaml', 'conf.d/b.yaml', 'conf.d/deep/more.yaml', 'one.yaml', 'key'],
      'conf.d/*.yaml',
    ]);
    const entry = config.pipelines[2]?.plugins[0];
    assert.ok(entry);
    assert.match(entry.file, /conf\.d\/deep\/more\.yaml$/);
    const place = source.locate(`${entry.optionsPointer}/file`);
    assert.match(place.file, /\d+\/conf\.d\/deep\/more\.yaml$/);
    assert.deepEqual([place.line, place.column], [4, 62]);
  });

  it('names both places when values differ, and neither value', async () => {
    const { problems } = await loadFolder({
      'main.yaml': `version: 1\ninclude: [a.yaml]\nserver: { host: one, port: 5, header_aliases: [x] }\n${pipeline('m')}`,
      'a.yaml': 'version: 1\nserver:\n  host: two\n  port: 5\n  header_aliases: y\n',
    });
    assert.deepEqual(problems, [
      'a.yaml:3:9: this key has another value at main.yaml:3:17; keep one of them',
      'a.yaml:5:19: this key is a single value here and a list at main.yaml:3:47; keep one of them',
    ]);
  });

  it('finds a problem in the file where it stands', async () => {
    const { problems } = await loadFolder({
      'main.yaml': `version: 1\ninclude: [a.yaml]\nserver: { base_path: /a, prt: 1 }\n${pipeline('m')}`,
      'a.yaml': `server:\n  basePath: /b\n  hst: x\n${pipeline('9-_/')}`,
    });
    assert.deepEqual(problems, [
      'main.yaml:3:26: unknown key "prt"; did you mean "port"?',
      'a.yaml:2:3: "base_path" and "basePath" are two spellings of the same key; keep one',
      'a.yaml:3:3: unknown key "hst"; did you mean "host"?',
      'a.yaml:5:13: "name": expected a name of letters, digits, "-" and "_", found "9-_/"',
    ]);
  });

  it('refuses a circle', async () => {
    const { problems } = await loadFolder({
      'main.yaml': `version: 1\ninclude: [a.yaml]\n${pipeline('m')}`,
      'a.yaml': 'include: [sub/b.yaml]\n',
      'sub/b.yaml': 'include:\n  - ../main.yaml\n',
    });
    assert.deepEqual(problems, [
      'sub/b.yaml:2:5: the includes go round in a circle: main.yaml → a.yaml → sub/b.yaml → main.yaml; remove one of them',
    ]);
  });

  it('reads a file once, and a pattern means the other files', async () => {
    const { result } = await loadFolder({
      'main.yaml': `version: 1\ninclude: ["*.yaml", a.yaml]\n${pipeline('m')}`,
      'a.yaml': pipeline('a'),
      'b.yaml': `include: [a.yaml]\n${pipeline('b')}`,
    });
    assert.ok(result.ok);
    assert.deepEqual(
      result.config.pipelines.map(({ name }) => name),
      ['m', 'a', 'b'],
    );
  });

  it('warns of a pattern without files but refuses a name without a file', async () => {
    const main = (include: string): Record<string, string> => ({
      'main.yaml': `version: 1\ninclude:\n  - ${include}\n${pipeline('m')}`,
    });
    const pattern = await loadFolder(main('conf.d/*.yaml'));
    assert.ok(pattern.result.ok);
    assert.deepEqual(pattern.problems, [
      'main.yaml:3:5: warning: no file matches "conf.d/*.yaml"; correct the pattern or remove it',
    ]);
    const name = await loadFolder(main('conf.d/a.yaml'));
    assert.ok(!name.result.ok);
    assert.deepEqual(name.problems, [
      'main.yaml:3:5: the included file conf.d/a.yaml does not exist; create it or correct the name',
    ]);
    assert.deepEqual(name.files, ['main.yaml', 'conf.d/a.yaml']);
  });

  it('reports broken YAML of all files at once, and nothing that follows from it', async () => {
    const { problems } = await loadFolder({
      'main.yaml': 'version: 1\ninclude: [a.yaml, b.yaml]\n',
      'a.yaml': 'pipelines:\n\t- x\n',
      'b.yaml': 'a: 1\na: 2\n',
    });
    assert.deepEqual(
      problems.map((problem) => problem.split(': ')[0]),
      ['a.yaml:2:1', 'b.yaml:2:1'],
    );
  });

  for (const [written, expected] of [
    ['include: a.yaml', 'main.yaml:1:1: "include" must be a list of file names or patterns'],
    ['include: [5]', 'main.yaml:1:11: an include must be the name of a file or a pattern'],
    [`include: [${'x,'.repeat(101)}]`, 'main.yaml:1:1: "include" may hold at most 100 entries'],
  ] as const)
    it(`refuses ${written.slice(0, 20)}`, async () => {
      const { problems } = await loadFolder({ 'main.yaml': `${written}\nversion: 1\n${pipeline('m')}` });
      assert.deepEqual(problems, [expected]);
    });

  it('reads a bounded number of files', async () => {
    const many = Object.fromEntries(
      Array.from({ length: 120 }, (_, index) => [`d/${index}.yaml`, 'version: 1\n']),
    );
    const { problems } = await loadFolder({ 'main.yaml': `include: [d/*.yaml]\n${minimal}`, ...many });
    assert.deepEqual(problems, ['main.yaml:1:11: more than 100 files are included']);
  });
});
