import type { FinishReason } from '../../core/dialects/canonical/chat-answer.ts';
import type { DialectName } from '../../core/dialects/endpoint.ts';
import { faultMessage, type Fault } from '../kit/fake-providers/fake-providers.ts';
import type { HeardCall, HeardUsage } from '../../main/testing/heard.ts';

/** Something of the client's request that the provider must have received, unless it is named as dropped. */
interface Sent {
  /** Stands somewhere in the names or texts of the provider's request. */
  readonly marker: string;
  /** How `x-service-dropped` may name it where the wire cannot say it. Default: it must arrive. */
  readonly dropped?: RegExp;
}

/** What must be heard of a good answer, whoever gave it. Absent members: empty. */
export interface Expected {
  readonly text?: string;
  readonly reasoning?: string;
  /** The proof of the thinking, where both wires have a place for it. */
  readonly signature?: string;
  readonly calls?: readonly Omit<HeardCall, 'id'>[];
  readonly refusal?: string;
  readonly source?: string;
  /** The words that rest on the source, where the client's wire says which. */
  readonly cited?: string;
  readonly finish: FinishReason;
  readonly usage: HeardUsage;
}

/** What must be heard of a bad one. */
export interface ExpectedFailure {
  /** Status when nothing of a stream has been sent. */
  readonly status: number;
  /** Within the error's message. */
  readonly message: RegExp;
  /** The error comes within a stream that began with status 200. */
  readonly inStream?: true;
}

/** One conversation that every client has with every provider. */
export interface Scenario {
  readonly name: string;
  /** `requests/<client>/<request>.json`. Default: its name. */
  readonly request?: string;
  /** `tests/fixtures/wire/<dialect>/grid-<answer>.json`. Default: its name. */
  readonly answer?: string;
  readonly fault?: Fault;
  /** Default: both. */
  readonly only?: 'streamed' | 'whole';
  /** Wires that cannot answer so. */
  readonly without?: readonly DialectName[];
  readonly sent: readonly Sent[];
  readonly expected: Expected | ExpectedFailure;
}

/** What every provider of the grid signs its thoughts with. */
export const signature = 'EqQBCkgIChABGAIqQGdyaWQtc2lnbmF0dXJlLW9mLXRoZS10aGlua2luZy1ibG9jay0wMQ==';
const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
const pdf = 'JVBERi0xLjQKMSAwIG9iajw8L1R5cGUvQ2F0YWxvZz4+ZW5kb2JqCnRyYWlsZXI8PC9Sb290IDEgMCBSPj4KJSVFT0YK';

function usage(prompt: number, completion: number, cached = 0, reasoning = 0): HeardUsage {
  return { prompt, completion, cached, reasoning };
}

function sent(...markers: readonly string[]): readonly Sent[] {
  return markers.map((marker) => ({ marker }));
}

const good: readonly Scenario[] = [
  {
    name: 'text',
    sent: sent('Name a river.'),
    expected: {
      text: 'The Danube flows through Vienna, Budapest and Belgrade. 🌊\n"Ünïcode" \\ stays.',
      finish: 'stop',
      usage: usage(21, 17),
    },
  },
  {
    name: 'history',
    sent: sent(
      'You are a terse river guide.',
      'Which river flows through Vienna?',
      'The Danube.',
      'And through Cologne?',
    ),
    expected: { text: 'The Rhine.', finish: 'stop', usage: usage(48, 4) },
  },
  {
    name: 'tool-call',
    sent: [
      ...sent('How warm is it in Lübeck?', 'get_weather', 'The weather of a city.', 'Name of the city'),
      { marker: 'fahrenheit' },
    ],
    expected: {
      calls: [{ name: 'get_weather', arguments: '{"city":"Lübeck","unit":"celsius"}' }],
      finish: 'tool-calls',
      usage: usage(91, 23),
    },
  },
  {
    name: 'parallel-tools',
    sent: sent('Weather in Lübeck and tide in Travemünde?', 'get_weather', 'get_tide', 'harbour'),
    expected: {
      text: 'I will look up both.',
      calls: [
        { name: 'get_weather', arguments: '{"city":"Lübeck"}' },
        { name: 'get_tide', arguments: '{"harbour":"Travemünde","days":[1,2]}' },
      ],
      finish: 'tool-calls',
      usage: usage(131, 58),
    },
  },
  {
    name: 'tool-results',
    sent: sent('I will look up both.', 'get_tide', 'Lübeck', 'Travemünde', '14 °C', '16:40'),
    expected: {
      text: 'Lübeck has 14 °C; the tide is high at 16:40.',
      finish: 'stop',
      usage: usage(212, 19),
    },
  },
  {
    name: 'tool-no-arguments',
    sent: sent('Which harbours do you know?', 'list_harbours', 'All harbours that are known.'),
    expected: {
      calls: [{ name: 'list_harbours', arguments: '{}' }],
      finish: 'tool-calls',
      usage: usage(77, 11),
    },
  },
  {
    name: 'reasoning',
    sent: sent('What is 3 × 17 − 9?'),
    expected: {
      reasoning: '3 × 17 is 51; minus 9 is 42.',
      signature,
      text: 'The answer is 42.',
      finish: 'stop',
      usage: usage(33, 45, 0, 30),
    },
  },
  {
    name: 'reasoning-tools',
    sent: sent('How strong is the wind in Kiel?', 'get_weather'),
    expected: {
      reasoning: 'Kiel is a city; I need its weather.',
      text: 'Let me look at the wind.',
      calls: [{ name: 'get_weather', arguments: '{"city":"Kiel"}' }],
      finish: 'tool-calls',
      usage: usage(95, 60, 0, 24),
    },
  },
  {
    name: 'reasoning-history',
    sent: [
      ...sent('How strong is the wind in Kiel?', 'Let me look at the wind.', 'Kiel', '42 knots'),
      { marker: 'Kiel is a city; I need its weather.', dropped: /reasoning|thinking|thought|content/ },
      { marker: signature, dropped: /reasoning|thinking|signature|content/i },
    ],
    expected: { text: 'The wind blows with 42 knots.', finish: 'stop', usage: usage(170, 9) },
  },
  {
    name: 'image',
    sent: [...sent('What is on this picture?'), { marker: png, dropped: /messages|input|contents/ }],
    expected: { text: 'A single pixel.', finish: 'stop', usage: usage(275, 5) },
  },
  {
    name: 'pdf',
    sent: [
      ...sent('How many sluices does the report count?'),
      { marker: pdf, dropped: /messages|input|contents/ },
    ],
    expected: { text: 'The report counts 12 sluices.', finish: 'stop', usage: usage(1310, 8) },
  },
  {
    name: 'structured',
    sent: sent('The Danube as JSON.', 'length_km'),
    expected: { text: '{"river":"Danube","length_km":2850}', finish: 'stop', usage: usage(66, 14) },
  },
  {
    name: 'citations',
    sent: sent('How long is the Danube?'),
    expected: {
      text: 'The Danube is 2,850 km long. It ends in the Black Sea.',
      source: 'https://rivers.example/danube',
      cited: 'The Danube is 2,850 km long.',
      finish: 'stop',
      usage: usage(350, 16),
    },
  },
  {
    name: 'refusal',
    without: ['anthropic-messages', 'google-gemini', 'bedrock-converse', 'cohere-v2'],
    sent: sent('How do I flood a village?'),
    expected: { refusal: 'I cannot help with flooding a village.', finish: 'stop', usage: usage(30, 9) },
  },
  {
    name: 'content-filter',
    without: ['cohere-v2'],
    sent: sent('How do I open a sluice'),
    expected: { text: 'To open the sluice', finish: 'content-filter', usage: usage(30, 4) },
  },
  {
    name: 'max-tokens',
    sent: sent('Where does the Danube rise?'),
    expected: { text: 'The Danube rises in the Black', finish: 'length', usage: usage(19, 6) },
  },
  {
    name: 'usage-details',
    sent: sent('A very long text about rivers', 'Say that it is cached.'),
    expected: { text: 'Cached well.', finish: 'stop', usage: usage(2048, 300, 1920, 256) },
  },
  {
    name: 'provider-tool',
    without: ['openai-chat', 'bedrock-converse', 'cohere-v2'],
    sent: [...sent('How high is the Elbe today?')],
    expected: { text: 'The Elbe stands at 4.1 m today.', finish: 'stop', usage: usage(420, 33) },
  },
];

const jammed = new RegExp(faultMessage.replaceAll('.', '\\.'));

function failing(name: string, fault: Fault, expected: ExpectedFailure, only?: Scenario['only']): Scenario {
  return {
    name,
    request: 'text',
    answer: 'text',
    fault,
    expected,
    sent: sent('Name a river.'),
    ...(only === undefined ? {} : { only }),
  };
}

const bad: readonly Scenario[] = [
  ...[400, 401, 500, 529].map((status) =>
    failing(`error-${status}`, { kind: 'error', status }, { status, message: jammed }),
  ),
  failing('error-429', { kind: 'error', status: 429, retryAfter: '7' }, { status: 429, message: jammed }),
  failing('error-html', { kind: 'html', status: 502 }, { status: 502, message: /Bad Gateway/ }),
  failing('error-empty', { kind: 'empty', status: 500 }, { status: 500, message: /500/ }),
  failing('error-truncated', { kind: 'truncated' }, { status: 502, message: /\w/ }, 'whole'),
  failing(
    'error-event',
    { kind: 'error-event' },
    { status: 200, message: jammed, inStream: true },
    'streamed',
  ),
  failing('error-cut', { kind: 'cut' }, { status: 200, message: /\w/, inStream: true }, 'streamed'),
  failing('error-no-end', { kind: 'no-end' }, { status: 200, message: /\w/, inStream: true }, 'streamed'),
];

/** Every scenario of the grid. */
export const scenarios: readonly Scenario[] = [...good, ...bad];
