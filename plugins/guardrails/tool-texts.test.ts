// No string of a call's arguments or result escapes a check that redacts, wherever it stands.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { parseJson, writeJson } from '../../core/base/json.ts';
import type { JsonObject, JsonValue } from '../../core/pipeline/plugin.ts';
import type { GuardrailData } from '../../core/ports/record-kinds.ts';
import type { ToolCall, ToolResult } from '../../core/pipeline/tool-calls.ts';
import { TestContext, testScope } from '../../tests/kit/plugin-kit.ts';
import { builtInChecks } from './checks/index.ts';
import { RunningGuardrail } from './running-guardrail.ts';
import { guardrailSpec } from '../../core/ports/guardrails.ts';
import { ArgumentsSubject, JsonTexts, ResultSubject } from './tool-subjects.ts';

const secret = 'ann@example.com';
/** The same as JSON may write it. */
const hidden = secret.replace('@', '\\u0040');

const { scope } = testScope({
  guards: {
    ids: [],
    issues: () => [],
    definition: (id) => builtInChecks.find((check) => check.id === id),
  },
});

function running(id: string, parameters: GuardrailData['checks'][number]['parameters']): RunningGuardrail {
  const own = { id: 'g', version: undefined, type: 'guardrail', sealed: undefined } as const;
  const check = { id, name: id, isEnabled: true, parameters };
  return new RunningGuardrail(guardrailSpec({ ...own, checks: [check] }, {}), scope, (one) => one.parameters);
}

const guardrails = {
  pii: running('default.pii', { categories: ['EMAIL_ADDRESS'], redact: true }),
  regex: running('default.regexReplace', { rule: 'ann@example\\.com', redactText: '[gone]' }),
};
type Name = keyof typeof guardrails;

function judgedCall(given: JsonObject) {
  const call: ToolCall = { server: 'tickets', tool: 'find', arguments: given };
  return { context: new TestContext({ path: '/tickets/mcp' }), call, kept: new Map() };
}

/** The arguments after the guardrail. */
async function ofArguments(given: JsonObject, name: Name): Promise<JsonObject> {
  const judged = judgedCall(given);
  await guardrails[name].judge(new ArgumentsSubject(judged), 'attempt', judged.context.facts);
  return judged.call.arguments;
}

/** The result after the guardrail. */
async function ofResult(result: JsonValue, name: Name): Promise<JsonValue> {
  const judged = judgedCall({});
  const held: ToolResult = { result };
  await guardrails[name].judge(new ResultSubject(judged, held), 'attempted', judged.context.facts);
  return held.result;
}

/** Whether the secret can be read in any string or name, also in JSON within one. */
function isThere(json: unknown): boolean {
  if (typeof json === 'string') {
    const within = /^\s*[[{]/.test(json) ? parseJson(json) : undefined;
    return json.includes(secret) || isThere(within);
  }
  if (typeof json !== 'object' || json === null) return false;
  return Object.entries(json).some(([name, one]) => name.includes(secret) || isThere(one));
}

const text = fc.oneof(
  { weight: 3, arbitrary: fc.string({ maxLength: 12 }) },
  fc
    .tuple(fc.constantFrom('', 'to ', '<'), fc.constantFrom('', ' now', '>'))
    .map(([before, after]) => before + secret + after),
  fc.constantFrom('text', 'image', 'text/plain', 'user', '2025-11-25T09:00:00Z', '{', '[]', '__proto__'),
  fc.constantFrom(`{"to":"${hidden}"}`, ` [{"${hidden}":1}]`, `{"a":"${secret}","a":2}`),
);
const json: fc.Arbitrary<JsonValue> = fc.letrec<{ json: JsonValue }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    text,
    fc.oneof(
      fc.integer(),
      fc.double({ noNaN: true }),
      fc.boolean(),
      fc.constant(null),
    ) as fc.Arbitrary<JsonValue>,
    fc.array(tie('json'), { maxLength: 4 }),
    fc.dictionary(text, tie('json'), { maxKeys: 4 }),
  ),
})).json;
const object = fc.dictionary(text, json, { maxKeys: 5 });
const often = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 3 });

const member = fc.oneof(text, json);
const block = fc
  .record(
    {
      type: fc.oneof(fc.constantFrom('text', 'image', 'audio', 'resource', 'resource_link'), text),
      text: member,
      data: member,
      mimeType: member,
      resource: fc.oneof(json, fc.record({ uri: member, text: member, blob: member, _meta: json })),
      name: member,
      uri: member,
      size: member,
      annotations: fc.oneof(json, fc.record({ audience: fc.array(member), lastModified: member })),
      _meta: json,
      extra: json,
    },
    { requiredKeys: [] },
  )
  .map((one) => one as JsonObject);
const result = fc
  .record(
    {
      content: fc.oneof({ weight: 4, arbitrary: fc.array(fc.oneof(block, json), { maxLength: 4 }) }, json),
      structuredContent: often(json),
      isError: fc.oneof(fc.boolean(), json),
      task: fc.oneof(json, fc.record({ taskId: member, status: member, statusMessage: member, ttl: member })),
      _meta: fc.oneof(
        object,
        fc.record({ 'io.modelcontextprotocol/related-task': fc.record({ taskId: member }) }),
      ),
    },
    { requiredKeys: [] },
  )
  .chain((one) => fc.tuple(fc.constant(one as JsonObject), object, fc.boolean()))
  .map(([one, more, repeats]) => {
    const whole = { ...more, ...one };
    const { content, structuredContent } = whole;
    if (!repeats || structuredContent === undefined || !Array.isArray(content)) return plain(whole);
    return plain({ ...whole, content: [...content, { type: 'text', text: writeJson(structuredContent) }] });
  });

/** As it comes from a wire: without members that are undefined. */
function plain(value: unknown): JsonObject {
  return parseJson(writeJson(value)) as JsonObject;
}

describe('what redaction finds is nowhere any more', () => {
  for (const name of ['pii', 'regex'] as const) {
    test(`in arguments, whatever they are built like (${name})`, async () => {
      await fc.assert(
        fc.asyncProperty(object.map(plain), async (given) => {
          const before = writeJson(given);
          const after = await ofArguments(given, name);
          assert.equal(isThere(after), false, writeJson(after));
          assert.equal(writeJson(given), before, 'what was given is not changed in place');
          if (!isThere(given)) assert.equal(after, given, 'what holds nothing stays the same object');
        }),
        { numRuns: 300 },
      );
    });

    test(`in results, whatever they are built like (${name})`, async () => {
      await fc.assert(
        fc.asyncProperty(result, async (given) => {
          const before = writeJson(given);
          const after = await ofResult(given, name);
          assert.equal(isThere(after), false, writeJson(after));
          assert.equal(writeJson(given), before);
          if (!isThere(given)) assert.equal(after, given);
        }),
        { numRuns: 300 },
      );
    });
  }
});

describe('the texts of a call', () => {
  const listed = (value: JsonValue, shape: 'whole' | 'result' = 'whole') =>
    new JsonTexts(value, { shape, role: 'user' }).texts.map((one) => [
      one.path.join('/'),
      one.type,
      one.text,
    ]);

  test('are every string with its place, and the names and numbers together', () => {
    assert.deepEqual(
      listed({ query: 'rivers', options: { tags: ['long', 'wide'], most: 5 }, raw: '{"a":1}' }),
      [
        ['query', 'text', 'rivers'],
        ['options/tags/0', 'text', 'long'],
        ['options/tags/1', 'text', 'wide'],
        ['raw', 'tool-arguments', '{"a":1}'],
        ['', 'tool-arguments', '["query",\n"options",\n"tags",\n"most",\n"raw",\n5]'],
      ],
    );
    assert.deepEqual(listed({}), []);
  });

  test('of a result are those of its content, of embedded resources and of the structured content', () => {
    const shown = listed(
      {
        content: [
          { type: 'text', text: 'found', annotations: { audience: ['user'], priority: 1 } },
          { type: 'image', data: 'aGVsbG8=', mimeType: 'image/png' },
          { type: 'resource', resource: { uri: 'file:///a', mimeType: 'text/plain', text: 'inside' } },
          { type: 'resource', resource: { uri: 'file:///b', blob: 'aGVsbG8=' } },
        ],
        structuredContent: { river: 'Elbe' },
        isError: false,
        _meta: { 'io.modelcontextprotocol/related-task': { taskId: '786512e2-9e0d-44bd-8f29-789f320fe840' } },
      },
      'result',
    );
    assert.deepEqual(shown, [
      ['content/0/text', 'text', 'found'],
      ['content/2/resource/uri', 'text', 'file:///a'],
      ['content/2/resource/text', 'text', 'inside'],
      ['content/3/resource/uri', 'text', 'file:///b'],
      ['structuredContent/river', 'text', 'Elbe'],
      ['', 'tool-arguments', '["river"]'],
    ]);
  });

  test('nested more deeply than any tool needs are one text, which is changed, too', async () => {
    let deep: JsonValue = secret;
    for (let level = 0; level < 300; level += 1) deep = level % 2 === 0 ? [deep] : { in: deep };
    const after = await ofArguments({ deep }, 'pii');
    assert.equal(writeJson(after).includes(secret), false);
    assert.match(writeJson(after), /\[EMAIL_ADDRESS\]/);
  });

  test('that were names and become the same stay two members', async () => {
    const after = await ofArguments({ [secret]: 1, [`${secret} `]: 2, 'bo@example.com': 3 }, 'pii');
    assert.deepEqual(after, { '[EMAIL_ADDRESS]': 1, '[EMAIL_ADDRESS] ': 2, '[EMAIL_ADDRESS] (2)': 3 });
  });

  test('in a number are changed: it becomes a string', async () => {
    const check = running('default.pii', { categories: ['CREDIT_CARD'], redact: true });
    const judged = judgedCall({ card: 4_111_111_111_111_111, most: 5 });
    await check.judge(new ArgumentsSubject(judged), 'attempt', judged.context.facts);
    assert.deepEqual(judged.call.arguments, { card: '[CREDIT_CARD]', most: 5 });
  });
});

describe('a text of the content that repeats the structured content', () => {
  const structuredContent = { to: secret, count: 2 };
  const repeat = (written: string) => ({
    content: [
      { type: 'text', text: `For ${secret}` },
      { type: 'text', text: written },
    ],
    structuredContent,
  });

  for (const [what, written] of [
    ['in one line', JSON.stringify(structuredContent)],
    ['in several lines', JSON.stringify(structuredContent, null, 2)],
    ['with escapes', JSON.stringify(structuredContent).replace('@', '\\u0040')],
  ] as const)
    test(`is changed like it (${what})`, async () => {
      const after = (await ofResult(repeat(written), 'pii')) as {
        content: { text: string }[];
        structuredContent: JsonValue;
      };
      const changed = { to: '[EMAIL_ADDRESS]', count: 2 };
      assert.deepEqual(after.structuredContent, changed);
      assert.deepEqual(after.content[0], { type: 'text', text: 'For [EMAIL_ADDRESS]' });
      assert.deepEqual(JSON.parse(after.content[1]?.text ?? ''), changed);
    });

  test('and is changed alone by a check changes both', () => {
    const held: ToolResult = { result: repeat(JSON.stringify(structuredContent)) };
    const subject = new ResultSubject(judgedCall({}), held);
    subject.setTexts(({ path, text }) =>
      path.join('/') === 'content/1/text'
        ? text.replace('"count":2', '"count":"few"')
        : text.replace(secret, 'x'),
    );
    const changed = { to: 'x', count: 'few' };
    assert.deepEqual(held.result, {
      content: [
        { type: 'text', text: 'For x' },
        { type: 'text', text: writeJson(changed) },
      ],
      structuredContent: changed,
    });
  });
});
