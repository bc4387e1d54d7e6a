import { configs } from '@/texts/configs';

const names = configs.targets;

/** The usual shapes of configs, to begin with. */
export const shapes = {
  fallback: {
    strategy: { mode: 'fallback', on_status_codes: [429, 500, 502, 503, 504] },
    targets: [
      { name: names.first, provider: 'openai', request_timeout: 30_000 },
      { name: names.second, provider: 'anthropic', override_params: { model: 'claude-sonnet-4-5' } },
    ],
  },
  loadbalance: {
    strategy: { mode: 'loadbalance' },
    targets: [
      { name: names.large, provider: 'openai', weight: 3 },
      { name: names.small, provider: 'azure-openai', weight: 1 },
    ],
  },
  conditional: {
    strategy: {
      mode: 'conditional',
      conditions: [{ query: { 'metadata.plan': { $eq: 'paid' } }, then: names.paid }],
      default: names.free,
    },
    targets: [
      { name: names.paid, provider: 'openai', override_params: { model: 'gpt-4o' } },
      { name: names.free, provider: 'openai', override_params: { model: 'gpt-4o-mini' } },
    ],
  },
  cache: { provider: 'openai', cache: { mode: 'simple', max_age: 3600 } },
  retry: { provider: 'openai', retry: { attempts: 3, on_status_codes: [429, 500, 502, 503, 504] } },
  empty: {},
} as const;

export type Shape = keyof typeof shapes;

export function isShape(value: unknown): value is Shape {
  return typeof value === 'string' && Object.hasOwn(shapes, value);
}

/** A config as text. */
export function textOfConfig(config: unknown): string {
  return `${JSON.stringify(config, null, 2)}\n`;
}
