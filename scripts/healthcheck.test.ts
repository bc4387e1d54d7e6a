import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';

async function healthcheck(env: Readonly<Record<string, string>>): Promise<unknown> {
  const child = spawn(process.execPath, ['scripts/healthcheck.mjs'], { env: { ...process.env, ...env } });
  const [code] = (await once(child, 'exit')) as [unknown];
  return code;
}

test('the health check of the container passes only when /healthz answers with success', async () => {
  let status = 200;
  const server = createServer((request, response) => {
    response.writeHead(request.url === '/healthz' ? status : 404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const PORT = String((server.address() as AddressInfo).port);
  assert.equal(await healthcheck({ PORT, WEIR_HOST: '0.0.0.0' }), 0);
  assert.equal(await healthcheck({ PORT, WEIR_HOST: '127.0.0.1' }), 0);
  status = 503;
  assert.equal(await healthcheck({ PORT }), 1);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  assert.equal(await healthcheck({ PORT }), 1);
});
