import assert from 'node:assert/strict';
import { test } from 'node:test';
import { presign } from './aws-credentials.ts';

// The example that AWS documents for presigned addresses.
const keys = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
};
const at = Date.UTC(2013, 4, 24);
const request = {
  method: 'GET',
  origin: 'https://examplebucket.s3.amazonaws.com',
  path: '/test.txt',
  seconds: 86_400,
};

test('signs as AWS documents it', () => {
  const url = new URL(presign(request, { keys, region: 'us-east-1' }, at));
  assert.equal(url.origin + url.pathname, 'https://examplebucket.s3.amazonaws.com/test.txt');
  assert.deepEqual(Object.fromEntries(url.searchParams), {
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': 'AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request',
    'X-Amz-Date': '20130524T000000Z',
    'X-Amz-Expires': '86400',
    'X-Amz-SignedHeaders': 'host',
    'X-Amz-Signature': 'aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404',
  });
});

test('what the address says besides is signed, and keys that are given for a while go along', () => {
  const said = (path: string, token?: string): URLSearchParams => {
    const own = { ...keys, ...(token !== undefined && { sessionToken: token }) };
    return new URL(presign({ ...request, path }, { keys: own, region: 'us-east-1' }, at)).searchParams;
  };
  const plain = said('/test.txt').get('X-Amz-Signature');
  const named = said('/test.txt?response-content-type=text%2Fcsv');
  assert.equal(named.get('response-content-type'), 'text/csv');
  assert.notEqual(named.get('X-Amz-Signature'), plain);
  assert.equal(said('/test.txt', 'a+token/=').get('X-Amz-Security-Token'), 'a+token/=');
});

test('an address opens for a week at the most, and for a second at the least', () => {
  const seconds = (wanted: number): string | null =>
    new URL(presign({ ...request, seconds: wanted }, { keys, region: 'us-east-1' }, at)).searchParams.get(
      'X-Amz-Expires',
    );
  assert.deepEqual([seconds(1e9), seconds(0.2)], ['604800', '1']);
});
