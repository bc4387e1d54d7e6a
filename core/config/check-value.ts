import { type TSchema, Type } from 'typebox';
import { hideSecrets } from './ajv.ts';
import type { Origin } from './config-node.ts';
import type { ConfigSource } from './config-source.ts';
import type { Hide, Issue } from './issue.ts';
import { pointerSegments } from '../base/json.ts';
import { arrangeProblems, type Problem } from './problem.ts';
import { validateValue } from './validate-value.ts';
import { quoted } from '../base/did-you-mean.ts';
import { messageOf } from '../errors/gateway-error.ts';

const NoOptions = Type.Object({}, { additionalProperties: false });

/**
 * Validates a plugin's options at their place in the configuration (`pointer`), with the same places, suggestions and
 * spellings. Without a schema only an empty object is valid. A schema that does not compile is a problem too.
 */
export function validateOptions(
  schema: TSchema | undefined,
  value: unknown,
  place: ValuePlace,
): CheckedValue {
  const { pointer, source } = place;
  try {
    return checkValue(schema ?? NoOptions, value ?? {}, place);
  } catch (error) {
    const reason = messageOf(error);
    const problem = {
      ...source.locate(pointer, 'key'),
      path: pointer,
      message: `the schema of these options is not valid (${reason}); correct it in the plugin's code`,
    };
    return { value: {}, problems: [problem] };
  }
}

/** A normalised value with its problems. */
export interface CheckedValue {
  /** With defaults and canonical key spelling. Valid only without problems. */
  readonly value: unknown;
  readonly problems: Problem[];
}

/** Origin of a value: its pointer in the configuration, and the configuration's source. */
interface ValuePlace {
  readonly pointer: string;
  readonly source: ConfigSource;
  /** See `validateValue`. */
  readonly isSlim?: boolean;
}

/**
 * Normalises a configuration value to its schema and validates it; reports every problem at once. Throws an `Error`
 * when the schema itself is wrong.
 */
export function checkValue(
  schema: TSchema,
  value: unknown,
  { pointer, source, isSlim = false }: ValuePlace,
): CheckedValue {
  const hide: Hide = (path, found) =>
    originText(pointer + path, source) ?? hideSecrets(pointer + path, found);
  const origin = (path: string): Origin | undefined => source.origin(pointer + path);
  const found = validateValue(schema, value, { origin, hide, isSlim });
  const problems = found.issues
    // An unresolved name has been reported already; its value is unknown.
    .filter((issue) => issue.part === 'key' || source.origin(pointer + issue.path)?.resolved !== false)
    .map((issue) => problemOfIssue(issue, { pointer, source }));
  return { value: found.value, problems: arrangeProblems(problems) };
}

function originText(pointer: string, source: ConfigSource): string | undefined {
  const origin = source.origin(pointer);
  if (origin === undefined) return undefined;
  return origin.whole
    ? `the value of ${origin.names.join('')}`
    : `a text with ${origin.names.join(' and ')} in it`;
}

function problemOfIssue({ path, message, part }: Issue, { pointer, source }: ValuePlace): Problem {
  const absolute = pointer + path;
  const { file, line, column } = source.locate(absolute, part);
  const subject = part === 'key' ? '' : subjectOf(absolute);
  return { file, line, column, path: absolute, message: subject + message };
}

/** Subject of a message: `"port": `, `"methods", item 2: `; empty for the root. */
function subjectOf(pointer: string): string {
  const segments = pointerSegments(pointer);
  const last = segments.at(-1);
  if (last === undefined) return '';
  const list = segments.at(-2);
  return /^\d+$/.test(last) && list !== undefined
    ? `${quoted(list)}, item ${Number(last) + 1}: `
    : `${quoted(last)}: `;
}
