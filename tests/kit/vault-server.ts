import type { TestContext } from 'node:test';
import { startUpstream } from './http-kit.ts';

/** The part of HashiCorp Vault's HTTP API that reads secrets of an engine KV, version 2, mounted as `secret`. */
export interface VaultServer {
  readonly url: string;
  /** What a secret of this path is from now on; undefined removes it. */
  put(path: string, value: Readonly<Record<string, string>> | undefined): void;
}

const unversioned = 'Invalid path for a versioned K/V secrets engine. Use API paths with "data" in them.';

/** Starts one that takes this token alone; it ends with the test. */
export async function startVault(t: TestContext, token: string): Promise<VaultServer> {
  const secrets = new Map<string, Readonly<Record<string, string>>>();
  const { url } = await startUpstream(t, ({ method, url: asked, headers }, response) => {
    const answer = (status: number, body: object): void =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (headers['x-vault-token'] !== token) return answer(403, { errors: ['permission denied'] });
    const [, name] = /^\/v1\/secret\/data\/(.+)$/.exec(asked) ?? [];
    if (name === undefined) return answer(404, { warnings: [unversioned] });
    const data = method === 'GET' ? secrets.get(name) : undefined;
    if (data === undefined) return answer(404, { errors: [] });
    return answer(200, { data: { data, metadata: { version: 1, deletion_time: '', destroyed: false } } });
  });
  return {
    url,
    put(path, value) {
      if (value === undefined) secrets.delete(path);
      else secrets.set(path, value);
    },
  };
}
