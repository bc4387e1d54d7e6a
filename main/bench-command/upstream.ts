// The stand-in provider of `weir bench` and `npm run bench`, in a process of its own: fixed answers, as cheap as Node allows.
import http from 'node:http';
import type { AddressInfo } from 'node:net';

/** Chunks of one streamed answer, end marker included. */
export const chunksPerStream = 66;

/** The user whose streams stay open after their first event. */
export const idleUser = 'bench-idle';

const answer = Buffer.from(
  JSON.stringify({
    id: 'chatcmpl-bench-0001',
    object: 'chat.completion',
    created: 1760000000,
    model: 'gpt-4o-mini-2024-07-18',
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: 'A weir holds the water back and measures it. '.repeat(10).trim(),
          refusal: null,
        },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: {
      prompt_tokens: 42,
      completion_tokens: 97,
      total_tokens: 139,
      prompt_tokens_details: { cached_tokens: 0 },
    },
    system_fingerprint: 'fp_bench',
  }),
);

const chunkIntervalMs = 4;

function chunk(index: number): Buffer {
  const base = {
    id: 'chatcmpl-bench-0001',
    object: 'chat.completion.chunk',
    created: 1760000000,
    model: 'gpt-4o-mini-2024-07-18',
    system_fingerprint: 'fp_bench',
  };
  const choice = (delta: object, finish: string | null) => [
    { index: 0, delta, logprobs: null, finish_reason: finish },
  ];
  if (index === 0) return frame({ ...base, choices: choice({ role: 'assistant', content: '' }, null) });
  if (index === chunksPerStream - 3) return frame({ ...base, choices: choice({}, 'stop') });
  if (index === chunksPerStream - 2) {
    return frame({
      ...base,
      choices: [],
      usage: { prompt_tokens: 42, completion_tokens: 62, total_tokens: 104 },
    });
  }
  if (index === chunksPerStream - 1) return Buffer.from('data: [DONE]\n\n');
  return frame({ ...base, choices: choice({ content: ` word${index}` }, null) });
}

function frame(value: object): Buffer {
  return Buffer.from(`data: ${JSON.stringify(value)}\n\n`);
}

/** A stream that holds it goes silent after its first event. */
const idleMarker = `"user":"${idleUser}"`;

/** Serves on a free port of loopback, and prints it. `GET /requests` tells how many requests came so far. */
export function serveUpstream(): void {
  const chunks = Array.from({ length: chunksPerStream }, (_, index) => chunk(index));
  const streams = new Set<{ response: http.ServerResponse; next: number }>();
  let requests = 0;

  // One clock for all streams: each tick writes one chunk to each, so that chunks arrive one by one.
  setInterval(() => {
    for (const stream of streams) {
      stream.response.write(chunks[stream.next]);
      stream.next++;
      if (stream.next < chunksPerStream) continue;
      stream.response.end();
      streams.delete(stream);
    }
  }, chunkIntervalMs);

  const server = http.createServer((request, response) => {
    if (request.method === 'GET' && request.url === '/requests') {
      response.end(String(requests));
      return;
    }
    requests++;
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts);
      // Clients in other languages write a space after the colon.
      if (!body.includes('"stream":true') && !body.includes('"stream": true')) {
        response.writeHead(200, [
          'content-type',
          'application/json',
          'content-length',
          String(answer.length),
        ]);
        response.end(answer);
        return;
      }
      response.writeHead(200, ['content-type', 'text/event-stream']);
      if (body.includes(idleMarker)) {
        response.write(chunks[0]);
        return;
      }
      const stream = { response, next: 0 };
      streams.add(stream);
      response.on('close', () => streams.delete(stream));
    });
  });
  server.keepAliveTimeout = 120_000;
  server.listen(0, '127.0.0.1', () => console.log(`port ${(server.address() as AddressInfo).port}`));
  process.on('disconnect', () => process.exit(0));
}
