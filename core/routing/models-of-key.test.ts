import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { send } from '../../tests/kit/http-kit.ts';
import { key } from '../../tests/kit/routing-kit.ts';
import { started } from './stored-providers.test-support.ts';
import { integration, model, provider } from './stored-records.test-support.ts';

describe('GET /models', () => {
  const list = async (url: string, query = '', headers: object = {}) =>
    (await send(url, { method: 'GET', path: `/v1/models${query}`, headers: { ...key, ...headers } })).json();

  test('is what the key may use, filtered and cut', async (t) => {
    const closed = {
      allowAllModels: false,
      models: [model('b'), model('a'), model('c', { enabled: false })],
    };
    const { gateway } = await started(
      t,
      [
        integration({ key: 'k' }, closed),
        provider(),
        provider({ expiresAt: 1 }, { id: 'p2', slug: 'old' }),
        integration({ key: 'k' }, { aiProviderId: 'azure', models: [] }, { id: 'i3' }),
        provider({}, { id: 'p3', slug: 'open', parentId: 'i3' }),
      ],
      {
        providers: {},
        answer: (_request, response) => void response.end('{"data":[{"id":"z","created":5}]}'),
      },
    );
    const ids = async (query: string) => {
      const { data, total } = (await list(gateway.url, query)) as unknown as {
        data: { id: string }[];
        total?: number;
      };
      return [data.map(({ id }) => id), total];
    };
    assert.deepEqual(await ids('?sort=id'), [['@mine/a', '@mine/b', '@open/z'], undefined]);
    assert.deepEqual(await ids('?sort=id&order=desc&limit=1&offset=1'), [['@mine/b'], 3]);
    assert.deepEqual(await ids('?provider=@open'), [['@open/z'], undefined]);
    assert.deepEqual(await ids('?ai_service=plain&sort=id'), [['@mine/a', '@mine/b'], undefined]);
    const wrong = await list(gateway.url, '?limit=many');
    assert.equal(wrong.error.code, 'invalid_request');
    const own = (await list(gateway.url, '', { 'x-service-provider': '@mine' })) as unknown as {
      data: { id: string }[];
    };
    assert.deepEqual(
      own.data.map(({ id }) => id),
      ['b', 'a'],
    );
  });
});
