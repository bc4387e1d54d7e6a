import type { AnyPlugin } from '../../core/pipeline/plugin.ts';
import {
  type Asking,
  type ProviderAnswer,
  type Reply,
  type TestGateway,
  type Wire,
  wires,
} from '../testing/contract.ts';
import { inspectGateway } from '../testing/gateway.ts';
import { cutsOf } from '../testing/index.ts';

/** Plugin under test, and its texts. */
interface Matrix {
  readonly definition: AnyPlugin;
  readonly file: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly prompt: string | undefined;
  readonly answer: string | undefined;
}

const usualAnswer = 'The quick brown fox; 42 🌊 "ends" here.';
/** Letters at the start of a text in which cuts are tried. */
const mostLetters = 200;

/**
 * Runs a plugin in gateways, row by row, and prints the result of each. The rows test rules that hold for any plugin: no
 * hook fails, every answer keeps to the client's wire, one row in the log each, and the same result however a stream is
 * cut. The exit code: 1 when a row failed.
 */
export async function checkMatrix(matrix: Matrix, print: (line: string) => void): Promise<number> {
  const outside: string[] = [];
  const note = (thrown: unknown): void =>
    void outside.push(thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown));
  process.on('uncaughtException', note).on('unhandledRejection', note);
  const rows = new Rows(print, outside);
  try {
    await inGateway(matrix, 'here', (gateway) => everyWire(matrix, gateway, rows));
    await inGateway(matrix, 'away', async (gateway) => {
      for (const wire of wires)
        await rows.run('stores away', `${wire}, whole and streamed`, gateway, async (look) => {
          for (const stream of [false, true]) await look({ wire, stream, prompt: matrix.prompt });
        });
    });
  } finally {
    process.off('uncaughtException', note).off('unhandledRejection', note);
  }
  return rows.summary(matrix.definition.name);
}

async function inGateway(
  { file, options }: Matrix,
  stores: 'here' | 'away',
  use: (gateway: TestGateway) => Promise<void>,
): Promise<void> {
  const { gateway } = await inspectGateway({ plugin: file, options, stores });
  try {
    await use(gateway);
  } finally {
    await gateway.close();
  }
}

async function everyWire(matrix: Matrix, gateway: TestGateway, rows: Rows): Promise<void> {
  const { prompt, answer = usualAnswer } = matrix;
  const { stream: streams } = matrix.definition.capabilities ?? {};
  for (const wire of wires) {
    const asking = { wire, prompt };
    let whole: Reply | undefined;
    await rows.run(wire, 'whole', gateway, async (look) => {
      whole = await look({ ...asking, answer });
    });
    const cuts = cutsOf([...answer].slice(0, mostLetters).join(''));
    await rows.run(wire, `streamed, ${cuts.length} cuts`, gateway, async (look) => {
      let first: Reply | undefined;
      for (const pieces of cuts) {
        const reply = await look({ ...asking, stream: true, answer: pieces });
        first ??= reply;
        same(reply, first, `cut as ${shown(pieces)}`);
      }
      // A plugin that observes or ignores streams does not change them.
      if (first !== undefined && whole !== undefined && answer.length <= mostLetters && mayChange(streams))
        same(first, whole, 'streamed');
    });
    await rows.run(wire, 'streamed, byte by byte', gateway, async (look) => {
      const whole = await look({ ...asking, stream: true, answer: { text: answer } });
      same(
        await look({ ...asking, stream: true, answer: { text: answer, chunkBytes: 1 } }),
        whole,
        'byte by byte',
      );
    });
    const provider: Wire = wire === 'messages' ? 'chat' : 'messages';
    await rows.run(wire, `translated, provider speaks ${provider}`, gateway, async (look) => {
      for (const stream of [false, true]) await look({ ...asking, provider, stream, answer });
    });
    if (wire === 'completions') continue;
    const more: ProviderAnswer = {
      text: answer,
      reasoning: answer,
      calls: [{ name: 'look_up', arguments: ['{"text": "', answer.replaceAll('"', ''), '"}'] }],
    };
    await rows.run(wire, 'thoughts and a tool call', gateway, async (look) => {
      for (const stream of [false, true]) await look({ ...asking, stream, answer: more });
    });
    await rows.run(wire, 'the provider fails', gateway, async (look) => {
      for (const stream of [false, true]) await look({ ...asking, stream, answer: { status: 500 } });
    });
  }
  await rows.run('reload', 'the next generation serves', gateway, async (look) => {
    for (let round = 0; round < 3; round += 1) {
      const before = look({ prompt, stream: true, answer: [...answer] });
      // Other options make another generation; they differ only in their bound.
      await gateway.reload({ options: { ...matrix.options, timeout_ms: 20_000 + round } });
      same(await look({ prompt, stream: true, answer: [...answer] }), await before, 'after the reload');
    }
  });
}

function mayChange(stream: string | undefined): boolean {
  return stream === 'window' || stream === 'hold';
}

const shown = (pieces: readonly string[]): string =>
  pieces.length > 2 ? 'single letters' : pieces.map((piece) => JSON.stringify(piece)).join(' + ');

/** Two answers must have the same result: the same text, or a refusal. */
function same(reply: Reply, other: Reply, how: string): void {
  if (other.error !== undefined || reply.error !== undefined) {
    if (reply.error === other.error) return;
    throw new Error(`${how} the answer is ${outcome(reply)}, otherwise ${outcome(other)}`);
  }
  if (reply.text !== other.text)
    throw new Error(
      `${how} the text is ${JSON.stringify(reply.text)}, otherwise ${JSON.stringify(other.text)}`,
    );
}

function outcome({ error }: Reply): string {
  return error === undefined ? 'let through' : `the error ${JSON.stringify(error)}`;
}

type Look = (asking: Asking) => Promise<Reply>;

/** Rows that have been tested. */
class Rows {
  readonly #print: (line: string) => void;
  /** Errors that were thrown outside of every call. */
  readonly #outside: string[];
  #done = 0;
  #failed = 0;
  #asked = 0;

  constructor(print: (line: string) => void, outside: string[]) {
    this.#print = print;
    this.#outside = outside;
  }

  async run(
    part: string,
    what: string,
    gateway: TestGateway,
    work: (look: Look) => Promise<void>,
  ): Promise<void> {
    const fault = await this.#faultOf(gateway, work);
    this.#done += 1;
    if (fault !== undefined) this.#failed += 1;
    this.#print(
      `${fault === undefined ? 'ok  ' : 'FAIL'} ${part.padEnd(12)} ${what}${fault === undefined ? '' : `: ${fault}`}`,
    );
  }

  summary(name: string): number {
    const counts = `${this.#done} rows, ${this.#asked} requests`;
    const result = this.#failed === 0 ? 'nothing wrong' : `${this.#failed} rows failed`;
    this.#print(`${name}: ${counts}, ${result}.`);
    return this.#failed === 0 ? 0 : 1;
  }

  async #faultOf(gateway: TestGateway, work: (look: Look) => Promise<void>): Promise<string | undefined> {
    const errors = 'weir_plugin_errors_total';
    const before = await gateway.metric(errors);
    const logged = gateway.log.length;
    try {
      await work(async (asking) => {
        this.#asked += 1;
        const reply = await gateway.ask(asking);
        if (reply.problems.length > 0)
          throw new Error(
            `what ${asking.wire ?? 'chat'} clients get breaks the wire: ${reply.problems.join('; ')}`,
          );
        return reply;
      });
      if ((await gateway.metric(errors)) > before) throw new Error('a hook failed');
      const [thrown] = this.#outside.splice(0);
      return thrown === undefined ? undefined : `thrown outside of every hook: ${thrown}`;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      // The log has the reason and its place in the plugin's file.
      const reason = gateway.log
        .slice(logged)
        .find((line) => / plugin=/.test(line) && /\b(WARN|ERROR)\b/i.test(line));
      return reason === undefined ? message : `${message} (${reason})`;
    }
  }
}
