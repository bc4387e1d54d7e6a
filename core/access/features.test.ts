import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Feature, featureVariables, readFeatures } from './features.ts';

describe('what the environment switches off', () => {
  test('nothing, while it says nothing', () => {
    const features = readFeatures({});
    assert.deepEqual(features.off, []);
    for (const feature of Object.keys(featureVariables) as Feature[]) assert.ok(features.isOn(feature));
    assert.deepEqual([features.logRetentionDays, features.metricsRetentionDays], [90, 365]);
  });

  for (const [feature, variable] of Object.entries(featureVariables)) {
    test(`${variable} switches ${feature} off, and nothing else`, () => {
      for (const value of ['OFF', 'off', ' Off ']) {
        const features = readFeatures({ [variable]: value });
        assert.deepEqual(features.off, [feature]);
        assert.equal(features.isOn(feature as Feature), false);
      }
      for (const value of ['ON', 'on', '', ' '])
        assert.deepEqual(readFeatures({ [variable]: value }).off, []);
    });
  }

  test('periods that are shown', () => {
    const features = readFeatures({ LOG_RETENTION_DISPLAY: '30', METRICS_RETENTION_DISPLAY: ' 730 ' });
    assert.deepEqual([features.logRetentionDays, features.metricsRetentionDays], [30, 730]);
  });

  test('the periods of the configuration are shown where the environment says nothing', () => {
    const kept = { logs_days: 14, metrics_days: 0 };
    const features = readFeatures({ METRICS_RETENTION_DISPLAY: '30' }, kept);
    assert.deepEqual([features.logRetentionDays, features.metricsRetentionDays], [14, 30]);
    assert.equal(readFeatures({}, kept).metricsRetentionDays, 0);
  });

  const wrong: readonly (readonly [variable: string, value: string])[] = [
    ['GUARDRAILS_ENABLED', 'false'],
    ['SCIM_ENABLED', '0'],
    ['POLICY_ENABLED', 'OFFF'],
    ['LOG_RETENTION_DISPLAY', '0'],
    ['LOG_RETENTION_DISPLAY', '90 days'],
    ['METRICS_RETENTION_DISPLAY', '-1'],
    ['METRICS_RETENTION_DISPLAY', '100000'],
  ];
  for (const [variable, value] of wrong) {
    test(`${variable}=${value} is refused in one sentence that names it`, () => {
      assert.throws(
        () => readFeatures({ [variable]: value }),
        ({ message }: Error) => message.startsWith(`${variable} must be `) && message.endsWith(`"${value}".`),
      );
    });
  }

  test('a long value is not repeated whole', () => {
    assert.throws(
      () => readFeatures({ SCIM_ENABLED: 'x'.repeat(5000) }),
      ({ message }: Error) => message.length < 200,
    );
  });
});
