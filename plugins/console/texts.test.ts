import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import ts from 'typescript';
import { bytes, count, duration, money, moment, percent } from './app/src/lib/format.ts';
import type { checks } from './app/src/texts/checks.ts';
import type { ranges } from './app/src/texts/ranges.ts';
import type { Texts } from './app/src/texts/language.ts';

const sources = new URL('app/src/', import.meta.url);
/** What users read, or hear, in attributes of these names, and in properties of declarations. */
const read =
  /^(aria-label|aria-description|title|alt|placeholder|label|text|hint|help|description|intro|words|message|note|noun)$/;
/** Attributes of which nothing is read. */
const unread = /^(className|d|id|rel|style|viewBox|aria-describedby|aria-controls|aria-labelledby)$/;
/** Words of a language, and not a name of the API, an address or JSON. */
const words = /(?:^|\s)\p{L}{2,}(?=[\s.,:?!]|$)|\p{Lu}\p{Ll}/u;
/** Any word; inside of an element it is read in any case. */
const word = /\p{L}{2,}/u;
/** Several words, words beside what is filled in, words that are put beside others, or one with a capital. */
const phrases = [
  /(?:^|[^-\w])\p{L}*\p{Ll} \p{L}{2,}/u,
  /\{\} ?[×,]? ?\p{L}{2,}(?![\w:(/])|(?:^|\s)\p{L}{2,}:? \{\}/u,
  /^[ ,;]+\p{L}{2,}|\p{L}{2,}[,;:]? +$/u,
  /^\p{Lu}\p{L}*\p{Ll}[.…:]?$/u,
];
/** Lists of classes, values of style sheets, and addresses. */
const looks = /^\w+:\/\/\S+$|(?:^|[\s:])(?:bg|text|font|border|gap)-[\w[]|var\(--|^\d+px /;

/** What looks like a text in a file and is none; without a list: the whole file. */
interface Exception {
  readonly file: string;
  readonly why: string;
  readonly literals?: readonly string[];
}

const exceptions: readonly Exception[] = [
  { file: 'lib/snippets.ts', why: 'Code that users copy.' },
  { file: 'pages/playground/requests.ts', why: 'Code that users copy.' },
  {
    file: 'resource/secret.tsx',
    why: 'A command that users copy.',
    literals: ['curl {}/chat/completions \\'],
  },
  {
    file: 'pages/logs/timings.ts',
    why: 'The scheme of a header, in a command that users copy.',
    literals: ['Bearer '],
  },
  {
    file: 'pages/start/first-run.tsx',
    why: 'Names of products.',
    literals: ['Anthropic', 'Google Gemini', 'Mistral', 'Groq', 'DeepSeek', 'OpenRouter'],
  },
  {
    file: 'pages/prompts/template.ts',
    why: 'The name of a parameter, beside those that the prompt names.',
    literals: ['model: {}'],
  },
  {
    file: 'editor/json-assist.ts',
    why: 'Names that the parser gives to its nodes.',
    literals: ['Property', 'PropertyName'],
  },
  {
    file: 'lib/format.ts',
    why: 'Symbols of units, which are the same in all languages.',
    literals: ['{} min', '{} ms', '{} KiB', '{} MiB'],
  },
  {
    file: 'pages/keys/keys.tsx',
    why: 'A value of a field, whose text is among the texts.',
    literals: ['no'],
  },
  {
    file: 'pages/settings/categories.ts',
    why: 'Ends of the names of settings.',
    literals: ['Data', 'Analytics', 'Prompts', 'Configs'],
  },
  {
    file: 'pages/playground/tools.ts',
    why: 'A place in a text, before the sentence about it.',
    literals: ['[{}].function.name: {}'],
  },
  { file: 'ui/page.tsx', why: 'The title of a window.', literals: ['{} · {}'] },
  {
    file: 'editor/use-editor.ts',
    why: 'Names of fonts.',
    literals: ["ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"],
  },
];

/** The text of a literal, with `{}` in place of what is filled in; undefined for another node. */
function literal(node: ts.Node): string | undefined {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (!ts.isTemplateExpression(node)) return undefined;
  return [node.head.text, ...node.templateSpans.map(({ literal: { text } }) => text)].join('{}');
}

type Place = 'code' | 'jsx' | 'attribute' | 'table' | 'unread';

/** Texts of a file that stand outside of the folder of texts, with their lines. */
function loose(file: string, source: string, used = new Set<string>()): readonly string[] {
  const kind = file.endsWith('.tsx') ? ts.ScriptKind.TSX : ts.ScriptKind.TS;
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true, kind);
  const known = textNames(tree);
  const own = exceptions.filter((one) => one.file === file);
  const found: string[] = [];
  const say = (node: ts.Node, text: string): void => {
    const exception = own.find(({ literals }) => literals === undefined || literals.includes(text));
    if (exception !== undefined) return void used.add(exception.literals ? `${file}: ${text}` : file);
    const { line } = tree.getLineAndCharacterOfPosition(node.getStart());
    found.push(`${file}:${line + 1}: ${text.trim().replaceAll(/\s+/g, ' ')}`);
  };
  const visit = (node: ts.Node, place: Place): void => {
    const text = literal(node);
    if (ts.isJsxText(node)) {
      if (word.test(node.text.replaceAll(/&\w+;/g, ''))) say(node, node.text);
    } else if (text !== undefined && place !== 'unread') {
      if (isText(text, place) || (text !== '' && isElseOfNothing(node) && word.test(text))) say(node, text);
    } else if (isLowered(node)) say(node, node.getText());
    if (isJoined(node, known)) say(node, literal(node) ?? node.getText());
    ts.forEachChild(node, (child) => visit(child, placeOf(child, place)));
  };
  visit(tree, 'code');
  return found;
}

function isText(text: string, place: Exclude<Place, 'unread'>): boolean {
  if (looks.test(text)) return false;
  if (place === 'attribute') return words.test(text);
  return place === 'code' ? phrases.some((one) => one.test(text)) : word.test(text);
}

/** One branch is a word, the other one empty: both are shown, or put beside what is shown. */
function isElseOfNothing({ parent }: ts.Node): boolean {
  return (
    ts.isConditionalExpression(parent) &&
    [parent.whenTrue, parent.whenFalse].some((branch) => literal(branch) === '')
  );
}

/** `texts.name.toLowerCase()`: only some languages have words that may be written so. */
function isLowered(node: ts.Node): boolean {
  return (
    ts.isCallExpression(node) &&
    /^(?:texts|words|common)\.[^()]*\.toLowerCase$/.test(node.expression.getText())
  );
}

/** The names under which a file has texts: those that it imports, and what it takes out of these. */
function textNames(tree: ts.SourceFile): ReadonlySet<string> {
  const names = new Set<string>();
  for (const statement of tree.statements) {
    if (ts.isImportDeclaration(statement) && /^.@\/texts\//.test(statement.moduleSpecifier.getText())) {
      const bindings = statement.importClause?.namedBindings;
      if (bindings !== undefined && ts.isNamedImports(bindings))
        for (const { name } of bindings.elements) names.add(name.text);
    }
  }
  const visit = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && node.initializer && isOfTexts(node.initializer, names)) {
      if (ts.isIdentifier(node.name)) names.add(node.name.text);
      else for (const one of node.name.elements) if (ts.isBindingElement(one)) names.add(one.name.getText());
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return names;
}

/** `texts.column.name`, and no call. */
function isOfTexts(node: ts.Node, names: ReadonlySet<string>): boolean {
  if (ts.isPropertyAccessExpression(node) || ts.isElementAccessExpression(node))
    return ts.isIdentifier(node.expression)
      ? names.has(node.expression.text)
      : isOfTexts(node.expression, names);
  return ts.isIdentifier(node) && names.has(node.text) && ts.isVariableDeclaration(node.parent);
}

/** A text that is put beside others: each language has its own order, so a function among the texts does that. */
function isJoined(node: ts.Node, names: ReadonlySet<string>): boolean {
  if (ts.isTemplateExpression(node))
    return node.templateSpans.some(({ expression }) => isOfTexts(expression, names));
  if (!ts.isJsxExpression(node) || node.expression === undefined || !ts.isJsxElement(node.parent))
    return false;
  const { children } = node.parent;
  const next = children[children.indexOf(node) + 1];
  return (
    isOfTexts(node.expression, names) &&
    next !== undefined &&
    ts.isJsxText(next) &&
    /^ ?[:,(]/.test(next.text)
  );
}

function placeOf(node: ts.Node, outer: Place): Place {
  if (outer === 'unread' || ts.isImportDeclaration(node) || ts.isTypeNode(node)) return 'unread';
  // The faults of the program itself: no user reads them.
  if (ts.isThrowStatement(node) && /^throw new Error\(/.test(node.getText())) return 'unread';
  if (ts.isPropertyName(node) && ts.isPropertyAssignment(node.parent) && node.parent.name === node)
    return 'unread';
  if (ts.isCaseClause(node.parent) && node.parent.expression === node) return 'unread';
  if (ts.isElementAccessExpression(node.parent) && node.parent.argumentExpression === node) return 'unread';
  if (ts.isJsxAttribute(node)) {
    const name = node.name.getText();
    return unread.test(name) ? 'unread' : read.test(name) ? 'attribute' : 'code';
  }
  if (ts.isPropertyAssignment(node)) return read.test(node.name.getText()) ? 'attribute' : outer;
  // A table of any texts, and not of names that the program knows.
  if (ts.isVariableDeclaration(node) && /Record<string, string>/.test(node.type?.getText() ?? ''))
    return 'table';
  if (ts.isObjectLiteralExpression(node) && outer === 'attribute') return 'code';
  if (ts.isJsxExpression(node)) return ts.isJsxAttribute(node.parent) ? outer : 'jsx';
  if (ts.isCallExpression(node) && node.expression.getText() === 'classes') return 'unread';
  if (ts.isCallExpression(node) || ts.isElementAccessExpression(node) || ts.isFunctionLike(node))
    return 'code';
  if (ts.isJsxElement(node) || ts.isJsxSelfClosingElement(node)) return 'code';
  if (ts.isBinaryExpression(node) && /^[!=]==$/.test(node.operatorToken.getText())) return 'unread';
  return outer;
}

test('every text of the console stands in its folder of texts', () => {
  const files = readdirSync(sources, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => /\.tsx?$/.test(file) && !file.endsWith('.d.ts') && !file.startsWith('texts/'));
  assert.ok(files.length > 100);
  const used = new Set<string>();
  const found = files.flatMap((file) => loose(file, readFileSync(new URL(file, sources), 'utf8'), used));
  assert.deepEqual(found, []);
  const listed = exceptions.flatMap(
    ({ file, literals }) => literals?.map((text) => `${file}: ${text}`) ?? file,
  );
  assert.deepEqual([...used].sort(), listed.sort(), 'each exception is still needed');
});

test('texts in an element, in its attributes, in branches and in messages are found; names and values are not', () => {
  const given = `
    const a = <p title="A name">Hello</p>;
    const b = <p aria-label={open ? 'Close this' : \`Open \${name} now\`}>{ready ? 'All is done' : null}</p>;
    say('It could not be saved.');
    const c = <p className="flex grow" role="status" text="/mcp" name="api_key">{kind === 'Two Words' && size} · ms%</p>;
    throw new Error('It is used outside of its provider.');`;
  assert.deepEqual(textsOf(given), [
    ...['A name', 'Hello', 'Close this', 'Open {} now', 'All is done', 'It could not be saved.', '· ms%'],
  ]);
});

test('words in small letters are found where they are shown: in phrases, tables, branches and beside what is filled in', () => {
  const given = `
    import { two } from '@/two words';
    const names: Readonly<Record<string, string>> = { string: 'text', 'a key': 'a list: [ … ]' };
    const tones: Readonly<Record<string, Tone>> = { active: 'good' };
    const place = { words: 'keys budget', message: 'hello', path: '/keys', group: 'access' };
    const shown = [\`every \${days} days\`, \`\${n}× retry\`, cached ? 'cache' : '', items.join(' and ')];
    const keys = { queryKey: ['keys', 'list'], id: \`\${id}-help\`, header: \`\${prefix}-config: \${slug}\`, status: 'SEMANTIC HIT' };
    const look = classes('flex grow', 'bg-panel text-ink border-line', open ? 'grid gap-1' : '');
    const low = <p>{open ? 'more' : texts.name.toLowerCase()}</p>;
    const url = { placeholder: 'https://tools.example.com/mcp', description: { type: 'string' } };
    throw new Refusal('no such name');`;
  assert.deepEqual(textsOf(given), [
    ...[
      'text',
      'a list: [ … ]',
      'keys budget',
      'hello',
      'every {} days',
      '{}× retry',
      'cache',
      'and',
      'more',
    ],
    ...['texts.name.toLowerCase()', 'no such name'],
  ]);
});

test('texts that are put beside others are found; functions of them, and a text alone, are not', () => {
  const given = `
    import { log } from '@/texts/log';
    const texts = log.raw;
    const { sent } = texts;
    const one = [\`\${texts.answer}: \${status}\`, \`\${sent[kind]} \${url}\`, \`\${texts.request(url)} \${status}\`];
    const two = <p title={texts.body}>{texts.failed}: {reason}</p>;
    const three = <p>{texts.body} <b>{texts.failed}</b></p>;`;
  assert.deepEqual(textsOf(given), ['{}: {}', '{} {}', '{texts.failed}']);
});

test('another language has the same names, words of its own, and counts as it does', () => {
  const german: Texts<Pick<typeof checks, 'notEmpty' | 'leastItems' | 'types'>> = {
    notEmpty: 'Es darf nicht leer sein.',
    leastItems: (least) => (least === 1 ? 'Mindestens ein Eintrag.' : `Mindestens ${least} Einträge.`),
    types: { string: 'ein Text in Anführungszeichen' },
  };
  assert.equal(german.leastItems(1), 'Mindestens ein Eintrag.');
  // These hold for the compiler: what lacks a name, or has a function for a text, is none.
  const isWhole: typeof ranges extends Texts<typeof ranges> ? true : false = true;
  const lacksOne: Omit<typeof ranges, 'label'> extends Texts<typeof ranges> ? true : false = false;
  const isOther: { label: () => string } extends Texts<Pick<typeof ranges, 'label'>> ? true : false = false;
  assert.deepEqual([isWhole, lacksOne, isOther], [true, false, false]);
});

test('numbers are written in the language of the texts, moments as ISO 8601 has them', () => {
  assert.deepEqual([0, 0.00042, 0.0425, 12.5, -1234.5, 12_340].map(money), [
    '$0',
    '$0.00042',
    '$0.043',
    '$12.50',
    '-$1,234.50',
    '$12.3K',
  ]);
  assert.deepEqual([0, 0.0721, 8.84, 512.4, 1234, 90_000].map(duration), [
    ...['0 ms', '0.072 ms', '8.8 ms', '512 ms', '1.23 s', '1.5 min'],
  ]);
  assert.deepEqual([512, 2048, 5_242_880].map(bytes), ['512 B', '2.0 KiB', '5.0 MiB']);
  assert.deepEqual(
    [...[999, 12_345, 250_000].map(count), percent(0.1234)],
    ['999', '12,345', '250K', '12.3%'],
  );
  assert.equal(moment('2026-03-04T05:06:07.089Z', 'utc', true), '2026-03-04 05:06:07.089');
});

function textsOf(source: string): readonly string[] {
  return loose('page.tsx', source).map((one) => one.replace(/^page\.tsx:\d+: /, ''));
}
