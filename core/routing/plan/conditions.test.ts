import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { compileCondition } from './conditions.ts';
import { describeFieldPath } from './field-path.ts';

type Fields = Readonly<Record<string, unknown>>;

function holds(query: unknown, fields: Fields): boolean {
  const compiled = compileCondition(query);
  assert.ok(compiled.ok, JSON.stringify(compiled));
  return compiled.test((path) => fields[describeFieldPath(path)]);
}

function issuesOf(query: unknown): string[] {
  const compiled = compileCondition(query);
  assert.ok(!compiled.ok, 'must be refused');
  return compiled.issues.map(({ path, message }) => `${path}: ${message}`);
}

const big = 2n ** 60n;
/** Stands for a field that the request does not have. */
const absent = undefined;

describe('an operator', () => {
  const cases: readonly [operators: unknown, value: unknown, holds: boolean][] = [
    ['ada', 'ada', true],
    ['ada', 'Ada', false],
    ['ada', absent, false],
    [3, '3', true],
    ['3', 3, true],
    [3, '3.0', false],
    [3, 3, true],
    [true, 'true', true],
    ['false', false, true],
    [true, 1, false],
    [big, big, true],
    [String(big), big, true],
    [2 ** 60, big, true],
    [big + 1n, 2 ** 60, false],
    [null, null, true],
    [null, absent, false],
    [null, 'null', false],
    ['null', null, false],
    [['a', 1], ['a', 1], true],
    [['a', 1], ['a', '1'], false],
    [['a'], 'a', false],
    [['a'], ['a', 'b'], false],
    [[big], [2 ** 60], true],
    [{ $eq: 'a' }, 'a', true],
    [{ $eq: { b: [1, { c: null }] } }, { b: [1, { c: null }] }, true],
    [{ $eq: { b: 1 } }, { b: 1, c: 2 }, false],
    [{ $eq: { b: 1, c: 2 } }, { b: 1 }, false],
    [{ $eq: { toString: 1 } }, { other: 1 }, false],
    [{ $eq: [] }, {}, false],
    [{ $eq: {} }, [], false],
    [{ $eq: {} }, {}, true],
    [{ $ne: 'a' }, 'a', false],
    [{ $ne: 'a' }, 'b', true],
    [{ $ne: 3 }, '3', false],
    [{ $ne: 'a' }, absent, true],
    [{ $ne: null }, absent, true],
    [{ $ne: null }, null, false],
    [{ $gt: 10 }, 11, true],
    [{ $gt: 10 }, 10, false],
    [{ $gt: 9 }, '10', true],
    [{ $gt: '9' }, '10', true],
    [{ $gt: 9 }, ' 10 ', true],
    [{ $gt: 9 }, '10px', false],
    [{ $gt: 9 }, 'ten', false],
    [{ $gt: 9 }, '', false],
    [{ $gt: -1 }, '', false],
    [{ $gt: -1 }, null, false],
    [{ $gt: -1 }, true, false],
    [{ $gt: -1 }, [5], false],
    [{ $gt: -1 }, absent, false],
    [{ $gt: 0 }, '0x10', false],
    [{ $gt: 0 }, 'Infinity', false],
    [{ $gt: 100 }, '1e3', true],
    [{ $gt: 0.4 }, '.5', true],
    [{ $gt: big }, big + 1n, true],
    [{ $gt: big }, String(big + 1n), true],
    [{ $gt: String(big) }, `+${big}`, false],
    [{ $gt: 1 }, '9'.repeat(401), false],
    [{ $gte: 10 }, '10', true],
    [{ $gte: 10 }, 9.99, false],
    [{ $gte: big }, String(big), true],
    [{ $lt: 10 }, 9, true],
    [{ $lt: 10 }, '10', false],
    [{ $lt: 10 }, absent, false],
    [{ $lt: 10 }, 'a', false],
    [{ $lte: 10 }, '10', true],
    [{ $lte: 10 }, 10.1, false],
    [{ $gt: 1, $lt: 5 }, 3, true],
    [{ $gt: 1, $lt: 5 }, 7, false],
    [{ $gt: 1, $lt: 5 }, 1, false],
    [{ $in: ['a', 'b'] }, 'b', true],
    [{ $in: ['a', 'b'] }, 'c', false],
    [{ $in: ['a'] }, absent, false],
    [{ $in: [3, 4] }, '4', true],
    [{ $in: ['a', null] }, null, true],
    [{ $in: ['a'] }, null, false],
    [{ $in: [['a'], { b: 1 }] }, { b: 1 }, true],
    [{ $in: [['a'], { b: 1 }] }, ['b'], false],
    [{ $nin: ['a', 'b'] }, 'c', true],
    [{ $nin: ['a', 'b'] }, 'a', false],
    [{ $nin: [3] }, '3', false],
    [{ $nin: ['a'] }, absent, true],
    [{ $regex: '^gpt-4' }, 'gpt-4o', true],
    [{ $regex: '4' }, 'gpt-4o', true],
    [{ $regex: '^gpt-4' }, 'my-gpt-4', false],
    [{ $regex: '^4' }, 42, true],
    [{ $regex: '' }, '', true],
    [{ $regex: '' }, absent, false],
    [{ $regex: '' }, ['a'], false],
    // The expression is one of several that must hold.
    [{ $regex: '^gpt', $ne: 'gpt-4' }, 'gpt-4', false],
    [{ $regex: '^gpt', $ne: 'gpt-4' }, 'gpt-4o', true],
    [{ $ne: 'gpt-4', $regex: '^gpt' }, 'claude', false],
    [{ $regex: '^a', $in: ['ab', 'b'] }, 'b', false],
  ];
  for (const [operators, value, expected] of cases)
    it(`${show(operators)} ${expected ? 'holds' : 'fails'} for ${value === absent ? 'nothing' : show(value)}`, () => {
      const fields = value === absent ? {} : { 'params.x': value };
      assert.equal(holds({ 'params.x': operators }, fields), expected);
    });
});

describe('a query', () => {
  const fields: Fields = { 'metadata.user': 'ada', 'metadata.plan': 'gold', 'params.n': 5 };
  const yes = { 'metadata.user': 'ada' };
  const no = { 'metadata.user': 'bob' };
  const cases: readonly [query: unknown, holds: boolean][] = [
    [{ ...yes, 'metadata.plan': 'gold' }, true],
    [{ ...yes, 'metadata.plan': 'free' }, false],
    [{ $and: [yes, { 'params.n': 5 }] }, true],
    [{ $and: [yes, no] }, false],
    [{ $or: [no, yes] }, true],
    [{ $or: [no, no] }, false],
    [{ $or: [yes], 'metadata.plan': 'free' }, false],
    [{ 'metadata.plan': 'free', $or: [yes] }, false],
    [{ $and: [yes], 'metadata.plan': 'free' }, false],
    [{ $and: [yes], $or: [no] }, false],
    [{ $and: [yes], $or: [no, yes], 'metadata.plan': 'gold' }, true],
    [{ $or: [no, { $and: [yes, { $or: [{ 'params.n': { $gt: 4 } }] }] }] }, true],
    [{ $or: [{ ...yes, 'metadata.plan': 'free' }, no] }, false],
  ];
  for (const [query, expected] of cases)
    it(`${show(query)} ${expected ? 'holds' : 'fails'}`, () => {
      assert.equal(holds(query, fields), expected);
    });

  it('tells which fields it reads, each once', () => {
    const compiled = compileCondition({
      $or: [{ 'metadata.user': 'a' }, { 'metadata["user"]': 'b', 'params.tools[0].type': 'x' }],
      'url.pathname': { $regex: '^/v1' },
      trace_id: { $ne: 'a' },
      'api_key.id': 'k',
    });
    assert.ok(compiled.ok);
    assert.deepEqual(compiled.reads.map(describeFieldPath), [
      'metadata.user',
      'params.tools[0].type',
      'url.pathname',
      'trace_id',
      'api_key.id',
    ]);
  });
});

describe('a query that is refused', () => {
  const cases: readonly [query: unknown, issues: RegExp[]][] = [
    [{}, [/^: is empty and says nothing; .*default/]],
    [[], [/^: must be an object .* not an empty list/]],
    ['metadata.user', [/^: must be an object/]],
    [null, [/^: must be an object/]],
    [{ $eq: 'a' }, [/^\$eq: compares no field; write \{ "metadata.user": \{ "\$eq"/]],
    [{ $nor: [] }, [/^\$nor: is no operator here, did you mean "\$or"/]],
    [{ user: 'a' }, [/^user: is no field; fields are metadata\.NAME/]],
    [{ 'metdata.user': 'a' }, [/^metdata\.user: is no field, did you mean "metadata"/]],
    [{ 'metadata.a.b': 'a' }, [/^metadata\.a\.b: .*quote .* metadata\["a\.b"\]/]],
    [{ 'params.messages[*].role': 'a' }, [/^params\.messages\[\*\]\.role: is no field/]],
    [{ 'url.host': 'a' }, [/^url\.host: is no field/]],
    [{ 'metadata.user': {} }, [/^metadata\.user: has no operator/]],
    [{ 'metadata.user': { $gte: 'ten' } }, [/^metadata\.user\.\$gte: must be a number, not "ten"/]],
    [{ 'metadata.user': { $gt: true } }, [/\$gt: must be a number, not true/]],
    [{ 'metadata.user': { $lt: null } }, [/\$lt: must be a number, not nothing/]],
    [{ 'metadata.user': { $lte: [1] } }, [/\$lte: must be a number, not a list/]],
    [{ 'metadata.user': { $in: 'a' } }, [/\$in: must be a list of values, not "a"; put it in brackets/]],
    [{ 'metadata.user': { $nin: { a: 1 } } }, [/\$nin: must be a list/]],
    [{ 'metadata.user': { $in: [] } }, [/\$in: is an empty list/]],
    [{ 'metadata.user': { $in: Array(10_001).fill('a') } }, [/more than 10000 values/]],
    [{ 'metadata.user': { $regex: '(' } }, [/\$regex: is no valid regular expression/]],
    [{ 'metadata.user': { $regex: '(?!a)' } }, [/\$regex: looks ahead or behind/]],
    [
      { 'metadata.user': { $regexp: 'a' } },
      [/\$regexp: is no operator, did you mean "\$regex"\?; known are \$eq, /],
    ],
    [{ 'metadata.user': { $or: ['a'] } }, [/\$or: stands beside fields, not within one/]],
    [
      { 'params.a': { b: 1 } },
      [/^params\.a\.b: is no operator; to reach into an object name the whole path/],
    ],
    [{ $or: { a: 1 } }, [/^\$or: must be a list of at least one query, not an object/]],
    [{ $and: [] }, [/^\$and: must be a list of at least one query, not an empty list/]],
    [{ $or: ['a', {}] }, [/^\$or\[0\]: must be an object/, /^\$or\[1\]: is empty/]],
    [
      { $or: [{ trace_id: 'a' }, { 'metadata.user': { $in: 'a' } }], 'params.n': { $gt: 'x', $foo: 1 } },
      [/^\$or\[1\]\.metadata\.user\.\$in: /, /^params\.n\.\$gt: /, /^params\.n\.\$foo: /],
    ],
    [{ 'params.a': nestedList(40) }, [/^params\.a: goes more than 32 levels deep/]],
    [{ 'params.a': { $in: [nestedList(40)] } }, [/\$in: goes more than 32 levels deep/]],
    [JSON.parse('{"__proto__":{"$eq":1}}'), [/^__proto__: is no field/]],
    [JSON.parse('{"metadata.a":{"__proto__":1}}'), [/__proto__: is no operator/]],
  ];
  for (const [query, issues] of cases)
    it(show(query), () => {
      const found = issuesOf(query);
      assert.equal(found.length, issues.length, found.join('\n'));
      for (const [index, issue] of issues.entries()) assert.match(found[index] ?? '', issue);
    });

  const nested = (levels: number): unknown =>
    levels === 0 ? { trace_id: 'a' } : { $and: [nested(levels - 1)] };

  it('has more than 16 levels', () => {
    assert.equal(holds(nested(16), { trace_id: 'a' }), true);
    const found = issuesOf(nested(17));
    assert.equal(found.length, 1);
    assert.match(found[0] ?? '', /^(\$and\[0\]\.){16}\$and: stands more than 16 levels deep/);
  });

  it('has more than 256 comparisons, and is read no further', () => {
    const list = (length: number, item: unknown) => ({ $or: Array(length).fill(item) });
    assert.equal(holds(list(256, { trace_id: 'a' }), { trace_id: 'a' }), true);
    for (const item of [{ trace_id: 'a' }, { trace_id: { $eq: 'a', $ne: 'b' } }]) {
      const found = issuesOf(list(100_000, item));
      assert.equal(found.length, 1);
      assert.match(found[0] ?? '', /comparison 257, and a query has at most 256; use "\$in"/);
    }
    for (const item of [{}, 'a', { bad: 1 }, { trace_id: { $gt: 'x' } }])
      assert.equal(issuesOf(list(100_000, item)).length, 257);
  });
});

describe('any query at all', () => {
  const value = fc.jsonValue({ maxDepth: 3 });

  it('is compiled or refused, and a compiled one never throws', () => {
    const key = fc.oneof(
      fc.constantFrom(
        '$and',
        '$or',
        '$eq',
        '$gt',
        '$in',
        '$regex',
        'metadata.a',
        'params.b[0].c',
        'trace_id',
      ),
      fc.string(),
    );
    const query = fc.letrec((tie) => ({
      node: fc.oneof(
        { depthSize: 'medium' },
        value,
        fc.array(tie('node'), { maxLength: 3 }),
        fc.dictionary(key, tie('node'), { maxKeys: 4 }),
      ),
    })).node;
    fc.assert(
      fc.property(query, value, (written, found) => {
        const compiled = compileCondition(written);
        if (compiled.ok) assert.equal(typeof compiled.test(() => found), 'boolean');
        else assert.ok(compiled.issues.length > 0);
      }),
      { numRuns: 1000 },
    );
  });

  it('obeys boolean algebra', () => {
    const comparison = fc.oneof(
      fc.nat(3),
      fc.record({ $ne: fc.nat(3) }),
      fc.record({ $gt: fc.nat(3), $lte: fc.nat(3) }),
      fc.record({ $in: fc.array(fc.nat(3), { minLength: 1, maxLength: 3 }), $ne: fc.nat(3) }),
    );
    const query = fc.letrec<{ node: Fields }>((tie) => {
      const list = fc.array(tie('node'), { minLength: 1, maxLength: 3 });
      const flat = fc
        .record(
          { 'metadata.a': comparison, 'metadata.b': comparison, 'params.n': comparison },
          { requiredKeys: [] },
        )
        .filter((members) => Object.keys(members).length > 0);
      const mixed = fc
        .tuple(fc.option(flat), fc.option(list), fc.option(list))
        .map(([members, and, or]): Fields => ({
          ...(and === null ? {} : { $and: and }),
          ...(members ?? {}),
          ...(or === null ? {} : { $or: or }),
        }))
        .filter((members) => Object.keys(members).length > 0);
      return { node: fc.oneof({ maxDepth: 2 }, flat, mixed) };
    }).node;
    const fields = fc.record(
      { 'metadata.a': fc.nat(3), 'metadata.b': fc.nat(3), 'params.n': fc.nat(3) },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(query, fields, (written, found) => {
        assert.equal(holds(written, found), naive(written, found));
      }),
      { numRuns: 1000 },
    );
  });
});

/** What a query means, said a second time and as plainly as possible; for numbers alone. */
function naive(query: Fields, fields: Fields): boolean {
  return Object.entries(query).every(([name, value]) => {
    if (name === '$and') return (value as Fields[]).every((part) => naive(part, fields));
    if (name === '$or') return (value as Fields[]).some((part) => naive(part, fields));
    const found = fields[name] as number | undefined;
    if (typeof value === 'number') return found === value;
    return Object.entries(value as Fields).every(([operator, operand]) => {
      if (operator === '$ne') return found !== operand;
      if (operator === '$in') return (operand as unknown[]).includes(found);
      if (found === undefined) return false;
      return operator === '$gt' ? found > (operand as number) : found <= (operand as number);
    });
  });
}

function nestedList(levels: number): unknown {
  return levels === 0 ? 'a' : [nestedList(levels - 1)];
}

function show(value: unknown): string {
  const text = JSON.stringify(value, (_, item: unknown) => (typeof item === 'bigint' ? `${item}n` : item));
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
