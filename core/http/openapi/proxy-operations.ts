import { inPath, inQuery, type GatewayOperation } from './gateway-operation.ts';

const anything = inPath(
  'provider_endpoint',
  'assistants',
  'Any path of the provider; it may hold slashes, which are sent as they are.',
);
const body = { type: '*/*', schema: {}, example: { name: 'Helper' } };
const answered = { type: '*/*', schema: {}, example: { id: 'asst_1', object: 'assistant' } };

const passed =
  'Bodies pass both ways as they are, whatever their type; the request is logged like every other one. This serves every path that has no operation of its own.';
const always =
  'The same, also for paths that are an administration route here: what follows `/proxy` always goes to the provider.';

/** One operation per method, for every path below the base path or below `/proxy`. */
function passThrough(method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'): readonly GatewayOperation[] {
  const verb = method.toLowerCase();
  const sendsBody = method !== 'GET' && method !== 'DELETE';
  const shared: Omit<GatewayOperation, 'id' | 'path' | 'summary'> = {
    ...{ endpoint: 'proxy', method, parameters: [anything], response: [answered] },
    ...{ request: sendsBody ? [body] : [], requestRequired: false },
  };
  return [
    {
      ...shared,
      ...{ id: `proxy.${verb}`, path: '/{provider_endpoint}' },
      ...{ summary: 'Any other endpoint of the provider', description: passed },
    },
    {
      ...shared,
      ...{ id: `proxy.always.${verb}`, path: '/proxy/{provider_endpoint}' },
      ...{ summary: 'Any endpoint of the provider', description: always },
    },
  ];
}

/** What is not modelled: WebSockets, and every other endpoint of a provider. */
export const proxyOperations: readonly (readonly [tag: string, operations: readonly GatewayOperation[]])[] = [
  [
    'Realtime',
    [
      {
        endpoint: 'realtime',
        ...{ id: 'realtime.connect', method: 'GET', path: '/realtime', status: 101 },
        summary: 'A WebSocket to the provider',
        description:
          'Needs `connection: Upgrade` and `upgrade: websocket`. Browsers send their key and the other headers of the gateway as subprotocols.',
        parameters: [inQuery('model', 'A model of the provider.', { type: 'string' })],
        answer: 'The provider has switched; bytes are relayed both ways.',
        response: [],
      },
    ],
  ],
  ['Any endpoint', (['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const).flatMap(passThrough)],
];
