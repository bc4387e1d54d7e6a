import { parse } from 'yaml';
import { checkImage, checkTag } from './check-dockerfile.ts';

/** Context of checking a compose file. */
interface ComposeContext {
  readonly text: string;
  /** The text of its example environment file. */
  readonly example: string;
  /** True when a path below the folder of the compose file exists. */
  exists(path: string): boolean;
  /** Required stop time of a locally built service, seconds. */
  readonly stopSeconds: number;
}

type Section = Readonly<Record<string, unknown>>;

const reference = /(?<!\$)\$\{(\w+)(:[?-][^}]*)?\}/g;
const secretName = /(PASSWORD|SECRET|TOKEN|KEY)$/;

/** All faults of the compose file. */
export function checkCompose(context: ComposeContext): string[] {
  let file: Section;
  try {
    file = section(parse(context.text, { merge: true }));
  } catch (error) {
    return [`compose.yaml: ${error instanceof Error ? error.message : String(error)}`];
  }
  const services = Object.entries(section(file['services']));
  if (services.length === 0) return ['compose.yaml: it has no services'];
  return [
    ...checkReferences(context),
    ...services.flatMap(([name, service]) =>
      checkService(section(service), file, context).map((text) => `compose.yaml: service ${name}: ${text}`),
    ),
  ];
}

/** Checks that the example lists every variable, and that a required secret has no default value. */
function checkReferences({ text, example }: ComposeContext): string[] {
  const listed = new Set([...example.matchAll(/^(\w+)=/gm)].map(([, name]) => name));
  return [...text.replace(/^\s*#.*$/gm, '').matchAll(reference)].flatMap(([whole, name = '', rest = '']) => {
    const problems = listed.has(name) ? [] : [`compose.yaml: ${whole} is not in deploy/.env.example`];
    if (secretName.test(name) && !rest.startsWith(':?') && rest !== ':-')
      problems.push(`compose.yaml: ${whole} must be \${${name}:?why} or have an empty default`);
    return problems;
  });
}

function checkService(service: Section, file: Section, context: ComposeContext): string[] {
  const { build, image, healthcheck, environment, depends_on: dependsOn, ports } = service;
  // An image that is built here has no digest yet.
  const check = build === undefined ? checkImage : checkTag;
  const problems = typeof image === 'string' ? check(withDefault(image)) : ['it has no image'];
  if (build === undefined && section(healthcheck)['test'] === undefined)
    problems.push('it has no healthcheck');
  for (const [name, value] of Object.entries(section(environment))) {
    if (secretName.test(name) && !/^\$\{/.test(String(value))) problems.push(`${name} is written in clear`);
  }
  for (const [name, condition] of Object.entries(section(dependsOn))) {
    if (section(file['services'])[name] === undefined)
      problems.push(`it depends on ${name}, which is no service`);
    if (section(condition)['condition'] !== 'service_healthy')
      problems.push(`it must wait until ${name} is healthy`);
  }
  for (const mount of list(service['volumes'])) problems.push(...checkMount(String(mount), file, context));
  for (const port of list(ports)) {
    if (!String(port).startsWith('127.0.0.1:'))
      problems.push(`the port ${String(port)} is open to every network`);
  }
  const grace = /^(\d+)s$/.exec(String(service['stop_grace_period']))?.[1];
  if (build !== undefined && Number(grace ?? 10) < context.stopSeconds)
    problems.push(`stop_grace_period must be ${context.stopSeconds}s at least`);
  return problems;
}

/** `${NAME:-image}` is that image by default. */
function withDefault(image: string): string {
  return /^\$\{\w+:-([^}]*)\}$/.exec(image)?.[1] ?? image;
}

function checkMount(mount: string, file: Section, { exists }: ComposeContext): string[] {
  const [source = ''] = mount.split(':');
  if (source.startsWith('.')) return exists(source) ? [] : [`${source} is mounted and does not exist`];
  return source in section(file['volumes']) ? [] : [`the volume ${source} is not declared`];
}

function section(value: unknown): Section {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
