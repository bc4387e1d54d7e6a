import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Engine, type ChdbModule, type EngineOptions } from './chdb/engine.ts';
import { createEngineServer } from './chdb/http-server.ts';
import { forgetLostInserts } from './chdb/lost-inserts.ts';
import { ChildCannotStart, runAsChild } from './child-side.ts';

/** Start message of the parent. */
export interface ChdbChildOptions extends EngineOptions {
  readonly username: string;
  readonly password: string;
  /** Folders whose files inserts may name. */
  readonly rowFolders: readonly string[];
}

let engine: Engine | undefined;
let server: Server | undefined;

function listen(target: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    target.once('error', reject);
    target.listen(port, '127.0.0.1', () => {
      target.off('error', reject);
      resolve((target.address() as AddressInfo).port);
    });
  });
}

runAsChild<ChdbChildOptions>({
  async start({ port, options }) {
    let chdb: ChdbModule;
    try {
      chdb = await import('chdb');
    } catch (error) {
      throw new ChildCannotStart('absent', error);
    }
    await forgetLostInserts(options.directory);
    engine = await Engine.open(chdb, options);
    server = createEngineServer({ engine, ...options });
    return listen(server, port);
  },
  async stop(graceMs) {
    server?.close();
    await engine?.close(graceMs);
    server?.closeAllConnections();
  },
});
