import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { restartNeeded } from './diff.ts';
import { loadConfig } from './load-config.ts';
import type { GatewayConfig } from './schema.ts';

async function configOf(more: string): Promise<GatewayConfig> {
  const text = `version: 1\npipelines: [{ name: a, match: { path: / }, plugins: [auth] }]\n${more}\n`;
  const loaded = await loadConfig('g.yaml', { env: {}, readFile: () => Promise.resolve(Buffer.from(text)) });
  assert.ok(loaded.ok);
  return loaded.config;
}

describe('restartNeeded', () => {
  const cases: readonly [string, string, string | undefined][] = [
    ['', 'server: { port: 8787 }', undefined],
    ['log: { level: info }', 'log: { level: debug }\nproviders: { a: {} }', undefined],
    [
      '',
      'server: { port: 1 }',
      'Restart the gateway to apply the new server.port; everything else is in use.',
    ],
    [
      'server: { header_aliases: [a] }',
      'server: { header_aliases: [b] }\nstorage: { journal: { flush_ms: 1 }, analytics: { url: "none:" } }',
      'Restart the gateway to apply the new server.header_aliases, storage.analytics.url and storage.journal.flush_ms; everything else is in use.',
    ],
    [
      '',
      'telemetry: { propagate: true, otlp: { url: "http://c" }, metrics: { labels: [model] } }',
      'Restart the gateway to apply the new telemetry.metrics.labels; everything else is in use.',
    ],
  ];
  for (const [before, after, expected] of cases)
    it(`"${before}" → "${after}"`, async () =>
      assert.equal(restartNeeded(await configOf(before), await configOf(after)), expected));
});
