import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { readUpgradeProtocols } from './upgrade.ts';

const config = { header_prefix: 'x-service', header_aliases: ['x-portkey'] };

function read(...rawHeaders: string[]): IncomingMessage {
  const message = new IncomingMessage(new Socket());
  message.rawHeaders = rawHeaders;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] as string).toLowerCase();
    const before = message.headers[name];
    message.headers[name] =
      before === undefined ? rawHeaders[i + 1] : `${String(before)}, ${rawHeaders[i + 1]}`;
  }
  readUpgradeProtocols(message, config);
  return message;
}

const cases: readonly (readonly [string, string[], string[]])[] = [
  ['none', ['A', 'b'], ['A', 'b']],
  [
    'only others, in their own spelling',
    ['Sec-WebSocket-Protocol', 'realtime,  graphql-ws'],
    ['Sec-WebSocket-Protocol', 'realtime,  graphql-ws'],
  ],
  [
    'a key',
    ['Sec-WebSocket-Protocol', 'realtime, openai-insecure-api-key.wk_1.2, openai-beta.realtime-v1'],
    ['authorization', 'Bearer wk_1.2', 'Sec-WebSocket-Protocol', 'realtime, openai-beta.realtime-v1'],
  ],
  [
    'headers under every prefix, in several headers',
    ['sec-websocket-protocol', 'X-Service-Provider.a.b', 'Sec-WebSocket-Protocol', 'x, x-portkey-trace-id.7'],
    ['x-service-provider', 'a.b', 'x-portkey-trace-id', '7', 'Sec-WebSocket-Protocol', 'x'],
  ],
  [
    'a header wins, and the item still goes no further',
    ['authorization', 'Bearer a', 'Sec-WebSocket-Protocol', 'openai-insecure-api-key.b'],
    ['authorization', 'Bearer a'],
  ],
];

for (const [what, given, expected] of cases) {
  test(`subprotocols: ${what}`, () => {
    const message = read(...given);
    assert.deepEqual(message.rawHeaders, expected);
    const [protocols] = message.rawHeaders.filter((_, at, all) => /protocol$/i.test(all[at - 1] ?? ''));
    assert.equal(message.headers['sec-websocket-protocol'], protocols);
    for (let i = 0; i < expected.length; i += 2) {
      assert.equal(message.headers[(expected[i] as string).toLowerCase()], expected[i + 1]);
    }
  });
}
