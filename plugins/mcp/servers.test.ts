import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Scope } from '../../core/pipeline/plugin.ts';
import type { McpTarget, McpUpstream } from '../../core/ports/mcp.ts';
import { plantedWorld } from '../../tests/kit/mcp-world.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { Servers } from './servers.ts';

/** More than are kept. */
const count = 1_001;

test('a way to a server that makes room for another one is closed, and opened anew when it is needed', () => {
  const opened: string[] = [];
  const closed: string[] = [];
  const upstream = (target: McpTarget): McpUpstream => {
    const url = 'url' in target ? target.url : '';
    opened.push(url);
    return {
      send: () => assert.fail('Nothing is sent.'),
      close: () => Promise.resolve(void closed.push(url)),
    };
  };
  const ids = Array.from({ length: count }, (_, index) => `server-${index}`);
  const urlOf = (id: string) => `https://${id}.example.com/mcp`;
  const place = { organisationId: 'org-1', workspaceId: 'ws-1' };
  const directory = plantedWorld(
    ids.map((id) => ({ id: `of-${id}`, ...place, url: urlOf(id) })),
    ids.map((id) => ({ id, slug: id, ...place, integrationId: `of-${id}` })),
  );
  const scope: Pick<Scope, 'directory' | 'mcp' | 'onDispose'> = {
    directory: directory as Scope['directory'],
    mcp: { upstream } as Scope['mcp'],
    onDispose: () => undefined,
  };
  const servers = new Servers({}, scope as Scope);
  const open = (id: string) => servers.find(id, testKey())?.upstream;
  for (const id of ids.slice(0, -1)) open(id);
  open('server-0');
  assert.deepEqual(closed, []);
  open(ids.at(-1) as string);
  assert.deepEqual(closed, [urlOf('server-1')], 'the one that was not used for longest');
  open('server-1');
  assert.deepEqual(closed, [urlOf('server-1'), urlOf('server-2')]);
  assert.equal(opened.length, count + 1);
});
