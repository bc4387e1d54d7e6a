// Configs as users of the `portkey-ai` SDK write them: objects and names given to its constructor.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Portkey } from 'portkey-ai';
import auth from '../../plugins/auth/index.ts';
import { providerPlugin, startTestGateway } from '../kit/gateway-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';
import { serviceKey } from './sdk-setting.ts';

const messages = [{ role: 'user', content: 'Hello' }];

/** A client whose gateway has a provider that always fails, and one that works. */
async function clientOf(t: Parameters<typeof startTestGateway>[0], config: object | string) {
  const gateway = await startTestGateway(t, {
    plugins: [auth, providerPlugin()],
    keys: { [serviceKey]: testKey() },
    providers: {
      failing: { base_url: 'mock:?status=503', credentials: 'none' },
      working: { base_url: 'mock:', credentials: 'none' },
    },
    configs: {
      'pc-saved': {
        strategy: { mode: 'fallback', on_status_codes: [503] },
        targets: [{ virtual_key: 'failing' }, { virtual_key: 'working' }],
      },
    },
  });
  const baseURL = `${gateway.url}/v1`;
  return new Portkey({ apiKey: serviceKey, baseURL, config: config as string });
}

const served: readonly [string, object | string, string][] = [
  [
    'a fallback',
    { strategy: { mode: 'fallback' }, targets: [{ virtual_key: 'failing' }, { provider: '@working' }] },
    'config.targets[1]',
  ],
  ['a saved config', 'pc-saved', 'config.targets[1]'],
  ['one target', { provider: '@working', retry: { attempts: 3, on_status_codes: [429] } }, 'config'],
  [
    'conditions',
    {
      strategy: {
        mode: 'conditional',
        conditions: [{ query: { 'params.model': { $regex: '^mock' } }, then: 'good' }],
        default: 'bad',
      },
      targets: [
        { name: 'bad', virtual_key: 'failing' },
        { name: 'good', virtual_key: 'working' },
      ],
    },
    'config.targets[1]',
  ],
  [
    'weights',
    {
      strategy: { mode: 'loadbalance' },
      targets: [
        { virtual_key: 'failing', weight: 0 },
        { virtual_key: 'working', weight: 1 },
      ],
    },
    'config.targets[1]',
  ],
];
for (const [name, config, option] of served) {
  test(`${name}: answered, and the headers say by which target`, async (t) => {
    const portkey = await clientOf(t, config);
    const completion = await portkey.chat.completions.create({ model: 'mock-gpt', messages });
    assert.ok((completion.choices?.[0]?.message?.content ?? '').length > 0);
    assert.equal(completion.getHeaders()?.['last-used-option-index'], option);
    const stream = await portkey.chat.completions.create({ model: 'mock-gpt', messages, stream: true });
    let text = '';
    for await (const chunk of stream) text += String(chunk.choices?.[0]?.delta?.content ?? '');
    assert.ok(text.length > 0);
  });
}

test('a config that is wrong is refused with every mistake', async (t) => {
  const portkey = await clientOf(t, { strategy: { mode: 'fallbak' }, targets: [{ provider: '@workin' }] });
  await assert.rejects(
    portkey.chat.completions.create({ model: 'mock-gpt', messages }),
    (error: Error & { status?: number }) =>
      error.status === 400 && /config\.strategy\.mode/.test(error.message),
  );
});
