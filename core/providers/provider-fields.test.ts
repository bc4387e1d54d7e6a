import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Type } from 'typebox';
import { Ajv2020 } from 'ajv/dist/2020.js';
import {
  providerFieldAliases,
  providerFieldProperties,
  providerFields,
  templateFields,
  templateValue,
} from './provider-fields.ts';
import { ProviderRowSchema } from './provider-row.ts';

const byName = new Map<string, (typeof providerFields)[number]>(providerFields.map((one) => [one.name, one]));

describe('provider fields', () => {
  it('merge into the schema of a provider', () => {
    const schema = Type.Object({ ...ProviderRowSchema.properties, ...providerFieldProperties });
    const validate = new Ajv2020({ strict: true, keywords: ['x-expected'] }).compile(schema);
    assert.ok(validate({ dialect: 'bedrock-converse', aws_region: 'eu-west-1' }));
    assert.equal(validate({ aws_region: '' }), false);
    const taken = Object.keys(ProviderRowSchema.properties).filter((name) => byName.has(name));
    assert.deepEqual(taken, []);
  });

  it('know the header of a field', () => {
    assert.equal(byName.get('aws_access_key_id')?.header, 'aws-access-key-id');
    assert.equal(byName.get('vertex_service_account_json')?.header, 'vertex-service-account-json');
  });

  it('tell secrets from settings', () => {
    const secrets = providerFields.filter((one) => one.secret).map((one) => one.name);
    assert.deepEqual(secrets.sort(), [
      'aws_access_key_id',
      'aws_external_id',
      'aws_secret_access_key',
      'aws_session_token',
      'azure_ad_token',
      'azure_entra_client_secret',
      'oracle_key_passphrase',
      'oracle_private_key',
      'vertex_service_account_json',
    ]);
    const suspicious = providerFields.filter(
      (one) => !one.secret && /secret|token|private|password|passphrase/.test(one.name),
    );
    assert.deepEqual(suspicious, []);
  });

  it('never let a secret or an address into a template', () => {
    for (const field of providerFields) if (field.template) assert.ok(!field.secret && !field.address);
  });

  it('read the names within an address', () => {
    assert.deepEqual(templateFields('https://{a_b}.host/{c}/x'), ['a_b', 'c']);
    assert.deepEqual(templateFields('https://host'), []);
  });

  it('let only a plain word of a host name into an address', () => {
    for (const good of ['us-central1', 'A1', 'x'.repeat(63)]) assert.match(good, templateValue);
    for (const bad of ['', 'a.b', 'a/b', 'a@b', 'x'.repeat(64), 'a\n', 'ä', 'a:1', 'a#'])
      assert.doesNotMatch(bad, templateValue);
  });

  it('have aliases that lead to a field', () => {
    assert.deepEqual(providerFieldAliases, {
      resource_name: 'azure_resource_name',
      deployment_id: 'azure_deployment_id',
      api_version: 'azure_api_version',
    });
    for (const name of Object.values(providerFieldAliases)) assert.ok(byName.has(name));
  });
});
