import assert from 'node:assert/strict';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import { noMetrics } from '../transport/transport.test-support.ts';
import { failure, get, names, startCanary, testFetch } from './guarded-fetch.test-support.ts';

type Serve = (request: IncomingMessage, response: ServerResponse) => void;

/** A server on 127.0.0.1 and a fetch that trusts it. */
async function served(t: TestContext, serve: Serve) {
  const requests: { method: string; url: string; headers: http.IncomingHttpHeaders; body: string }[] = [];
  let cut = 0;
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    response.on('close', () => (cut += response.writableFinished ? 0 : 1));
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      requests.push({ method, url, headers, body: Buffer.concat(chunks).toString() });
      serve(request, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const fetcher = testFetch({ trustedHosts: [host] });
  return { url: `http://${host}`, host, requests, fetcher, cut: () => cut };
}

const redirect =
  (status: number, location: string): Serve =>
  (_request, response) =>
    response.writeHead(status, { location }).end('elsewhere');

describe('guarded fetch: what it brings', () => {
  test('status, headers and body of a trusted host, asked for plainly', async (t) => {
    const { fetcher, url, requests } = await served(t, (_request, response) => {
      response.writeHead(404, { 'content-type': 'text/plain', 'x-a': '1' }).end('none here');
    });
    const headers = ['accept', 'image/*', 'Host', 'evil', 'accept-encoding', 'gzip', 'connection', 'upgrade'];
    const answer = await get(fetcher, `${url}/a%20b?c=d#e`, { headers });
    assert.deepEqual([answer.status, answer.body.toString()], [404, 'none here']);
    assert.equal(headerValue(answer.headers, 'x-a'), '1');
    assert.deepEqual(Object.keys(answer), ['status', 'headers', 'body']);
    const sent = requests[0]?.headers;
    assert.deepEqual(
      [requests[0]?.method, requests[0]?.url, sent?.accept, sent?.host, sent?.['accept-encoding']],
      ['GET', '/a%20b?c=d', 'image/*', url.slice('http://'.length), 'identity'],
    );
  });

  test('a body goes along', async (t) => {
    const { fetcher, url, requests } = await served(t, (_request, response) => response.end());
    await get(fetcher, url, { method: 'post', body: Buffer.from('hi'), headers: ['content-type', 'a/b'] });
    assert.deepEqual([requests[0]?.method, requests[0]?.body], ['POST', 'hi']);
    assert.deepEqual(
      [requests[0]?.headers['content-type'], requests[0]?.headers['content-length']],
      ['a/b', '2'],
    );
  });

  test('every fetch has a connection of its own, and leaves none open', async (t) => {
    const peers = new Set<string>();
    const { fetcher, url } = await served(t, (request, response) => {
      peers.add(String(request.socket.remotePort));
      response.end('x');
    });
    for (let i = 0; i < 3; i++) await get(fetcher, url);
    assert.equal(peers.size, 3);
  });

  test('`accept` sees the head and may refuse the body', async (t) => {
    const { fetcher, url, cut } = await served(t, (_request, response) => {
      response.writeHead(418, { 'x-a': '1' });
      response.write('begin');
    });
    let seen: unknown;
    const reason = new GatewayError('fetch_failed', 'not this one');
    const error = await failure(
      get(fetcher, url, {
        accept(status, headers) {
          seen = [status, headerValue(headers, 'x-a')];
          throw reason;
        },
      }),
    );
    assert.equal(error, reason);
    assert.deepEqual(seen, [418, '1']);
    await waitFor(() => cut() === 1);
  });
});

describe('guarded fetch: public names', () => {
  // Public by the rules, and handed out to nobody: a connection can only fail.
  const nowhere = '2d00::1';

  const tried = [
    'http://images.example.com/a',
    'https://example.com./',
    'http://sub.local.dev:8080/',
    'http://münchen.de/',
  ];
  for (const url of tried) {
    test(`${url} is resolved once and called there`, async () => {
      const host = new URL(url).hostname;
      const resolve = names({ [host.replace(/\.$/, '')]: [nowhere] });
      const error = await failure(get(testFetch({ resolve }), url, { timeoutMs: 1_000 }));
      assert.deepEqual([error.code, error.status], ['fetch_failed', 400]);
      assert.deepEqual(resolve.asked, [host]);
      assert.doesNotMatch(error.message, /2d00/);
    });
  }

  test('a public address is not looked up', async () => {
    const resolve = names({});
    const error = await failure(get(testFetch({ resolve }), `http://[${nowhere}]/`, { timeoutMs: 1_000 }));
    assert.equal(error.code, 'fetch_failed');
    assert.deepEqual(resolve.asked, []);
  });

  test('an unknown name', async () => {
    const error = await failure(get(testFetch(), 'https://nobody.example.com/'));
    assert.match(`${error.code} ${error.message}`, /fetch_failed "nobody\.example\.com".*name is unknown/);
  });

  test('a resolver that changes its mind leads nowhere: what was checked is what is called', async () => {
    const canary = await startCanary();
    let asked = 0;
    const resolve = () => {
      asked += 1;
      const address = asked === 1 ? nowhere : '127.0.0.1';
      return Promise.resolve([{ address, family: address === nowhere ? 6 : 4 }]);
    };
    const fetcher = testFetch({ resolve });
    const url = `http://rebind.example.com:${canary.port}/`;
    assert.equal((await failure(get(fetcher, url, { timeoutMs: 1_000 }))).code, 'fetch_failed');
    assert.equal(asked, 1, 'nothing is resolved between the check and the connection');
    assert.equal((await failure(get(fetcher, url))).code, 'address_refused');
    assert.equal(canary.connections, 0);
    canary.close();
  });

  test('an answer that changes while it is looked at is taken as it was checked', async () => {
    const canary = await startCanary();
    let reads = 0;
    const shifty = {
      family: 4,
      get address() {
        reads += 1;
        return reads === 1 ? '240.0.0.1' : '127.0.0.1';
      },
    };
    const fetcher = testFetch({ resolve: () => Promise.resolve([shifty]) });
    assert.equal(
      (await failure(get(fetcher, `http://shifty.example.com:${canary.port}/`))).code,
      'address_refused',
    );
    assert.deepEqual([reads, canary.connections], [1, 0]);
    canary.close();
  });

  test('a resolver that takes too long is given up', async () => {
    let late: NodeJS.Timeout | undefined;
    const resolve = () => new Promise<never>(() => (late = setTimeout(() => undefined, 5_000)));
    const error = await failure(get(testFetch({ resolve }), 'http://slow.example.com/', { timeoutMs: 50 }));
    assert.match(error.message, /no whole answer came within 50 ms/);
    clearTimeout(late);
  });
});

describe('guarded fetch: redirects', () => {
  const table: readonly [number, string, string, string][] = [
    [301, 'GET', 'GET', ''],
    [301, 'POST', 'GET', ''],
    [302, 'POST', 'GET', ''],
    [302, 'PUT', 'PUT', 'hi'],
    [303, 'POST', 'GET', ''],
    [303, 'PUT', 'GET', ''],
    [303, 'HEAD', 'HEAD', ''],
    [307, 'POST', 'POST', 'hi'],
    [308, 'POST', 'POST', 'hi'],
  ];
  for (const [status, method, then, body] of table) {
    test(`${status} after ${method} asks again with ${then}`, async (t) => {
      const { fetcher, url, requests } = await served(t, (request, response) => {
        if (request.url === '/a/b') redirect(status, '../c?d')(request, response);
        else response.end('there');
      });
      const sent = method === 'GET' || method === 'HEAD' ? {} : { body: Buffer.from('hi') };
      const headers = ['content-type', 'a/b', 'authorization', 'Bearer s', 'x-a', '1'];
      const answer = await get(fetcher, `${url}/a/b`, { method, headers, ...sent });
      assert.equal(answer.status, 200);
      const second = requests[1];
      assert.deepEqual([second?.method, second?.url, second?.body], [then, '/c?d', body]);
      assert.equal(second?.headers['content-type'], then === method ? 'a/b' : undefined);
      assert.deepEqual([second?.headers.authorization, second?.headers['x-a']], ['Bearer s', '1']);
    });
  }

  test('credentials stay with their origin', async (t) => {
    const second = await served(t, (_request, response) => response.end('there'));
    const first = await served(t, redirect(307, `${second.url}/x`));
    const fetcher = testFetch({ trustedHosts: [first.host, second.host] });
    const headers = [
      'Authorization',
      'Bearer s',
      'Cookie',
      'a=b',
      'X-Api-Key',
      's',
      'api-key',
      's',
      'x-a',
      '1',
    ];
    await get(fetcher, first.url, { headers });
    assert.equal(first.requests[0]?.headers.authorization, 'Bearer s');
    const {
      authorization,
      cookie,
      'x-api-key': xApiKey,
      'api-key': apiKey,
      'x-a': a,
    } = second.requests[0]?.headers ?? {};
    assert.deepEqual(
      [authorization, cookie, xApiKey, apiKey, a],
      [undefined, undefined, undefined, undefined, '1'],
    );
  });

  test('are followed so many times and not once more', async (t) => {
    const { fetcher, url, requests } = await served(t, (request, response) => {
      const left = Number(request.url?.slice(1));
      if (left === 0) response.end('there');
      else redirect(302, `/${left - 1}`)(request, response);
    });
    assert.equal((await get(fetcher, `${url}/3`)).body.toString(), 'there');
    assert.match((await failure(get(fetcher, `${url}/4`))).message, /redirects more than 3 times/);
    assert.match((await failure(get(fetcher, `${url}/1`, { maxRedirects: 0 }))).message, /more than 0 times/);
    assert.equal(requests.length, 4 + 4 + 1);
  });

  test('without a location are answers', async (t) => {
    const { fetcher, url } = await served(t, (_request, response) => response.writeHead(302).end('x'));
    assert.equal((await get(fetcher, url)).status, 302);
  });

  const inside = (port: number): readonly string[] => [
    ...[
      `http://127.0.0.1:${port}/`,
      `http://localhost:${port}/`,
      `http://[::1]:${port}/`,
      `//0x7f.1:${port}/`,
    ],
    ...[`http://loopback.example.com:${port}/`, 'http://169.254.169.254/latest/', 'file:///etc/passwd'],
    ...[`http://user:pass@127.0.0.1:${port}/`, 'http://[fd00:ec2::254]/', 'http://metadata.google.internal/'],
  ];
  test('to what is not public are refused, the canary unseen', async (t) => {
    const canary = await startCanary();
    t.after(() => canary.close());
    for (const location of inside(canary.port)) {
      const { host, url } = await served(t, redirect(302, location));
      const resolve = names({ 'loopback.example.com': ['127.0.0.1'] });
      const error = await failure(get(testFetch({ trustedHosts: [host], resolve }), url));
      assert.equal(error.code, 'address_refused', location);
    }
    assert.equal(canary.connections, 0);
  });
});

describe('guarded fetch: bounds', () => {
  test('an announced size is refused before it comes, an unannounced one while it comes', async (t) => {
    const { fetcher, url, cut } = await served(t, (request, response) => {
      if (request.url === '/announced') response.writeHead(200, { 'content-length': '1001' });
      const timer = setInterval(() => response.write('x'.repeat(100)), 1);
      response.on('close', () => clearInterval(timer));
    });
    for (const path of ['/announced', '/endless']) {
      const error = await failure(get(fetcher, url + path, { maxBytes: 1_000 }));
      assert.match(`${error.code} ${error.message}`, /fetch_failed.*larger than 1000 bytes/);
    }
    await waitFor(() => cut() === 2);
  });

  test('exactly the bound passes', async (t) => {
    const { fetcher, url } = await served(t, (_request, response) => response.end('x'.repeat(1_000)));
    assert.equal((await get(fetcher, url, { maxBytes: 1_000 })).body.length, 1_000);
  });

  test('one time for everything: a silent server, a slow body, slow redirects', async (t) => {
    const { fetcher, url, cut } = await served(t, (request, response) => {
      if (request.url === '/silent') return;
      if (request.url === '/body') response.write('x');
      else setTimeout(() => redirect(302, '/again')(request, response), 60);
    });
    for (const path of ['/silent', '/body', '/again']) {
      const error = await failure(get(fetcher, url + path, { timeoutMs: 150, maxRedirects: 1_000 }));
      assert.match(`${error.code} ${error.message}`, /fetch_failed.*no whole answer came within 150 ms/);
    }
    await waitFor(() => cut() >= 2);
  });

  test('abort ends it and its connection', async (t) => {
    const { fetcher, url, requests, cut } = await served(t, () => undefined);
    const { answer, abort } = fetcher.fetch({ url, timeoutMs: 5_000, maxBytes: 10 });
    const ended = failure(answer);
    await waitFor(() => requests.length === 1);
    abort();
    assert.match((await ended).message, /given up/);
    await waitFor(() => cut() === 1);
  });

  test('so many at once and no more; an ended one makes room', async (t) => {
    const held: ServerResponse[] = [];
    const { url, host } = await served(t, (_request, response) => void held.push(response));
    const fetcher = testFetch({ trustedHosts: [host], maxConcurrent: 2 });
    const two = [get(fetcher, url), get(fetcher, url)];
    const error = await failure(get(fetcher, url));
    assert.match(`${error.code} ${error.message}`, /fetch_failed.*2 fetches are under way/);
    await waitFor(() => held.length === 2);
    for (const response of held.splice(0)) response.end('x');
    await Promise.all(two);
    const third = get(fetcher, url);
    await waitFor(() => held.length === 1);
    held[0]?.end('y');
    assert.equal((await third).body.toString(), 'y');
  });

  test('all fetches together hold so many bytes; ended ones give theirs back', async (t) => {
    const { url, host } = await served(t, (_request, response) => response.end('x'.repeat(600)));
    const fetcher = testFetch({ trustedHosts: [host], maxHeldBytes: 1_000 });
    for (let i = 0; i < 3; i++) assert.equal((await get(fetcher, url)).body.length, 600);
    const small = testFetch({ trustedHosts: [host], maxHeldBytes: 500 });
    assert.match((await failure(get(small, url))).message, /as many fetched bytes as it may/);
  });

  test('a compressed answer, whose size would say nothing, is refused', async (t) => {
    const { fetcher, url } = await served(t, (_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('x'.repeat(10_000)));
    });
    assert.match((await failure(get(fetcher, url))).message, /compressed/);
  });
});

test('guarded fetch: results are counted', async (t) => {
  const counted: string[] = [];
  const metrics = {
    ...noMetrics,
    counter:
      ({ name }: { name: string }) =>
      (labels: Readonly<Record<string, string>>) => ({
        inc: () => void counted.push(`${name} ${labels['result']}`),
      }),
  };
  const { url, host } = await served(t, (_request, response) => response.end('x'));
  const fetcher = testFetch({ trustedHosts: [host], metrics });
  await get(fetcher, url);
  await failure(get(fetcher, url, { maxBytes: 0 }));
  await failure(get(fetcher, 'http://localhost/'));
  const name = 'weir_guarded_fetches_total';
  assert.deepEqual(counted, [`${name} ok`, `${name} failed`, `${name} refused`]);
});

describe('guarded fetch: what is no answer', () => {
  const broken: readonly [string, (socket: Socket) => void][] = [
    ['nothing at all', (socket) => socket.destroy()],
    ['no HTTP', (socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n')],
    ['half a body', (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf')],
    [
      'half a chunk',
      (socket) => socket.end('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\nhalf'),
    ],
  ];
  for (const [name, serve] of broken) {
    test(name, async (t) => {
      const server = createServer((socket) => {
        socket.on('error', () => undefined);
        socket.once('data', () => serve(socket));
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      t.after(() => void server.close());
      const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
      const error = await failure(get(testFetch({ trustedHosts: [host] }), `http://${host}/`));
      assert.equal(error.code, 'fetch_failed');
      assert.match(error.message, /cannot be reached or broke the connection/);
      assert.doesNotMatch(error.message, /SSH|half/);
    });
  }

  test('a port at which nobody listens, and TLS where none is spoken', async (t) => {
    const { host, fetcher } = await served(t, (_request, response) => response.end());
    assert.match((await failure(get(fetcher, `https://${host}/`))).message, /TLS/);
    const closed = testFetch({ trustedHosts: ['127.0.0.1'] });
    assert.match((await failure(get(closed, 'http://127.0.0.1:1/'))).message, /cannot be reached/);
  });
});

async function waitFor(condition: () => boolean): Promise<void> {
  const end = performance.now() + 30_000;
  while (!condition()) {
    if (performance.now() > end) throw new Error('never came');
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
