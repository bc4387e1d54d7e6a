import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { asObject, parseObject, type JsonObject, objectsOf } from '../../adapters/dialects/json-reading.ts';
import type { SeenRequest } from '../kit/fake-providers/fake-wire.ts';

/** Numbers that 32 bits hold exactly: what an SDK unpacks must be what the provider said. */
export const vectorOf = (text: string): readonly number[] => [text.length, 0.5, -0.25];

/** Embeddings, rankings and counts of tokens as Google, Cohere and Bedrock serve them. */
interface FakeVectors {
  readonly url: string;
  readonly port: number;
  readonly requests: readonly SeenRequest[];
}

/** Starts the server; it ends with the test. */
export async function startFakeVectors(t: TestContext): Promise<FakeVectors> {
  const requests: SeenRequest[] = [];
  const server = http.createServer((message, response) => {
    const chunks: Buffer[] = [];
    message.on('data', (chunk: Buffer) => chunks.push(chunk));
    message.on('end', () => {
      const bytes = Buffer.concat(chunks);
      const body = parseObject(bytes.toString()) ?? {};
      const { method = '', url = '' } = message;
      const headers = Object.fromEntries(
        Object.entries(message.headers).map(([name, value]) => [name, value?.toString()]),
      );
      requests.push({ method, url, headers, bytes, body });
      const answer = answerTo(decodeURIComponent(url), body);
      response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(answer ?? { message: `No ${url} here.` }));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port, requests };
}

function answerTo(path: string, body: JsonObject): JsonObject | undefined {
  if (path.endsWith(':batchEmbedContents')) {
    return {
      embeddings: objectsOf(body.requests).map(({ content }) => ({ values: vectorOfContent(content) })),
    };
  }
  if (path.endsWith(':embedContent')) return { embedding: { values: vectorOfContent(body.content) } };
  if (path.endsWith(':countTokens')) return { totalTokens: 12 };
  if (/^\/model\/.+\/count-tokens$/.test(path)) return { inputTokens: 12 };
  if (path === '/v2/embed') {
    return {
      id: 'vectors-1',
      embeddings: vectorsByType(textsOf(body.texts), textsOf(body.embedding_types)),
      texts: body.texts,
      meta: { api_version: { version: '2' }, billed_units: { input_tokens: 7 } },
    };
  }
  if (path === '/v2/rerank') {
    return {
      id: 'ranking-1',
      results: [
        { index: 1, relevance_score: 0.9 },
        { index: 0, relevance_score: 0.1 },
      ],
      meta: { api_version: { version: '2' }, billed_units: { search_units: 1 } },
    };
  }
  if (path === '/model/cohere.embed-multilingual-v3/invoke') {
    return { id: 'vectors-2', embeddings: vectorsByType(textsOf(body.texts), ['float']) };
  }
  if (path === '/model/amazon.titan-embed-text-v2:0/invoke') {
    return { embedding: vectorOf(String(body.inputText)), inputTextTokenCount: 3 };
  }
  return undefined;
}

function vectorsByType(texts: readonly string[], types: readonly string[]): JsonObject {
  const vectors = texts.map(vectorOf);
  const packed = vectors.map((vector) => Buffer.from(new Float32Array(vector).buffer).toString('base64'));
  return Object.fromEntries(types.map((type) => [type, type === 'base64' ? packed : vectors]));
}

function vectorOfContent(content: unknown): readonly number[] {
  return vectorOf(
    objectsOf(asObject(content)?.parts)
      .map(({ text }) => String(text))
      .join(''),
  );
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map(String) : [];
}
