import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { LogLevel } from '../../core/ports/log.ts';
import { createLog } from './line-log.ts';

function recorded(format: 'text' | 'json', level: LogLevel = 'debug') {
  const lines: string[] = [];
  const clock = {
    now: () => Date.UTC(2026, 0, 2, 3, 4, 5, 6),
    monotonic: () => 0,
    after: () => () => undefined,
  };
  return { lines, log: createLog({ level, format, clock, write: (line) => void lines.push(line) }) };
}

describe('text lines', () => {
  const cases: [string, string, Record<string, unknown>, string][] = [
    ['a message alone', 'ready', {}, 'ready'],
    [
      'bare and quoted values',
      'm',
      { port: 8787, host: '::', note: 'a b', empty: '' },
      'm port=8787 host=:: note="a b" empty=""',
    ],
    ['quotes and equal signs', 'm', { a: 'x="y"' }, 'm a="x=\\"y\\""'],
    [
      'line breaks and escapes',
      'a\nb\u001b[31m',
      { c: 'd\r\ne\u2028' },
      'a\\nb\\u001b[31m c="d\\r\\ne\\u2028"',
    ],
    ['a strange key', 'm', { 'a b\n': 1 }, 'm "a b\\n"=1'],
    [
      'objects',
      'm',
      { list: [1, 'b'], big: { n: 1n }, nothing: null, absent: undefined },
      'm list="[1,\\"b\\"]" big="{\\"n\\":\\"1\\"}" nothing=null',
    ],
  ];
  for (const [name, message, fields, expected] of cases) {
    it(`can be read: ${name}`, () => {
      const { log, lines } = recorded('text');
      log.info(message, fields);
      assert.deepEqual(lines, [`2026-01-02T03:04:05.006Z info  ${expected}\n`]);
    });
  }

  it('shows an error with its name, message, cause and place', () => {
    const { log, lines } = recorded('text');
    log.error('failed', { error: new TypeError('no\nway', { cause: new Error('deep') }) });
    assert.match(
      lines[0] as string,
      /error failed error="TypeError: no\\nway \(cause: Error: deep\) at .*line-log\.test\.ts:\d+:\d+\)?"\n$/,
    );
  });
});

describe('json lines', () => {
  it("keep types, and fields never replace the line's own members", () => {
    const { log, lines } = recorded('json');
    log.warn('m', {
      level: 'x',
      n: 1,
      yes: true,
      not: Number.NaN,
      none: null,
      list: [1],
      error: new Error('e'),
    });
    const record = JSON.parse(lines[0] as string) as Record<string, unknown>;
    assert.match(String(record.error), /^Error: e at /);
    delete record.error;
    assert.deepEqual(record, {
      time: '2026-01-02T03:04:05.006Z',
      level: 'warn',
      message: 'm',
      level_: 'x',
      n: 1,
      yes: true,
      not: 'NaN',
      none: null,
      list: '[1]',
    });
  });
});

describe('every format', () => {
  it('leaves out what is below the level', () => {
    const { log, lines } = recorded('text', 'warn');
    log.debug('a');
    log.info('b');
    log.warn('c');
    log.error('d');
    assert.deepEqual(
      lines.map((line) => line.split(' ').at(-1)),
      ['c\n', 'd\n'],
    );
  });

  it('adds the fields of a child, the nearest winning', () => {
    const { log, lines } = recorded('text');
    log.child({ plugin: 'auth', a: 1 }).child({ a: 2 }).info('m', { b: 3 });
    assert.ok(lines[0]?.endsWith(' m plugin=auth a=2 b=3\n'));
  });

  it('writes exactly one line for anything, and json that parses', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.dictionary(fc.string({ unit: 'binary' }), fc.anything()),
        (message, fields) => {
          for (const format of ['text', 'json'] as const) {
            const { log, lines } = recorded(format);
            log.info(message, fields);
            assert.equal(lines.length, 1);
            assert.match(lines[0] as string, /^[^\p{Cc}\u2028\u2029]*\n$/u);
            if (format === 'json')
              assert.equal((JSON.parse(lines[0] as string) as { message: string }).message, message);
          }
        },
      ),
    );
  });

  it('is bounded in length', () => {
    const { log, lines } = recorded('text');
    log.info('m'.repeat(100_000), { a: 'x'.repeat(100_000), b: { c: 'y'.repeat(100_000) } });
    assert.ok((lines[0] as string).length < 20_000);
  });

  it('never throws, not for a cyclic value, a hostile one, nor a sink that fails', () => {
    const { log, lines } = recorded('json');
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    log.info('m', { cyclic });
    assert.match(lines[0] as string, /Circular/);
    const hostile = {
      toJSON() {
        throw new Error('no');
      },
      get x(): string {
        throw new Error('no');
      },
    };
    log.info('m', { hostile });
    const write = (): void => {
      throw new Error('EPIPE');
    };
    const clock = { now: () => 0, monotonic: () => 0, after: () => () => undefined };
    createLog({ level: 'info', format: 'text', clock, write }).info('m');
  });
});
