import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import ts from 'typescript';

const sources = new URL('app/src/', import.meta.url);
/** What users read in these attributes, or hear. */
const read = /^(aria-label|aria-description|title|alt|placeholder|label|text|hint|help|description|intro)$/;
/** Words of a language, and not a name of the API, an address or JSON. */
const words = /(?:^|\s)\p{L}{2,}(?=[\s.,:?!]|$)|\p{Lu}\p{Ll}/u;
/** Several words, or one with a capital: others are values of the program. */
const phrase = /\p{L}{2,} \p{L}{2,}|^\p{Lu}\p{Ll}+[.…:]?$/u;
const sentence = /^\p{Lu}[^]*\s[^]*[.?!…]$/u;
/** Code, messages and tools that users are given as an example, which are no texts of the console. */
const examples = ['lib/snippets.ts', 'pages/playground/tools.ts', 'pages/providers/test.tsx'];

/** The text of a literal, with `{}` in place of what is filled in; undefined for another node. */
function literal(node: ts.Node): string | undefined {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (!ts.isTemplateExpression(node)) return undefined;
  return [node.head.text, ...node.templateSpans.map(({ literal: { text } }) => text)].join('{}');
}

/** Texts of a file that stand outside of the folder of texts, with their lines. */
function loose(file: string, source: string): readonly string[] {
  const kind = file.endsWith('.tsx') ? ts.ScriptKind.TSX : ts.ScriptKind.TS;
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true, kind);
  const found: string[] = [];
  const say = (node: ts.Node, text: string): void => {
    const { line } = tree.getLineAndCharacterOfPosition(node.getStart());
    found.push(`${file}:${line + 1}: ${text.trim().replaceAll(/\s+/g, ' ')}`);
  };
  const visit = (node: ts.Node, place: 'code' | 'jsx' | 'attribute' | 'thrown'): void => {
    const text = literal(node);
    if (ts.isJsxText(node)) {
      if (/\p{L}{2,}/u.test(node.text.replaceAll(/&\w+;/g, ''))) say(node, node.text);
    } else if (text !== undefined && place !== 'thrown') {
      const isText = { code: sentence, jsx: phrase, attribute: words }[place].test(text);
      if (isText && !examples.includes(file)) say(node, text);
    }
    ts.forEachChild(node, (child) => visit(child, placeOf(child, place)));
  };
  visit(tree, 'code');
  return found;
}

function placeOf(node: ts.Node, outer: 'code' | 'jsx' | 'attribute' | 'thrown') {
  // The faults of the program itself: no user reads them.
  if (ts.isThrowStatement(node)) return 'thrown';
  if (ts.isJsxAttribute(node)) return read.test(node.name.getText()) ? 'attribute' : 'code';
  if (ts.isJsxExpression(node)) return ts.isJsxAttribute(node.parent) ? outer : 'jsx';
  if (ts.isCallExpression(node) || ts.isElementAccessExpression(node) || ts.isFunctionLike(node))
    return outer === 'thrown' ? outer : 'code';
  if (ts.isBinaryExpression(node) && /^[!=]==$/.test(node.operatorToken.getText())) return 'code';
  return outer;
}

test('every text of the console stands in its folder of texts', () => {
  const files = readdirSync(sources, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => /\.tsx?$/.test(file) && !file.endsWith('.d.ts') && !file.startsWith('texts/'));
  assert.ok(files.length > 100);
  const found = files.flatMap((file) => loose(file, readFileSync(new URL(file, sources), 'utf8')));
  assert.deepEqual(found, []);
});

test('texts in an element, in its attributes, in branches and in messages are found; names and values are not', () => {
  const given = `
    const a = <p title="A name">Hello</p>;
    const b = <p aria-label={open ? 'Close this' : \`Open \${name} now\`}>{ready ? 'All is done' : null}</p>;
    say('It could not be saved.');
    const c = <p className="flex grow" role="status" text="/mcp" name="api_key">{kind === 'Two Words' && size} · ms%</p>;
    throw new Error('It is used outside of its provider.');`;
  assert.deepEqual(
    loose('page.tsx', given).map((one) => one.replace(/^page\.tsx:\d+: /, '')),
    ['A name', 'Hello', 'Close this', 'Open {} now', 'All is done', 'It could not be saved.', '· ms%'],
  );
});
