import { parseArgs } from 'node:util';
import { listWords, quoted } from '../../base/did-you-mean.ts';

/** Peer gateways that `weir bench` can start. */
const peerNames = ['portkey', 'litellm', 'bifrost', 'agentgateway'] as const;
export type PeerName = (typeof peerNames)[number];

/** `weir bench`. */
export interface BenchRun {
  readonly name: 'bench';
  readonly action: 'run';
  /** The gateway's configuration; undefined for the default one. */
  readonly config: string | undefined;
  /** Seconds of load for each gateway and measure. */
  readonly seconds: number;
  /** Requests per second of the comparison at one rate. */
  readonly rate: number;
  readonly connections: number;
  readonly streams: boolean;
  /** Folder for the results; undefined: only the terminal. */
  readonly out: string | undefined;
  /** Key of the requests; undefined for the owner key of the bench. */
  readonly apiKey: string | undefined;
  /** Providers of the configuration whose address becomes that of the stand-in. */
  readonly providers: readonly string[];
  /** Further header lines of each request to Weir. */
  readonly headers: readonly string[];
  readonly keepStorage: boolean;
  /** Undefined: those that are installed. */
  readonly peers: readonly PeerName[] | undefined;
}

/** A process of the bench: the stand-in provider, or the bare proxy in front of it. */
interface BenchPart {
  readonly name: 'bench';
  readonly action: 'upstream' | 'bare';
  readonly upstreamPort: number;
}

export type BenchCommand = BenchRun | BenchPart;

const bounds = { seconds: [1, 120], rate: [1, 100_000], connections: [1, 1024] } as const;
const defaults = { seconds: 4, rate: 1000, connections: 32 } as const;
const mostHeaders = 32;
const slugPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

const benchUsage = `weir bench: cost of your configuration on this machine, beside a bare proxy and other gateways

  weir bench [--config FILE] [--seconds N] [--rate N] [--connections N] [--no-streams] [--out DIR] [--api-key KEY]
             [--provider SLUG]... [--header 'NAME: VALUE']... [--keep-storage] [--peers none|NAME,...]

  Starts a stand-in provider with fixed answers, a bare proxy (Node's http and undici: the yardstick), the gateway with
  your configuration, and the other gateways that are installed, all on loopback; sends chat requests to each in turns,
  prints CPU per request, latency, requests per second, CPU per streamed chunk and memory, and ends all of them.

  --config FILE       default: gateway.config.yaml or WEIR_CONFIG. It is not changed: a copy with the provider
                      "weir-bench" is written beside it, and removed at the end
  --seconds N         load for each gateway and measure (${defaults.seconds}; ${bounds.seconds.join(' to ')}); the default takes about
                      two minutes, and one more for each other gateway
  --rate N            requests per second of the comparison at one rate (${defaults.rate}; at most ${bounds.rate[1]})
  --connections N     connections at the same time (${defaults.connections}; at most ${bounds.connections[1]})
  --no-streams        leaves streamed answers out
  --out DIR           writes bench.json, bench.svg and bench.md there
  --api-key KEY       key of the requests, such as a service key of the configuration; default: the owner key
  --provider SLUG     requests go to this provider of your configuration, with the stand-in's address instead of its
                      own; the first one is named in the requests
  --header LINE       sent with each request, such as 'x-service-config: main'; give every provider of that config
                      as --provider, so that none is called. The first requests verify that the stand-in answers
  --keep-storage      uses the stores of your configuration; they get the rows of the bench. By default, servers and
                      folders in "storage:" and the collector in "telemetry:" are left out: embedded stores in a
                      temporary folder take their place
  --peers LIST        ${listWords(peerNames, 'or')}, with commas between; "none" for none;
                      default: all that are found (docs/performance.md)

  weir bench --config gateway.config.yaml --out bench-results
  weir bench --provider openai --header 'x-service-config: main' --rate 200 --peers none

  Ends with 1 if the gateway does not start or refuses a request of the bench.`;

function readBenchArguments(
  args: readonly string[],
  { config }: { readonly config: string | undefined },
): BenchCommand {
  const { values } = parseArgs({
    args: [...args],
    options: {
      config: { type: 'string' },
      seconds: { type: 'string' },
      rate: { type: 'string' },
      connections: { type: 'string' },
      streams: { type: 'boolean' },
      'no-streams': { type: 'boolean' },
      out: { type: 'string' },
      'api-key': { type: 'string' },
      provider: { type: 'string', multiple: true },
      header: { type: 'string', multiple: true },
      'keep-storage': { type: 'boolean' },
      peers: { type: 'string' },
      // Not documented: the processes that the command starts.
      part: { type: 'string' },
      upstream: { type: 'string' },
    },
  });
  if (values.part === 'upstream' || values.part === 'bare')
    return { name: 'bench', action: values.part, upstreamPort: Number(values.upstream ?? 0) };
  if (values.part !== undefined || values.upstream !== undefined)
    throw new Error('--part and --upstream are for processes that weir bench starts.');
  if (values.streams === true && values['no-streams'] === true)
    throw new Error('--streams and --no-streams exclude each other.');
  const number = (name: keyof typeof bounds): number => numberOf(name, values[name]);
  const { out, 'api-key': apiKey } = values;
  if (out === '') throw new Error('--out needs a folder.');
  if (apiKey !== undefined && !/^[\x21-\x7e]{1,4096}$/.test(apiKey))
    throw new Error('--api-key is empty, or has characters that no header can carry.');
  return {
    name: 'bench',
    action: 'run',
    config: values.config ?? config,
    seconds: number('seconds'),
    rate: number('rate'),
    connections: number('connections'),
    streams: values['no-streams'] !== true,
    out,
    apiKey,
    providers: (values.provider ?? []).map(slugOf),
    headers: headersOf(values.header ?? []),
    keepStorage: values['keep-storage'] === true,
    peers: peersOf(values.peers),
  };
}

function numberOf(name: keyof typeof bounds, text: string | undefined): number {
  if (text === undefined) return defaults[name];
  const [least, most] = bounds[name];
  const value = Number(text);
  if (!/^\d{1,9}$/.test(text) || value < least || value > most)
    throw new Error(`--${name} is ${quoted(text)}; give a whole number from ${least} to ${most}.`);
  return value;
}

function slugOf(text: string): string {
  if (!slugPattern.test(text))
    throw new Error(`--provider is ${quoted(text)}; give the slug of a provider, such as "openai".`);
  return text;
}

/** Never quotes a line: it may hold a credential. */
function headersOf(lines: readonly string[]): readonly string[] {
  if (lines.length > mostHeaders) throw new Error(`--header may be given ${mostHeaders} times at most.`);
  for (const line of lines)
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[\x20-\x7e\x80-\xff]{0,8000}$/.test(line))
      throw new Error("--header needs a name and a value: --header 'x-service-config: main'.");
  return lines;
}

function peersOf(text: string | undefined): readonly PeerName[] | undefined {
  if (text === undefined) return undefined;
  if (text === 'none') return [];
  return [...new Set(text.split(','))].map((word) => {
    const known = peerNames.find((name) => name === word);
    if (known === undefined)
      throw new Error(
        `--peers has ${quoted(word)}; give ${listWords(peerNames, 'or')}, with commas between, or "none".`,
      );
    return known;
  });
}

/** The help of `bench`, and the reader of its arguments, which throws the reason for unclear input. */
export const benchArguments = { usage: benchUsage, read: readBenchArguments };
