/** Hosts of every wire on one loopback server, at whatever path their address has; for configurations of many providers. */
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request as a host received it. */
interface HostRequest {
  readonly url: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Readonly<Record<string, unknown>>;
}

/** The server. */
export interface PlayedHosts {
  readonly url: string;
  /** Requests in the order in which they came; a test empties it. */
  readonly seen: HostRequest[];
  /** Status of the answers from now on; 200 at first. */
  status: number;
  close(): void;
}

const text = 'The river is high.';

/** Answers by the end of a path. */
const answers: readonly (readonly [RegExp, object])[] = [
  [
    /\/chat\/completions$/,
    {
      ...{ id: 'c1', object: 'chat.completion', created: 1, model: 'played' },
      choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
    },
  ],
  [
    /\/v1\/messages$/,
    {
      ...{ id: 'm1', type: 'message', role: 'assistant', model: 'played', stop_reason: 'end_turn' },
      ...{ stop_sequence: null, content: [{ type: 'text', text }] },
      usage: { input_tokens: 3, output_tokens: 4 },
    },
  ],
  [
    /:generateContent$/,
    {
      candidates: [{ content: { role: 'model', parts: [{ text }] }, finishReason: 'STOP', index: 0 }],
      usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 4, totalTokenCount: 7 },
    },
  ],
  [
    /\/converse$/,
    {
      output: { message: { role: 'assistant', content: [{ text }] } },
      ...{ stopReason: 'end_turn', usage: { inputTokens: 3, outputTokens: 4, totalTokens: 7 } },
      metrics: { latencyMs: 1 },
    },
  ],
  [
    /\/v2\/chat$/,
    {
      ...{ id: 'v1', finish_reason: 'COMPLETE' },
      message: { role: 'assistant', content: [{ type: 'text', text }] },
      usage: { tokens: { input_tokens: 3, output_tokens: 4 } },
    },
  ],
];

/** Starts the server; the caller closes it. */
export async function startPlayedHosts(): Promise<PlayedHosts> {
  const seen: HostRequest[] = [];
  const server = http.createServer((message, response) => {
    const chunks: Buffer[] = [];
    message.on('data', (chunk: Buffer) => chunks.push(chunk));
    message.on('end', () => {
      const { url = '', headers } = message;
      const written = Buffer.concat(chunks).toString();
      seen.push({ url, headers, body: written === '' ? {} : (JSON.parse(written) as HostRequest['body']) });
      const [path = ''] = url.split('?');
      const answer = answers.find(([end]) => end.test(path))?.[1];
      const status = answer === undefined ? 404 : hosts.status;
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(status === 200 ? answer : { error: { message: 'The sluice is jammed.' } }));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const hosts: PlayedHosts = {
    ...{ url: `http://127.0.0.1:${port}`, seen, status: 200 },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
  return hosts;
}
