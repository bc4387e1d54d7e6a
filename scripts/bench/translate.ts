import { performance } from 'node:perf_hooks';
import { dialects, providerDialects } from '../../adapters/dialects/index.ts';
import { EncodeReport } from '../../core/dialects/canonical/chat-codec.ts';
import type { DialectName, EndpointId } from '../../core/dialects/endpoint.ts';
import { parseJson } from '../../core/base/json.ts';
import { measured, median } from './cpu.ts';
import { load } from '../../main/bench-command/load.ts';
import { removeFolder, startUpstream, startWeir } from './subject.ts';
import { chunksPerStream } from '../../main/bench-command/upstream.ts';
import { messagesRequestBytes, requestBytes } from './workload.ts';

const connections = 64;
const warmStreams = 640;

/** Cost of translation, medians over the rounds. */
interface TranslationFigures {
  /** A Messages client, a host that speaks OpenAI's chat. */
  readonly translated_us_per_chunk: number;
  /** A chat client, the same host. */
  readonly passed_us_per_chunk: number;
  readonly ratio: number;
  /** Longest time for which decoding and encoding one request of 100,000 tokens holds the event loop. */
  readonly encodings: readonly { readonly pair: string; readonly longest_ms: number }[];
}

/** CPU per chunk of translated streams beside passed-on ones, and how long a large request holds the event loop. */
export async function measureTranslation(quick: boolean): Promise<TranslationFigures> {
  const rounds = quick ? 3 : 7;
  const streams = quick ? 320 : 768;
  const upstream = await startUpstream();
  const weir = await startWeir({ upstreamPort: upstream.port });
  const translated: number[] = [];
  const passed: number[] = [];
  try {
    const messages = messagesRequestBytes(weir.port);
    const chat = requestBytes(weir.port, true);
    for (const request of [messages, chat]) await load(weir.port, request, warmStreams, connections);
    for (let round = 0; round < rounds; round++) {
      for (const [request, costs] of [
        [messages, translated],
        [chat, passed],
      ] as const) {
        const one = await measured(weir, () => load(weir.port, request, streams, connections));
        costs.push(one.cpuMicroseconds / (one.completed * chunksPerStream));
      }
    }
  } finally {
    await weir.stop();
    await upstream.stop();
    await removeFolder(weir.folder);
  }
  const [perTranslated, perPassed] = [median(translated), median(passed)];
  return {
    translated_us_per_chunk: perTranslated,
    passed_us_per_chunk: perPassed,
    ratio: perTranslated / perPassed,
    encodings: measureEncodings(),
  };
}

const hosts: readonly DialectName[] = [
  'openai-chat',
  'openai-responses',
  'anthropic-messages',
  'google-gemini',
  'bedrock-converse',
  'cohere-v2',
];

/** A conversation of 200 turns with about 100,000 tokens (four characters each) in the wires of both kinds of client. */
const turn = 'The flow over a weir grows with the head to the power of one and a half. '
  .repeat(27)
  .slice(0, 2000);
const messages = Array.from({ length: 200 }, (_, index) => ({
  role: index % 2 === 0 ? 'user' : 'assistant',
  content: turn,
}));
const clients: readonly { dialect: DialectName; endpoint: EndpointId; text: string }[] = [
  {
    dialect: 'openai-chat',
    endpoint: 'chat.completions',
    text: JSON.stringify({ model: 'm', messages }),
  },
  {
    dialect: 'anthropic-messages',
    endpoint: 'messages',
    text: JSON.stringify({ model: 'm', max_tokens: 100, messages }),
  },
];

/** All work between the body's last byte and the provider's first is synchronous: its time blocks the event loop. */
function measureEncodings(): TranslationFigures['encodings'] {
  const found: { pair: string; longest_ms: number }[] = [];
  for (const client of clients) {
    for (const host of hosts) {
      if (host === client.dialect) continue;
      const times: number[] = [];
      // The first runs pay for the compiler.
      for (let run = 0; run < 20; run++) {
        const start = performance.now();
        encode(client, host);
        if (run >= 5) times.push(performance.now() - start);
      }
      found.push({ pair: `${client.dialect} → ${host}`, longest_ms: Math.max(...times) });
    }
  }
  return found;
}

function encode(client: (typeof clients)[number], host: DialectName): void {
  const codec = dialects.get(client.dialect)?.chat;
  const facts = {
    provider: 'bench',
    model: 'm',
    quirks: {},
    usageInStream: 'on_request' as const,
    settings: {},
  };
  const plan = providerDialects.get(host)?.plan({
    endpoint: client.endpoint,
    spoken: client.dialect,
    method: 'POST',
    path: '/',
    query: '',
    stream: false,
    host: facts,
  });
  if (codec === undefined || plan?.kind !== 'chat')
    throw new Error(`${client.dialect} → ${host} is no pair.`);
  const body = parseJson(client.text) as { [name: string]: unknown };
  const request = codec.decodeRequest({
    body,
    model: 'm',
    stream: false,
    query: '',
    header: () => undefined,
  });
  Buffer.from(plan.codec.encodeRequest(request, facts, new EncodeReport()).body);
}
