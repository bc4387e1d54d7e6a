import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileSchema } from './ajv.ts';
import { Exports } from './storage-schema.ts';

const mistakes = (value: object): string[] =>
  compileSchema(Exports)(value).map(({ path, message }) => `${path} ${message}`);

describe('exports: in the file', () => {
  for (const url of ['file:', 'file:/srv/exports', 's3://bucket', 's3://my.bucket-1/a/b_c', 's3://bucket/'])
    test(`${url} is a place`, () => {
      assert.deepEqual(mistakes({ url }), []);
    });

  for (const url of [
    '',
    'file:relative',
    's3://',
    's3://Bucket',
    's3://bucket/../x',
    'https://bucket/x',
    's3://b c',
  ])
    test(`"${url}" is none`, () => {
      assert.match(
        mistakes({ url })[0] ?? '',
        /^\/url expected "file:", "file:\/DIR" or "s3:\/\/BUCKET\/PREFIX"/,
      );
    });

  const refused: readonly [object, RegExp][] = [
    [{ denied_fields: ['secret'] }, /^\/denied_fields\/0 expected/],
    [{ expires_days: 0 }, /^\/expires_days/],
    [{ link_minutes: 10_081 }, /^\/link_minutes/],
    [{ max_rows: 0 }, /^\/max_rows/],
    [
      { endpoint: 'https://user:pass@store' },
      /^\/endpoint expected an address without a user name (?!.*pass@)/,
    ],
    [{ endpoint: 'https://store/path' }, /^\/endpoint expected an origin/],
    [{ bucket: 'x' }, /bucket/],
  ];
  for (const [value, message] of refused)
    test(`${JSON.stringify(value)} is refused`, () => {
      assert.match(mistakes(value)[0] ?? '', message);
    });
});
