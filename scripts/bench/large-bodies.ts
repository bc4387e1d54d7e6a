import { setTimeout as pause } from 'node:timers/promises';
import { benchConfig, removeFolder, startBare, startUpstream, startWeir, type Subject } from './subject.ts';
import { median } from './cpu.ts';
import { benchKey } from './workload.ts';

/** Bytes of each body, and how many come at once in the second part. */
const bodyBytes = 27_000_000;
const atOnce = 12;

/** Bytes of the bodies whose CPU is compared with the bare proxy's, requests of a round, and rounds. */
const comparedBytes = 10_000_000;
const roundRequests = 8;
const rounds = 5;
/** What follows an answer (the row of the log) belongs to the request. */
const settleMs = 1500;

/** CPU of requests with a body of 10 MB, milliseconds, medians over the rounds. */
interface LargeBodyCost {
  readonly name: string;
  readonly bare_ms: number;
  /** Chain of authentication, provider and a logger without bodies. */
  readonly unread_ms: number;
  /** The first chain of the bench: a plugin looks at the request, and the bodies are logged. */
  readonly read_ms: number;
  /** Longest turn of the event loop in it, in processor time of the thread. */
  readonly worked_ms: number;
}

/** CPU of a 10 MB request through the gateway beside the bare proxy, in turns. */
export async function measureLargeBodyCost(): Promise<readonly LargeBodyCost[]> {
  const upstream = await startUpstream();
  const bare = await startBare(upstream.port);
  const config = benchConfig(upstream.port)
    .replace(/ +- (request-parameters|rate-limit).*\n/g, '')
    .replace('logger: { bodies: true }', 'logger');
  const unread = await startWeir({ upstreamPort: upstream.port, config });
  const read = await startWeir({ upstreamPort: upstream.port, turnProbe: true });
  try {
    const costs: LargeBodyCost[] = [];
    for (const { name, body } of [
      { name: 'many messages', body: withMessages(comparedBytes) },
      { name: 'four images', body: withImages(comparedBytes) },
    ]) {
      const bytes = Buffer.from(JSON.stringify(body));
      const roundOf = async (subject: Subject): Promise<number> => {
        const before = await subject.cpu();
        for (let sent = 0; sent < roundRequests; sent += 1) await sendWell(subject, bytes);
        await pause(settleMs);
        return ((await subject.cpu()) - before) / roundRequests / 1000;
      };
      const subjects = [bare, unread, read];
      // Code is compiled by then.
      for (const subject of subjects) await roundOf(subject);
      await turns(read);
      const rows: number[][] = [];
      for (let round = 0; round < rounds; round += 1) {
        const row: number[] = [];
        for (const subject of subjects) row.push(await roundOf(subject));
        rows.push(row);
      }
      const [bareMs = NaN, unreadMs = NaN, readMs = NaN] = subjects.map((_, place) =>
        median(rows.map((row) => row[place] ?? NaN)),
      );
      const { workedMs } = await turns(read);
      costs.push({ name, bare_ms: bareMs, unread_ms: unreadMs, read_ms: readMs, worked_ms: workedMs });
    }
    return costs;
  } finally {
    for (const subject of [unread, read, bare, upstream]) await subject.stop();
    for (const { folder } of [unread, read]) await removeFolder(folder);
  }
}

async function sendWell(subject: Subject, body: Buffer<ArrayBuffer>): Promise<void> {
  const status = await send(subject, '/v1/chat/completions', body);
  if (status !== 200) throw new Error(`${subject.name} answers a large body with ${status}.`);
}

/** Cost of one client's large bodies for all others. */
interface LargeBodyFigures {
  readonly bodies: readonly {
    readonly name: string;
    readonly status: number;
    /** Longest time without a turn of the event loop while the request was served. */
    readonly longest_ms: number;
    /** The same in processor time of the thread: the block on an otherwise idle machine. */
    readonly worked_ms: number;
  }[];
  readonly at_once: {
    readonly requests: number;
    readonly answered: number;
    /** Refused with 503. */
    readonly refused: number;
    readonly longest_ms: number;
    readonly worked_ms: number;
    readonly peak_mib: number;
  };
}

/** The longest block of the event loop while one body of 27 MB is served, by kinds, and while twelve come at once. */
export async function measureLargeBodies(): Promise<LargeBodyFigures> {
  const upstream = await startUpstream();
  const weir = await startWeir({ upstreamPort: upstream.port, turnProbe: true });
  try {
    const bodies: { name: string; status: number; longest_ms: number; worked_ms: number }[] = [];
    for (const { name, path, body } of largeBodies()) {
      const bytes = Buffer.from(JSON.stringify(body()));
      await send(weir, path, Buffer.from('{"model":"m","messages":[{"role":"user","content":"x"}]}'));
      await turns(weir);
      const status = await send(weir, path, bytes);
      await pause(100);
      const { longestMs, workedMs } = await turns(weir);
      bodies.push({ name, status, longest_ms: longestMs, worked_ms: workedMs });
    }
    const bytes = Buffer.from(JSON.stringify(withMessages()));
    await turns(weir);
    const statuses = await Promise.all(
      Array.from({ length: atOnce }, () => send(weir, '/v1/chat/completions', bytes)),
    );
    await pause(100);
    const { longestMs, workedMs, peakBytes } = await turns(weir);
    const count = (status: number): number => statuses.filter((one) => one === status).length;
    return {
      bodies,
      at_once: {
        requests: atOnce,
        answered: count(200),
        refused: count(503),
        longest_ms: longestMs,
        worked_ms: workedMs,
        peak_mib: peakBytes / 2 ** 20,
      },
    };
  } finally {
    await weir.stop();
    await upstream.stop();
    await removeFolder(weir.folder);
  }
}

function largeBodies(): { name: string; path: string; body: () => object }[] {
  const chat = '/v1/chat/completions';
  return [
    { name: 'four images', path: chat, body: withImages },
    { name: 'many messages', path: chat, body: withMessages },
    { name: 'many messages, streamed', path: chat, body: () => ({ ...withMessages(), stream: true }) },
    { name: 'a text beyond ASCII', path: chat, body: () => oneText('日本語のテキスト и текст ') },
    { name: 'a text of escapes', path: chat, body: () => oneText('said "so"\n\t') },
    {
      name: 'long numbers',
      path: chat,
      body: () => ({ ...withMessages(), metadata: { id: ' 12345678901234567' } }),
    },
    {
      name: 'a list of tokens',
      path: '/v1/embeddings',
      body: () => ({
        model: 'm',
        input: Array.from({ length: bodyBytes / 6 }, (_, i) => 10_000 + (i % 80_000)),
      }),
    },
    {
      name: 'many messages, translated',
      path: '/v1/messages',
      body: () => ({ max_tokens: 100, ...withMessages() }),
    },
    {
      name: 'four images, translated',
      path: '/v1/responses',
      body: () => ({ model: 'm', input: imageInput() }),
    },
  ];
}

function image(bytes = bodyBytes): string {
  return `data:image/png;base64,${'QUJD/kl9+xyzAbcd'.repeat(bytes / 64)}`;
}

function withImages(bytes = bodyBytes): object {
  const content = Array.from({ length: 4 }, () => ({ type: 'image_url', image_url: { url: image(bytes) } }));
  return { model: 'm', messages: [{ role: 'user', content }] };
}

function imageInput(): object[] {
  const content = Array.from({ length: 4 }, () => ({ type: 'input_image', image_url: image() }));
  return [{ role: 'user', content }];
}

function withMessages(bytes = bodyBytes): object {
  const content = 'The flow over a weir grows with the head to the power of one and a half. '
    .repeat(6)
    .slice(0, 410);
  const messages = Array.from({ length: bytes / 450 }, () => ({ role: 'user', content }));
  return { model: 'm', messages };
}

function oneText(text: string): object {
  const content = text.repeat(bodyBytes / Buffer.byteLength(JSON.stringify(text).slice(1, -1)));
  return { model: 'm', messages: [{ role: 'user', content }] };
}

async function send({ port }: Subject, path: string, body: Buffer<ArrayBuffer>): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${benchKey}`,
      'content-type': 'application/json',
      'x-service-provider': 'bench',
    },
    body,
  });
  await answer.arrayBuffer();
  return answer.status;
}

interface Told {
  readonly longestMs: number;
  readonly workedMs: number;
  readonly peakBytes: number;
}

function turns({ child }: Subject): Promise<Told> {
  return new Promise((resolve) => {
    child.once('message', (told) => resolve(told as Told));
    child.send({ ask: 'turns' });
  });
}
