import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GatewayError } from '../errors/gateway-error.ts';
import { fillBaseUrl, splitBaseUrl } from './base-url.ts';

const place = { provider: 'cloud', headerPrefix: 'x-service' };

test('fields are filled in; an address without fields stays', () => {
  assert.equal(
    fillBaseUrl('https://bedrock-runtime.{aws_region}.amazonaws.com', { aws_region: 'eu-west-1' }, place),
    'https://bedrock-runtime.eu-west-1.amazonaws.com',
  );
  assert.equal(fillBaseUrl('https://a.example/v1', {}, place), 'https://a.example/v1');
});

test('the global region of Vertex has no part in the host name', () => {
  const template = 'https://{vertex_region}-aiplatform.googleapis.com';
  assert.equal(
    fillBaseUrl(template, { vertex_region: 'global' }, place),
    'https://aiplatform.googleapis.com',
  );
  assert.equal(
    fillBaseUrl(template, { vertex_region: 'us-central1' }, place),
    'https://us-central1-aiplatform.googleapis.com',
  );
});

test('a field without a value is named, with both places where it can be given', () => {
  assert.throws(
    () => fillBaseUrl('https://{azure_resource_name}.example', {}, place),
    (error: GatewayError) =>
      error.code === 'invalid_request' &&
      error.param === 'azure_resource_name' &&
      error.message.includes('providers.cloud') &&
      error.message.includes('x-service-azure-resource-name'),
  );
});

test('origin and path of a base URL', () => {
  assert.deepEqual(splitBaseUrl('https://a.example:8443/v1/'), {
    origin: 'https://a.example:8443',
    basePath: '/v1',
  });
  assert.deepEqual(splitBaseUrl('mock:?x'), { origin: 'mock:?x', basePath: '' });
});
