import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClickHouseError } from '@clickhouse/client';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { analyticsErrors, RowsRejected } from './store-errors.ts';

const store = (code: string, type: string, message = 'SECRET'): ClickHouseError =>
  new ClickHouseError({ code, type, message });
const network = (code: string): Error => Object.assign(new Error('SECRET'), { code });

const inserts: [what: string, error: unknown, expected: 'rejected' | 'store_unavailable'][] = [
  ['a number that does not parse', store('72', 'CANNOT_PARSE_NUMBER'), 'rejected'],
  ['an id that does not parse', store('376', 'CANNOT_PARSE_UUID'), 'rejected'],
  ['an unknown column', store('117', 'INCORRECT_DATA'), 'rejected'],
  ['a batch that is too large', store('229', 'QUERY_IS_TOO_LARGE'), 'rejected'],
  ['memory', store('241', 'MEMORY_LIMIT_EXCEEDED'), 'store_unavailable'],
  ['time', store('159', 'TIMEOUT_EXCEEDED'), 'store_unavailable'],
  ['too many parts', store('252', 'TOO_MANY_PARTS'), 'store_unavailable'],
  ['a missing table', store('60', 'UNKNOWN_TABLE'), 'store_unavailable'],
  ['a full disk', store('243', 'NOT_ENOUGH_SPACE'), 'store_unavailable'],
  ['a wrong password', store('516', 'AUTHENTICATION_FAILED'), 'store_unavailable'],
  ['a refused connection', network('ECONNREFUSED'), 'store_unavailable'],
  ['a reset connection', network('ECONNRESET'), 'store_unavailable'],
  ['no answer in time', new Error('Timeout error.'), 'store_unavailable'],
  ['a proxy’s page', new Error('<html>SECRET</html>'), 'store_unavailable'],
  ['something that is no error', 'SECRET', 'store_unavailable'],
];
for (const [what, error, expected] of inserts) {
  test(`insert: ${what} is ${expected}`, () => {
    const result = analyticsErrors.ofInsert(error, 'requests');
    assert.equal(GatewayError.is(result) ? result.code : 'rejected', expected);
    assert.doesNotMatch(result.message, /SECRET/);
  });
}

test('rejected rows say where, and not what', () => {
  const message = `Cannot parse input: expected ',' before: 'SECRET': (while reading the value of key cost): (at row 17)`;
  const error = analyticsErrors.ofInsert(
    store('27', 'CANNOT_PARSE_INPUT_ASSERTION_FAILED', message),
    'requests',
  );
  assert.ok(error instanceof RowsRejected);
  assert.deepEqual([error.table, error.storeCode, error.row, error.cause], ['requests', '27', 17, undefined]);
  assert.equal(
    error.message,
    'the analytics store rejected rows for requests: error 27 CANNOT_PARSE_INPUT_ASSERTION_FAILED at row 17, column cost',
  );
});

const queries: [what: string, error: unknown, code: string][] = [
  ['time', store('159', 'TIMEOUT_EXCEEDED'), 'query_timeout'],
  ['an estimate of too much time', store('160', 'TOO_SLOW'), 'query_timeout'],
  [
    'its own memory',
    store('241', 'MEMORY_LIMIT_EXCEEDED', 'Query memory limit exceeded: SECRET'),
    'query_too_large',
  ],
  [
    'the store’s memory',
    store('241', 'MEMORY_LIMIT_EXCEEDED', '(total) memory limit exceeded: SECRET'),
    'store_unavailable',
  ],
  ['an answer that is too long', store('396', 'TOO_MANY_ROWS_OR_BYTES'), 'query_too_large'],
  ['a statement that was ended', store('394', 'QUERY_WAS_CANCELLED'), 'query_timeout'],
  ['no answer in time', new Error('Timeout error.'), 'store_unavailable'],
  ['nothing at all', new Error('The user aborted a request.'), 'store_unavailable'],
  ['memory', store('241', 'MEMORY_LIMIT_EXCEEDED'), 'store_unavailable'],
  ['a refused connection', network('ECONNREFUSED'), 'store_unavailable'],
];
for (const [what, error, code] of queries) {
  test(`query: ${what} is ${code}`, () => {
    const result = analyticsErrors.ofQuery(error);
    assert.equal(result.code, code);
    assert.doesNotMatch(result.message, /SECRET/);
    assert.equal(result.cause, error);
  });
}

test('an error of ours passes through', () => {
  const error = new GatewayError('invalid_request', 'no');
  assert.equal(analyticsErrors.ofQuery(error), error);
});
