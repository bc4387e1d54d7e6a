import path from 'node:path';
import { validate } from 'dockerfile-utils';
import { execForm, globExpression, isIgnored, readDockerfile, type Instruction } from './dockerfile.ts';

/** Context of checking a Dockerfile. */
interface BuildContext {
  readonly dockerfile: string;
  /** The text of `.dockerignore`. */
  readonly ignore: string;
  /** Every file of the tree, from the root, with forward slashes. */
  readonly files: readonly string[];
  /** Files that the program needs at run time; each must be in the image. */
  readonly needed: readonly string[];
  /** Required flags of Node. */
  readonly nodeFlags: readonly string[];
}

/** All faults of the Dockerfile, each with its line. */
export function checkDockerfile(context: BuildContext): string[] {
  const instructions = readDockerfile(context.dockerfile);
  return [
    ...validate(context.dockerfile).map(({ range, message }) => {
      const text = typeof message === 'string' ? message : message.value;
      return `Dockerfile:${range.start.line + 1}: ${text}`;
    }),
    ...checkStages(instructions),
    ...checkCopies(instructions, context),
    ...checkLastStage(instructions, context),
  ];
}

function checkStages(instructions: readonly Instruction[]): string[] {
  const problems: string[] = [];
  const defaults = new Map<string, string>();
  const stages = new Set<string>();
  for (const { line, keyword, rest, flags } of instructions) {
    if (keyword === 'ARG' && stages.size === 0) {
      const [name = '', value = ''] = rest.split('=');
      defaults.set(name, value);
    }
    if (keyword === 'FROM') {
      const [written = '', , stage = String(stages.size)] = rest.split(/\s+/);
      const image = written.replace(/\$\{?(\w+)\}?/g, (_, name: string) => defaults.get(name) ?? '');
      if (!stages.has(image))
        problems.push(...checkImage(image).map((text) => `Dockerfile:${line}: ${text}`));
      stages.add(stage);
    }
    const from = keyword === 'COPY' ? flags.get('from') : undefined;
    if (from !== undefined && !stages.has(from)) {
      problems.push(`Dockerfile:${line}: COPY --from=${from} names no earlier stage`);
    }
  }
  return problems;
}

/** Reason why an image is not pinned by an exact version and a digest. */
export function checkImage(image: string): string[] {
  const [name = '', digest] = image.split('@');
  const problems = checkTag(name);
  if (problems.length > 0) return problems;
  if (digest === undefined) return [`the image ${image} has no digest; name it as ${name}@sha256:…`];
  return /^sha256:[0-9a-f]{64}$/.test(digest) ? [] : [`the digest of ${name} is not sha256: with 64 digits`];
}

/** Reason why a name does not say one version of an image. */
export function checkTag(image: string): string[] {
  if (image === '') return ['the image has no name'];
  const tag = /:([^/:]+)$/.exec(image)?.[1];
  if (tag === undefined) return [`the image ${image} has no tag; name an exact version`];
  // Versions of PostgreSQL have two numbers; for other images such a tag names the newest of a line.
  const isExact = /(?:^|\/)postgres:/.test(image) ? /^\d+\.\d+/ : /^v?\d+\.\d+\.\d+/;
  return isExact.test(tag) ? [] : [`the tag of ${image} moves; name an exact version`];
}

function checkCopies(instructions: readonly Instruction[], context: BuildContext): string[] {
  const { files, ignore, needed } = context;
  const problems: string[] = [];
  const copied = new Set<string>();
  for (const { line, keyword, flags, rest } of instructions) {
    if ((keyword !== 'COPY' && keyword !== 'ADD') || flags.has('from')) continue;
    const sources = (execForm(rest) ?? rest.split(/\s+/)).slice(0, -1);
    for (const source of sources) {
      const pattern = globExpression(path.posix.normalize(source).replace(/\/$/, ''));
      const present = files.filter((file) => prefixesOf(file).some((prefix) => pattern.test(prefix)));
      const sent = present.filter((file) => !isIgnored(ignore, file));
      for (const file of sent) copied.add(file);
      if (present.length === 0) problems.push(`Dockerfile:${line}: COPY ${source}: there is no such file`);
      else if (sent.length === 0)
        problems.push(`Dockerfile:${line}: COPY ${source}: .dockerignore leaves it out`);
    }
  }
  const missing = needed.filter((file) => !copied.has(file));
  return [...problems, ...missing.map((file) => `Dockerfile: ${file} is needed at run time and not copied`)];
}

function prefixesOf(file: string): string[] {
  const parts = file.split('/');
  return parts.map((_, index) => parts.slice(0, index + 1).join('/'));
}

function checkLastStage(instructions: readonly Instruction[], { nodeFlags }: BuildContext): string[] {
  const begin = instructions.findLastIndex(({ keyword }) => keyword === 'FROM');
  const last = (wanted: string): Instruction | undefined =>
    instructions.slice(begin + 1).findLast(({ keyword }) => keyword === wanted);
  const problems: string[] = [];
  const user = last('USER')?.rest ?? '';
  if (!/^[1-9]\d*(:[1-9]\d*)?$/.test(user)) {
    problems.push(`Dockerfile: the last USER must be a number that is not root's, found "${user}"`);
  }
  const health = last('HEALTHCHECK')?.rest ?? 'NONE';
  if (execForm(health.replace(/^CMD\s+/, '')) === undefined) {
    problems.push('Dockerfile: the last stage needs a HEALTHCHECK in exec form (CMD ["…"])');
  }
  const start = last('ENTRYPOINT') ?? last('CMD');
  const words = execForm(start?.rest ?? '');
  if (words === undefined) {
    problems.push('Dockerfile: CMD must be in exec form (["…"]): a shell would keep SIGTERM to itself');
  } else problems.push(...checkNodeFlags(words, nodeFlags).map((text) => `Dockerfile: ${text}`));
  if (last('EXPOSE') === undefined) problems.push('Dockerfile: EXPOSE is missing');
  return problems;
}

/** Required flags that the Node command lacks. */
export function checkNodeFlags(words: readonly string[], nodeFlags: readonly string[]): string[] {
  return nodeFlags
    .filter((flag) => !words.includes(flag))
    .map((flag) => `the start command lacks ${flag} of scripts/runtime-flags.mjs`);
}
