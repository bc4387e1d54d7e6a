/** The way of administrative requests from a worker to its parent. */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { workerClientHeader } from '../../core/http/server.ts';

/** Headers of one connection: each side has its own. */
const ofConnection = new Set(['connection', 'keep-alive', 'proxy-connection', 'upgrade', 'expect', 'te']);

/** Headers for the other connection: without those of this one. */
function passedOn(headers: readonly string[], dropped: ReadonlySet<string>): string[] {
  const passed: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] as string;
    const low = name.toLowerCase();
    if (!dropped.has(low) && low !== workerClientHeader) passed.push(name, headers[at + 1] as string);
  }
  return passed;
}

const ofAnswer = new Set([...ofConnection, 'transfer-encoding']);

/**
 * Sends a request as it came to the socket of the parent, and its answer back. Resolves when the answer has ended;
 * never rejects. `isDraining` says whether the client's connection closes after the answer.
 */
export function askParent(
  socketPath: string,
  isDraining: () => boolean,
): (request: IncomingMessage, response: ServerResponse, expectsContinue?: boolean) => Promise<void> {
  return (request, response, expectsContinue = false) =>
    new Promise((resolve) => {
      if (expectsContinue) response.writeContinue();
      const { method, url: path, rawHeaders, socket } = request;
      const headers = passedOn(rawHeaders, ofConnection);
      // A request of HTTP/1.0, such as a balancer's check, needs no Host; the one to the parent does.
      if (request.headers.host === undefined) headers.push('host', '');
      headers.push(workerClientHeader, socket.remoteAddress ?? '');
      const upstream = http.request({ socketPath, method, path, headers, agent: false });
      upstream.on('response', (answer) => {
        const head = passedOn(answer.rawHeaders, ofAnswer);
        if (isDraining()) head.push('connection', 'close');
        response.writeHead(answer.statusCode ?? 502, answer.statusMessage, head);
        answer.pipe(response);
        answer.on('error', () => response.destroy());
      });
      upstream.on('error', () => {
        if (response.headersSent) response.destroy();
        else if (!response.destroyed) refuse(response);
      });
      response.on('close', () => {
        upstream.destroy();
        resolve();
      });
      request.on('error', () => upstream.destroy());
      request.pipe(upstream);
    });
}

function refuse(response: ServerResponse): void {
  const { status, message, type, code } = new GatewayError(
    'store_unavailable',
    'The administration of this gateway is starting again. Try again in a moment.',
  );
  response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '1' });
  response.end(JSON.stringify({ error: { message, type, param: null, code } }));
}
