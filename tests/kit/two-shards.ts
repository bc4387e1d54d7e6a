/**
 * A cluster of two shards for tests, on one embedded engine, which can be both shards of a cluster at the same time but
 * has one set of databases and no Keeper. A front does what is missing: a statement ON CLUSTER runs in the database of
 * either shard, and Distributed tables see in each shard the tables of its own database. Reads, merges of what the
 * shards answer, sub-selects that go to all shards, inserts into a shard and their deduplication are the engine's.
 *
 * For a database `weir`, `weir_1` and `weir_2` are those of the shards.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createClient } from '@clickhouse/client';
import { recordingLog, temporaryFolder, testClock } from '../../storage/embedded/chdb-fixture.ts';
import { startChdb } from '../../storage/embedded/start-chdb.ts';

const shardNumbers = [1, 2] as const;
const port = 9000;
const server = `<replica><host>127.0.0.1</host><port>${port}</port></replica>`;
const config = `<clickhouse>
  <tcp_port>${port}</tcp_port>
  <remote_servers><two>${shardNumbers.map(() => `<shard><internal_replication>true</internal_replication>${server}</shard>`).join('')}</two></remote_servers>
  <macros><cluster>two</cluster></macros>
</clickhouse>`;

/** The engine, its front, and the statements that passed it. */
export interface TwoShards {
  readonly url: string;
  readonly username: string;
  readonly password: string;
  readonly cluster: 'two';
  /** Address of the engine itself, with the databases of the shards. */
  readonly engineUrl: string;
  readonly statements: readonly string[];
  close(): Promise<void>;
}

export async function startTwoShards(): Promise<TwoShards> {
  const folder = await temporaryFolder();
  // The engine adds the files of this folder to its configuration.
  const further = join(folder.path, '.run', 'conf.d');
  await mkdir(further, { recursive: true, mode: 0o700 });
  await writeFile(join(further, 'cluster.xml'), config);
  const engine = await startChdb({ directory: folder.path, log: recordingLog(), clock: testClock });
  const statements: string[] = [];
  const front = createServer({ maxHeaderSize: 1024 * 1024 }, (request, response) => {
    answer(engine.url, statements, request, response).catch((error: unknown) => {
      response.writeHead(500).end(String(error));
    });
  });
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(front.address() as AddressInfo).port}`,
    username: engine.username,
    password: engine.password,
    cluster: 'two',
    engineUrl: engine.url,
    statements,
    async close() {
      front.closeAllConnections();
      await new Promise((resolve) => front.close(resolve));
      await engine.close();
      await folder.remove();
    },
  };
}

/** One statement as it came: in the query string, before its rows, or as the body. */
interface Sent {
  readonly sql: string;
  readonly parameters: URLSearchParams;
  readonly rows: Buffer | undefined;
}

async function answer(
  engineUrl: string,
  statements: string[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const { searchParams: parameters, pathname } = new URL(request.url ?? '/', engineUrl);
  const query = parameters.get('query');
  const sql = query ?? body.toString();
  const sent: Sent = { sql, parameters, rows: query === null ? undefined : body };
  statements.push(sql);
  const send = (one: Sent): Promise<Response> => {
    const target = new URL(`${pathname}?${one.parameters.toString()}`, engineUrl);
    if (one.rows !== undefined) target.searchParams.set('query', one.sql);
    return fetch(target, {
      method: request.method ?? 'POST',
      headers: { authorization: request.headers.authorization ?? '' },
      ...(request.method === 'POST' && { body: one.rows === undefined ? one.sql : new Uint8Array(one.rows) }),
    });
  };
  const steps = pathname === '/ping' ? [sent] : await stepsOf(sent, send);
  let last: Response | undefined;
  for (const step of steps) {
    last = await send(step);
    if (!last.ok) break;
  }
  if (last === undefined) throw new Error(`There is no step for ${sql.slice(0, 100)}`);
  const code = last.headers.get('x-clickhouse-exception-code');
  response.writeHead(last.status, code === null ? {} : { 'x-clickhouse-exception-code': code });
  response.end(Buffer.from(await last.arrayBuffer()));
}

const onCluster = / ON CLUSTER '(?:two|\{cluster\})'/;
const distributed =
  /^CREATE (?:OR REPLACE TABLE|TABLE IF NOT EXISTS) `(\w+)_all`\.`(\w+)`.* ENGINE = Distributed/;

/** What the statement comes to on one engine. */
async function stepsOf(sent: Sent, send: (one: Sent) => Promise<Response>): Promise<Sent[]> {
  const { parameters } = sent;
  const database = parameters.get('database') ?? 'default';
  const sql = sent.sql.replace(onCluster, '');
  const shard = parameters.get('insert_shard_id');
  if (sql !== sent.sql) return ofCluster({ ...sent, sql }, database, send);
  if (shard !== null) return [intoShard(sent, database, shard)];
  if (parameters.has('param_own'))
    return [withParameters(sent, { param_own: `${parameters.get('param_own')}_1` })];
  const isOwn = database !== 'default' && !database.endsWith('_all');
  const param = parameters.get('param_database');
  return [
    isOwn
      ? withParameters(sent, {
          database: `${database}_1`,
          ...(param !== null && { param_database: `${param}_1` }),
        })
      : sent,
  ];
}

async function ofCluster(
  sent: Sent,
  database: string,
  send: (one: Sent) => Promise<Response>,
): Promise<Sent[]> {
  const named = sent.parameters.get('param_database');
  if (/^(CREATE|DROP) DATABASE/.test(sent.sql) && named !== null) {
    const names = named.endsWith('_all')
      ? [named, `${named}_read`, ...shardNumbers.map((shard) => `${named}_write_${shard}`)]
      : [named, ...shardNumbers.map((shard) => `${named}_${shard}`)];
    return names.map((name) => withParameters(sent, { param_database: name }));
  }
  const [, own, table] = distributed.exec(sent.sql) ?? [];
  if (own !== undefined && table !== undefined) {
    const columns = await columnsOf(`${own}_1`, table, sent, send);
    const part = (shard: number): string =>
      `SELECT ${columns.join(', ')} FROM ${own}_${shard}.${table} WHERE shardNum() = ${shard}`;
    const create = 'CREATE OR REPLACE';
    const like = `AS ${own}_1.${table} ENGINE = Distributed('two'`;
    return [
      `${create} VIEW ${own}_all_read.${table} AS ${shardNumbers.map(part).join(' UNION ALL ')}`,
      ...shardNumbers.map(
        (shard) =>
          `${create} TABLE ${own}_all_write_${shard}.${table} ${like}, '${own}_${shard}', '${table}')`,
      ),
      `${create} TABLE ${own}_all.${table} ${like}, '${own}_all_read', '${table}')`,
    ].map((sql) => ({ ...sent, sql }));
  }
  const base = database.replace(/_all$/, '');
  return shardNumbers.map((shard) => ({
    ...withParameters(sent, { database: `${base}_${shard}` }),
    sql: sent.sql.replace(`\`${base}\`.`, `\`${base}_${shard}\`.`),
  }));
}

/** The columns of a table, also those that it computes itself. */
async function columnsOf(
  database: string,
  table: string,
  sent: Sent,
  send: (one: Sent) => Promise<Response>,
): Promise<string[]> {
  const sql = `SELECT name FROM system.columns WHERE database = '${database}' AND table = '${table}' ORDER BY position FORMAT TSV`;
  const answered = await send({ ...sent, sql });
  return (await answered.text()).split('\n').filter((line) => line !== '');
}

/** The engine inserts through a Distributed table whose shards all have the tables of this one. */
function intoShard(sent: Sent, database: string, shard: string): Sent {
  const target = `${database}_write_${shard}`;
  if (sent.rows !== undefined) return withParameters(sent, { database: target });
  return { ...sent, sql: sent.sql.replace(/^INSERT INTO (\w+)/, `INSERT INTO ${target}.$1`) };
}

function withParameters(sent: Sent, changed: Readonly<Record<string, string>>): Sent {
  const parameters = new URLSearchParams(sent.parameters);
  for (const [name, value] of Object.entries(changed)) parameters.set(name, value);
  return { ...sent, parameters };
}

/** Rows of a statement on the engine itself. */
export async function rowsOn<Row>(
  { engineUrl, username, password }: TwoShards,
  query: string,
): Promise<Row[]> {
  const client = createClient({ url: engineUrl, username, password });
  try {
    return await (await client.query({ query, format: 'JSONEachRow' })).json<Row>();
  } finally {
    await client.close();
  }
}
