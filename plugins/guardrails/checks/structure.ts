/** Checks of how an answer is built: JSON that fits a schema or has keys, blocks of code, SQL. */
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import { isJsonObject, parseJson, writeJson } from '../../../core/base/json.ts';
import {
  type AnyCheck,
  type CheckSubject,
  defineCheck,
  type JsonValue,
  linearPattern,
  skipped,
  Type,
  verdictOf,
} from '../../../core/pipeline/plugin.ts';
import { mostSteps, Not, type Operator, OperatorOf, strict, viewsOfAll } from './shared.ts';
import { messageOf } from '../../../core/errors/gateway-error.ts';

const nothing = 'There is no text to look at.';

/**
 * Texts whose structure is checked: each choice of an answer, the last message of a request; of a call of a tool its
 * arguments, or the structured content of its result, else the texts of its content.
 */
function wholes({ endpoint, phase, text, texts, json }: CheckSubject): readonly string[] {
  if (endpoint === 'mcp') {
    const whole = phase === 'input' ? json : isJsonObject(json) ? json['structuredContent'] : undefined;
    const written = whole === undefined ? text : writeJson(whole);
    return written === '' ? [] : [written];
  }
  if (phase === 'input') return text === '' ? [] : [text];
  const choices = new Map<number, string>();
  for (const { type, choice, text: one } of texts)
    if (type === 'text' && one !== '') choices.set(choice, (choices.get(choice) ?? '') + one);
  return [...choices.values()];
}

/** A block between lines of three or more backticks or tildes; `label` is the word behind the first ones. */
interface FencedBlock {
  readonly label: string;
  readonly content: string;
}

const fence = /^\s*(`{3,}|~{3,})\s*([^\s`{]*)/;

/** A block that does not end extends to the end of the text. */
function fencedBlocks(text: string): readonly FencedBlock[] {
  if (!text.includes('```') && !text.includes('~~~')) return [];
  const blocks: FencedBlock[] = [];
  let open: { readonly mark: string; readonly label: string; readonly lines: string[] } | undefined;
  const close = (): void => {
    if (open !== undefined) blocks.push({ label: open.label, content: open.lines.join('\n') });
    open = undefined;
  };
  for (const line of text.split('\n')) {
    const [, mark = '', label = ''] = fence.exec(line) ?? [];
    if (open === undefined) {
      if (mark !== '') open = { mark, label: label.toLowerCase(), lines: [] };
    } else if (mark.startsWith(open.mark) && label === '') close();
    else open.lines.push(line);
  }
  close();
  return blocks;
}

/** Most places of a text that are tried as the start of JSON. */
const mostStarts = 50;

/** The JSON in a text: all of it, else that of its fenced blocks, else that between brackets. */
function jsonIn(text: string): readonly JsonValue[] {
  const whole = parseJson(text);
  if (whole !== undefined) return [whole];
  const fenced = fencedBlocks(text).flatMap(({ content }) => parseJson(content) ?? []);
  if (fenced.length > 0) return fenced;
  const found: JsonValue[] = [];
  const opening = /[[{]/g;
  for (let tried = 0; tried < mostStarts; tried += 1) {
    const start = opening.exec(text)?.index;
    if (start === undefined) break;
    const end = endOfBrackets(text, start);
    const json = end === undefined ? undefined : parseJson(text.slice(start, end));
    if (json === undefined || end === undefined) continue;
    found.push(json);
    opening.lastIndex = end;
  }
  return found;
}

/** Offset of the bracket that closes the one here; undefined without one. */
function endOfBrackets(text: string, start: number): number | undefined {
  // A string that does not end extends to the end of the text: nothing is tried twice.
  const steps = /"(?:[^"\\]|\\[^]?)*"?|[[\]{}]/g;
  steps.lastIndex = start;
  let depth = 0;
  for (let step = steps.exec(text); step !== null; step = steps.exec(text)) {
    if (step[0] === '{' || step[0] === '[') depth += 1;
    else if (step[0] === '}' || step[0] === ']') depth -= 1;
    if (depth === 0) return steps.lastIndex;
  }
  return undefined;
}

/** Characters of a schema, written as JSON. */
const longestSchema = 100_000;

type Validate = (value: unknown) => boolean;

/** An ajv whose `pattern` takes time in proportion to the text. Throws for an invalid schema. */
function compileSchema(schema: Readonly<Record<string, unknown>>): Validate {
  const length = JSON.stringify(schema).length;
  if (length > longestSchema)
    throw new Error(`it has ${length} characters, and ${longestSchema} are the most`);
  const regExp = (source: string) => {
    const pattern = linearPattern(source, mostSteps);
    if (typeof pattern === 'string') throw new Error(`its pattern ${JSON.stringify(source)} ${pattern}`);
    // Ajv distinguishes expressions by this text.
    return { test: (text: string) => pattern.test(text), toString: () => source };
  };
  const options = {
    strict: false,
    logger: false,
    code: { optimize: false, regExp: Object.assign(regExp, { code: 'linearPattern' }) },
  } as const;
  const { $schema } = schema;
  const isOlder = typeof $schema === 'string' && /\/draft-0[67]\//.test($schema);
  const plain = Object.fromEntries(Object.entries(schema).filter(([name]) => name !== '$schema'));
  const ajv = isOlder ? new Ajv(options) : new Ajv2020(options);
  ajvFormats.default(ajv);
  return ajv.compile(plain);
}

const jsonSchema = defineCheck({
  id: 'default.jsonSchema',
  description:
    'Passes when each choice of the answer holds JSON that fits a schema: as a whole, in a fenced block, or within the text. A text without JSON does not fit.',
  phases: ['input', 'output'],
  schema: Type.Object(
    {
      schema: Type.Record(Type.String(), Type.Unknown(), {
        examples: [{ type: 'object', required: ['answer'] }],
        description:
          'A JSON Schema of 2020-12, or of draft 6 or 7 when `$schema` says so; at most 100000 characters. Its `pattern`s are expressions in the syntax of RE2.',
      }),
      not: Not,
    },
    strict,
  ),
  check({ schema }) {
    try {
      compileSchema(schema);
      return [];
    } catch (error) {
      const reason = messageOf(error).slice(0, 300);
      return [{ path: '/schema', message: `cannot be used: ${reason}` }];
    }
  },
  create({ schema, not }) {
    const fits = compileSchema(schema);
    return (subject) => {
      const texts = wholes(subject);
      if (texts.length === 0) return skipped(nothing);
      const found = texts.map(jsonIn);
      const holds = found.every((values) => values.some((value) => fits(value)));
      const explanation = found.some((values) => values.length === 0)
        ? 'There is no JSON in the text.'
        : `The JSON ${holds ? 'fits' : 'does not fit'} the schema.`;
      return verdictOf(holds, not, { explanation });
    };
  },
});

const jsonKeys = defineCheck({
  id: 'default.jsonKeys',
  description:
    'Looks for keys at the top of the JSON that each choice of the answer holds: passes when any, all or none of them are present. A text without JSON has no keys, and fails unless the condition is none.',
  phases: ['input', 'output'],
  schema: Type.Object(
    {
      keys: Type.Array(Type.String({ minLength: 1, maxLength: 1000 }), {
        minItems: 1,
        maxItems: 1000,
        uniqueItems: true,
        description: 'Keys of a JSON object.',
      }),
      operator: OperatorOf('keys', 'any'),
    },
    strict,
  ),
  create({ keys, operator = 'any' }) {
    return (subject) => {
      const texts = wholes(subject);
      if (texts.length === 0) return skipped(nothing);
      const found = texts.map((text) => jsonIn(text).filter(isJsonObject));
      if (operator === 'none' && found.every((objects) => objects.length === 0))
        return skipped('There is no JSON object in the text.');
      const holds = found.every((objects) => holdsForOne(objects, keys, operator));
      const present = keys.filter((key) =>
        found.some((objects) => objects.some((one) => Object.hasOwn(one, key))),
      );
      const explanation = `${present.length} of ${keys.length} keys are there; ${operator} must be.`;
      return verdictOf(holds, false, { explanation, operator, present });
    };
  },
});

function holdsForOne(
  objects: readonly Readonly<Record<string, JsonValue>>[],
  keys: readonly string[],
  operator: Operator,
): boolean {
  if (operator === 'all') return objects.some((one) => keys.every((key) => Object.hasOwn(one, key)));
  const hasAny = objects.some((one) => keys.some((key) => Object.hasOwn(one, key)));
  return operator === 'any' ? hasAny : !hasAny;
}

/** Labels behind a fence for each language. */
const labels = {
  SQL: ['sql', 'mysql', 'postgresql', 'postgres', 'pgsql', 'plsql', 'plpgsql', 'tsql', 'sqlite'],
  Python: ['python', 'py', 'python3', 'py3', 'ipython'],
  TypeScript: ['typescript', 'ts', 'tsx', 'mts', 'cts'],
  JavaScript: ['javascript', 'js', 'jsx', 'mjs', 'cjs', 'node'],
  Java: ['java'],
  'C#': ['c#', 'csharp', 'cs'],
  'C++': ['c++', 'cpp', 'cc', 'cxx', 'hpp'],
  C: ['c', 'h'],
  Ruby: ['ruby', 'rb'],
  PHP: ['php'],
  Swift: ['swift'],
  Kotlin: ['kotlin', 'kt', 'kts'],
  Go: ['go', 'golang'],
  Rust: ['rust', 'rs'],
  Scala: ['scala'],
  R: ['r'],
  Perl: ['perl', 'pl'],
  Shell: ['shell', 'sh', 'bash', 'zsh', 'fish', 'ksh', 'console', 'shell-session'],
  HTML: ['html', 'htm', 'xhtml'],
  CSS: ['css', 'scss', 'sass', 'less'],
  XML: ['xml', 'svg', 'xsd', 'xsl', 'xslt'],
  JSON: ['json', 'jsonc', 'json5', 'jsonl', 'ndjson'],
  YAML: ['yaml', 'yml'],
  Markdown: ['markdown', 'md', 'mdx'],
  Dockerfile: ['dockerfile', 'docker', 'containerfile'],
} as const;
type Language = keyof typeof labels;

const containsCode = defineCheck({
  id: 'default.containsCode',
  description:
    'Passes when any text has a fenced block of code that is labelled with the language; blocks without a label are ignored.',
  phases: ['input', 'output'],
  schema: Type.Object(
    {
      format: Type.Enum(Object.keys(labels) as Language[], { description: 'The language.' }),
      not: Not,
    },
    strict,
  ),
  create({ format, not }) {
    const known = new Set<string>(labels[format]);
    return (subject) => {
      const views = viewsOfAll(subject);
      if (views.length === 0) return skipped(nothing);
      const holds = views.some((view) => fencedBlocks(view).some(({ label }) => known.has(label)));
      return verdictOf(holds, not, {
        explanation: `There is ${holds ? 'a' : 'no'} block of ${format}.`,
        format,
      });
    };
  },
});

/** A word, a number, a quoted name, or a single sign. An apostrophe is a sign: a text that seems to begin may be prose. */
const tokens = /[A-Za-z_][\w$]*|[0-9]+|"[^"\n]*"?|`[^`\n]*`?|[^\s]/g;

/** The statements that are known, by their first word. */
const statements = [
  'select',
  'insert',
  'update',
  'delete',
  'create',
  'alter',
  'drop',
  'truncate',
  'merge',
  'with',
  'grant',
] as const;
type Statement = (typeof statements)[number];

const objects = new Set([
  'table',
  'view',
  'index',
  'database',
  'schema',
  'user',
  'role',
  'function',
  'procedure',
  'trigger',
  'sequence',
  'materialized',
  'unique',
  'temporary',
  'temp',
  'or',
  'column',
]);
/** Tokens that follow the table of a statement; a sentence would continue with other words. */
const behindTable = new Set([
  '',
  ';',
  ')',
  ',',
  'where',
  'join',
  'inner',
  'left',
  'right',
  'full',
  'cross',
  'group',
  'order',
  'limit',
  'having',
  'union',
  'using',
  'returning',
  'as',
  'offset',
  'fetch',
  'for',
  'set',
  '`',
  '"',
  "'",
  '-',
]);
/** Most tokens between SELECT and its FROM. */
const longestColumns = 200;

const isName = (token: string): boolean => /^[A-Za-z_"`[]/.test(token);

/** The place behind a name such as `main.users`; undefined where there is none. */
function behindName(words: readonly string[], at: number): number | undefined {
  if (!isName(words[at] ?? '')) return undefined;
  let end = at + (words[at] === '[' ? 3 : 1);
  while (words[end] === '.') end += 2;
  return end;
}

function endsLikeSql(words: readonly string[], at: number): boolean {
  const end = behindName(words, at);
  return end !== undefined && behindTable.has(words[end] ?? '');
}

/** Whether a list of columns, and not the words of a sentence, leads from SELECT to a table. */
function isSelect(words: readonly string[], at: number): boolean {
  let from = at;
  const last = Math.min(words.length, at + longestColumns);
  while (from < last && words[from] !== 'from' && words[from] !== ';') from += 1;
  if (words[from] !== 'from') return false;
  const columns = words.slice(at, from);
  const follow = columns.some((one, index) => /^\w/.test(one) && /^\w/.test(columns[index + 1] ?? ''));
  const isList =
    columns.length > 0 &&
    (!follow || columns.some((one) => one === 'as' || one === 'distinct' || one === 'case'));
  return isList && (words[from + 1] === '(' || endsLikeSql(words, from + 1));
}

function isStatement(kind: Statement, words: readonly string[], at: number): boolean {
  const next = words[at] ?? '';
  const second = words[at + 1] ?? '';
  switch (kind) {
    case 'select':
      return isSelect(words, at);
    case 'insert': {
      const end = next === 'into' ? behindName(words, at + 1) : undefined;
      return end !== undefined && ['(', 'values', 'select', 'default'].includes(words[end] ?? '');
    }
    case 'update': {
      const end = behindName(words, at);
      return end !== undefined && words[end] === 'set' && words.slice(end, end + 8).includes('=');
    }
    case 'delete':
      return next === 'from' && endsLikeSql(words, at + 1);
    case 'create':
    case 'alter':
    case 'drop': {
      if (!objects.has(next)) return false;
      const name = second === 'if' ? at + 1 + (words[at + 2] === 'not' ? 3 : 2) : at + 1;
      const end = behindName(words, name);
      if (end === undefined) return false;
      const behind = words[end] ?? '';
      return (
        behindTable.has(behind) ||
        ['(', 'add', 'drop', 'alter', 'rename', 'on', 'cascade', 'with'].includes(behind)
      );
    }
    case 'truncate':
      return next === 'table' && endsLikeSql(words, at + 1);
    case 'merge':
      return next === 'into' && words.slice(at, at + 12).includes('using');
    case 'with':
      return (
        second === 'as' &&
        words[at + 2] === '(' &&
        ['select', 'insert', 'update', 'delete', 'values'].includes(words[at + 3] ?? '')
      );
    case 'grant':
      return (
        words.slice(at, at + 20).includes('on') &&
        words.slice(at, at + 30).includes('to') &&
        ['select', 'insert', 'update', 'delete', 'all', 'execute', 'usage'].includes(next)
      );
  }
}

/** The kinds of statements in a text. */
function sqlIn(text: string): ReadonlySet<Statement> {
  const words = (text.replaceAll(/--[^\n]*|\/\*[^*]*\*+\//g, ' ').match(tokens) ?? []).map((one) =>
    one.toLowerCase(),
  );
  const found = new Set<Statement>();
  for (const [index, word] of words.entries()) {
    const kind = statements.find((one) => one === word);
    if (kind !== undefined && !found.has(kind) && isStatement(kind, words, index + 1)) found.add(kind);
  }
  return found;
}

const sql = defineCheck({
  id: 'default.sql',
  description:
    'Passes when any text has an SQL statement; with `not`, when none has. It reads keywords and names in their order (`SELECT … FROM name`, `DELETE FROM name WHERE`), in fenced blocks and between other words; it is a heuristic, not a parser.',
  phases: ['input', 'output'],
  schema: Type.Object(
    {
      statements: Type.Optional(
        Type.Array(Type.Enum([...statements]), {
          minItems: 1,
          uniqueItems: true,
          description: 'Statements to look for, by their first word. Default: all.',
        }),
      ),
      not: Not,
    },
    strict,
  ),
  create({ statements: wanted = statements, not }) {
    return (subject) => {
      const views = viewsOfAll(subject);
      if (views.length === 0) return skipped(nothing);
      const found = new Set(views.flatMap((view) => [...sqlIn(view)]));
      const kinds = wanted.filter((kind) => found.has(kind));
      const explanation = kinds.length > 0 ? 'There is an SQL statement.' : 'There is no SQL statement.';
      return verdictOf(kinds.length > 0, not, { explanation, statements: kinds });
    };
  },
});

/** Checks of JSON and code. */
export const structureChecks: readonly AnyCheck[] = [jsonSchema, jsonKeys, containsCode, sql];
