import { measured, median } from './cpu.ts';
import { load } from './load.ts';
import { identityOf } from './seeded-store.ts';
import { benchConfig, removeFolder, startUpstream, startWeir, type WeirSubject } from './subject.ts';
import { benchKey, configuredRequestBytes, requestBytes } from './workload.ts';

/** What naming a saved config costs whose target is a provider of the store, medians over the rounds. */
export interface VirtualKeyFigures {
  /** A chat request that names a provider of the configuration in its header, saturated. */
  readonly named_us_per_request: number;
  /** The same request with a saved config, whose target is a virtual key. */
  readonly saved_us_per_request: number;
  /** The median of the rounds' differences. */
  readonly added_us_per_request: number;
}

const connections = 32;
const warmRequests = 20_000;
const slug = 'bench-virtual-key';

/** CPU of requests by a saved config with a virtual key beside requests by header, in turns. */
export async function measureVirtualKey(quick: boolean): Promise<VirtualKeyFigures> {
  const rounds = quick ? 5 : 15;
  const requests = quick ? 8000 : 20_000;
  const upstream = await startUpstream();
  const weir = await startWeir({
    upstreamPort: upstream.port,
    config: `${benchConfig(upstream.port)}security: { trusted_hosts: ["127.0.0.1:${upstream.port}"] }\n`,
  });
  const named: number[] = [];
  const saved: number[] = [];
  try {
    const config = await savedConfig(weir, upstream.port);
    const kinds = [
      { request: requestBytes(weir.port, false), costs: named },
      { request: configuredRequestBytes(weir.port, config), costs: saved },
    ];
    for (const { request } of kinds) await load(weir.port, request, warmRequests, connections);
    for (let round = 0; round < rounds; round++) {
      for (const { request, costs } of kinds) {
        const one = await measured(weir, () => load(weir.port, request, requests, connections));
        costs.push(one.cpuMicroseconds / one.completed);
      }
    }
  } finally {
    await weir.stop();
    await upstream.stop();
    await removeFolder(weir.folder);
  }
  return {
    named_us_per_request: median(named),
    saved_us_per_request: median(saved),
    added_us_per_request: median(saved.map((cost, round) => cost - (named[round] ?? NaN))),
  };
}

/** Makes an integration, its provider, and a config that names that; the id of the config. */
async function savedConfig(weir: WeirSubject, upstreamPort: number): Promise<string> {
  const { workspace_id } = await identityOf(weir.dataFolder);
  await create(weir, 'integrations', {
    ...{ name: 'bench', ai_provider_id: 'openai', key: 'sk-bench', workspace_id },
    configurations: { custom_host: `http://127.0.0.1:${upstreamPort}/v1` },
    ...{ create_default_provider: true, default_provider_slug: slug },
  });
  const made = await create(weir, 'configs', {
    ...{ name: 'bench', config: { virtual_key: slug }, workspace_id },
  });
  if (typeof made !== 'object' || made === null || !('id' in made) || typeof made.id !== 'string')
    throw new Error(`The gateway answered no id of the bench's config: ${JSON.stringify(made)}`);
  return made.id;
}

async function create({ port }: WeirSubject, kind: string, body: object): Promise<unknown> {
  const answer = await fetch(`http://127.0.0.1:${port}/v1/${kind}`, {
    method: 'POST',
    headers: { 'x-service-api-key': benchKey, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (answer.ok) return answer.json();
  throw new Error(`The gateway did not make the bench's ${kind}: ${answer.status} ${await answer.text()}`);
}
