import { transportConformance } from '../../tests/conformance/transport.ts';
import { startSceneServer, type SceneServer } from '../../tests/kit/scene-server.ts';
import { answers } from '../../tests/kit/upstream-scenes.ts';
import { send, testTransport } from './transport.test-support.ts';

const pass = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

transportConformance('transport over the network', () => {
  const transport = testTransport();
  const servers: SceneServer[] = [];
  return Promise.resolve({
    transport,
    pass,
    async play(...scenes) {
      const reused = scenes[0]?.reused === true;
      const server = await startSceneServer(reused ? [answers(200, '{}'), ...scenes] : scenes);
      servers.push(server);
      if (scenes[0]?.connect === 'never') return server.deafOrigin;
      if (scenes[0]?.connect === 'refused') {
        await server.close();
        return server.origin;
      }
      if (reused) {
        await send(transport, { origin: server.origin }).ended;
        await pass(10);
      }
      return server.origin;
    },
    come: (promise) => promise,
    open: () => transport.stats().running + transport.stats().pending,
    received: () => String(servers.at(-1)?.bodies.at(-1)),
    async close() {
      await transport.close();
      for (const server of servers) await server.close();
    },
  });
});
