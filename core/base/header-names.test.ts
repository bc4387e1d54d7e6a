import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { HeaderNames } from './header-names.ts';

const prefixes = ['x-service-', 'x-old-'];
/** Among them such as are equally long, and spellings of one name. */
const spellings = [
  'Host',
  'host',
  'Date',
  'x-service-a',
  'x-service-b',
  'X-Old-Service',
  'te',
  'TE',
  'baggage',
];

describe('the names of a list', () => {
  const list = fc.array(fc.constantFrom(...spellings), { maxLength: 4 });

  test('are those of its headers, whichever lists came before', () => {
    fc.assert(
      fc.property(fc.array(list, { maxLength: 30 }), (lists) => {
        const names = new HeaderNames(prefixes);
        for (const [i, one] of lists.entries()) {
          const headers = one.flatMap((name) => [name, `value ${i}`]);
          const expected = one.map((name) => new HeaderNames(prefixes).of(name));
          assert.deepEqual(names.ofList(headers), expected);
        }
      }),
    );
  });

  test('are those of the one before when all of them are, and no others', () => {
    const names = new HeaderNames(prefixes);
    const before = names.ofList(['host', 'a', 'x-service-a', '1']);
    assert.equal(names.ofList(['host', 'b', 'x-service-a', '2']), before);
    const services = (...headers: string[]) => names.ofList(headers).map(({ service }) => service);
    assert.deepEqual(services('host', 'b', 'x-service-b', '2'), [undefined, 'b']);
    assert.deepEqual(services('host', 'b', 'x-service-a', '2', 'date', 'now'), [undefined, 'a', undefined]);
    assert.deepEqual(services('host', 'b'), [undefined]);
    assert.deepEqual(services(), []);
  });

  test('of a list with very many are not kept', () => {
    const names = new HeaderNames(prefixes);
    const headers = Array.from({ length: 100 }, (_, i) => [`x-${i}`, '']).flat();
    assert.notEqual(names.ofList(headers), names.ofList(headers));
    assert.deepEqual(names.ofList(headers), names.ofList(headers));
  });
});
