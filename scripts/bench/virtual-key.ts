import { identityOf } from './analytics/seeded-store.ts';
import { benchConfig, removeFolder, startUpstream, startWeir, type WeirSubject } from './subject.ts';
import { compareKinds } from './two-kinds.ts';
import { benchKey, configuredRequestBytes, requestBytes } from './workload.ts';

/** Cost of naming a saved config whose target is a provider of the store, medians over the rounds. */
interface VirtualKeyFigures {
  /** A chat request that names a provider of the configuration in its header, saturated. */
  readonly named_us_per_request: number;
  /** The same request with a saved config, whose target is a virtual key. */
  readonly saved_us_per_request: number;
  /** Mean of the rounds' differences, without the outermost, and its standard error. */
  readonly added_us_per_request: number;
  readonly added_error_us: number;
}

const slug = 'bench-virtual-key';

/** CPU of requests by a saved config with a virtual key beside requests by header. */
export async function measureVirtualKey(quick: boolean): Promise<VirtualKeyFigures> {
  const upstream = await startUpstream();
  const weir = await startWeir({
    upstreamPort: upstream.port,
    config: `${benchConfig(upstream.port)}security: { trusted_hosts: ["127.0.0.1:${upstream.port}"] }\n`,
  });
  try {
    const config = await savedConfig(weir, upstream.port);
    const saved = configuredRequestBytes(weir.port, config);
    const { plain_us, other_us, added_us, added_error_us } = await compareKinds(
      weir,
      quick,
      requestBytes(weir.port, false),
      saved,
    );
    return {
      named_us_per_request: plain_us,
      saved_us_per_request: other_us,
      added_us_per_request: added_us,
      added_error_us,
    };
  } finally {
    await weir.stop();
    await upstream.stop();
    await removeFolder(weir.folder);
  }
}

/** Makes an integration, its provider, and a config that names that; the id of the config. */
async function savedConfig(weir: WeirSubject, upstreamPort: number): Promise<string> {
  const { workspace_id } = await identityOf(weir.dataFolder);
  await create(weir, 'integrations', {
    name: 'bench',
    ai_provider_id: 'openai',
    key: 'sk-bench',
    workspace_id,
    configurations: { custom_host: `http://127.0.0.1:${upstreamPort}/v1` },
    create_default_provider: true,
    default_provider_slug: slug,
  });
  const made = await create(weir, 'configs', { name: 'bench', config: { virtual_key: slug }, workspace_id });
  const { id } = (made as { data?: { id?: unknown } }).data ?? {};
  if (typeof id === 'string') return id;
  throw new Error(`The gateway answered no id of the bench's config: ${JSON.stringify(made)}`);
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
