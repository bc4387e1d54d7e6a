import { createHash } from 'node:crypto';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request as the provider received it. */
export interface Arrived {
  readonly method: string;
  readonly url: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly bytes: number;
  readonly sha256: string;
  /** Its beginning, at most a million bytes. */
  readonly body: Buffer;
}

/** A provider whose answers each test decides anew. */
export interface SteerableProvider {
  readonly host: string;
  readonly requests: Arrived[];
  /** Answers of this provider whose connection ended early. */
  cut: number;
  /** Called when a request has come whole; `reset` brings back the plain answer. */
  answer: (response: ServerResponse, request: Arrived) => void;
  reset(): void;
  close(): void;
}

const plain = (response: ServerResponse): void => {
  response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}');
};

/** Starts one on 127.0.0.1. */
export async function startProvider(): Promise<SteerableProvider> {
  const server = http.createServer((message, response) => void receive(message, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const provider: SteerableProvider = {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    cut: 0,
    answer: plain,
    reset() {
      provider.requests.length = 0;
      provider.cut = 0;
      provider.answer = plain;
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };

  async function receive(message: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('close', () => {
      if (!response.writableFinished) provider.cut += 1;
    });
    const hash = createHash('sha256');
    const kept: Buffer[] = [];
    let bytes = 0;
    try {
      for await (const chunk of message as AsyncIterable<Buffer>) {
        hash.update(chunk);
        if (bytes < 1_000_000) kept.push(chunk);
        bytes += chunk.length;
      }
    } catch {
      return;
    }
    const { method = '', url = '', headers, rawHeaders } = message;
    const body = Buffer.concat(kept);
    const request = { method, url, headers, rawHeaders, bytes, sha256: hash.digest('hex'), body };
    provider.requests.push(request);
    provider.answer(response, request);
  }

  return provider;
}
