import { rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { load } from '../../main/bench-command/load.ts';
import { benchConfig, removeFolder, startUpstream, startWeir, type WeirSubject } from './subject.ts';
import { requestBytes } from './workload.ts';

interface ReloadFigures {
  swaps: number;
  requests_per_second: number;
  streams: number;
  failed_requests: number;
  cut_streams: number;
  sockets_before: number;
  sockets_after: number;
  mib_per_option_swap: number;
  mib_per_code_swap: number;
}

const requestsPerSecond = 200;
const openStreams = 20;
const mebibyte = 2 ** 20;
/** Traffic before memory is first compared: by then the heap has the size that this load needs. */
const warmUpMs = 8000;

/** Reloads while requests and streams run: first only options change, then a plugin's code. */
export async function measureReload(quick: boolean): Promise<ReloadFigures> {
  const swaps = quick ? 20 : 100;
  const upstream = await startUpstream();
  const plugin = './bench-plugin.mjs';
  const config = (note: string): string => benchConfig(upstream.port, [plugin], note);
  // A small young generation: with a large one, uncollected garbage looks like growth.
  const flags = ['--max-semi-space-size=2'];
  const weir = await startWeir({ upstreamPort: upstream.port, config: benchConfig(upstream.port), flags });
  const traffic = new Traffic(weir);
  try {
    await writeFile(path.join(weir.folder, plugin), pluginCode(0));
    await replace(weir, config('first'));
    await swapsDone(weir, 1);
    traffic.start();
    // The first swaps warm caches and code up; memory is compared from there.
    const warm = Math.ceil(swaps / 5);
    await optionSwaps(weir, warm, config, 'warm');
    await pause(warmUpMs);
    const before = await calm(weir);
    await optionSwaps(weir, swaps, config, 'options');
    const afterOptions = await calm(weir);
    const base = await weir.metric('weir_config_reloads_total\\{result="success"\\}');
    for (let swap = 1; swap <= swaps; swap++) {
      await replaceFile(path.join(weir.folder, plugin), pluginCode(swap));
      await swapsDone(weir, base + swap);
    }
    const afterCode = await calm(weir);
    await traffic.stop();
    await pause(1000);
    return {
      swaps: 2 * swaps + warm,
      requests_per_second: requestsPerSecond,
      streams: openStreams,
      failed_requests: traffic.failedRequests,
      cut_streams: traffic.cutStreams,
      sockets_before: before.sockets,
      sockets_after: afterCode.sockets,
      mib_per_option_swap: (afterOptions.memory - before.memory) / mebibyte / swaps,
      mib_per_code_swap: (afterCode.memory - afterOptions.memory) / mebibyte / swaps,
    };
  } finally {
    await traffic.stop();
    await weir.stop();
    await upstream.stop();
    await removeFolder(weir.folder);
  }
}

function pluginCode(version: number): string {
  return `import { definePlugin } from 'weir-gateway/plugin';
export default definePlugin({ name: 'bench-plugin', create: () => ({ request(context) { context.addResponseHeader('x-bench-version', '${version}'); } }) });
`;
}

async function optionSwaps(
  weir: WeirSubject,
  swaps: number,
  config: (note: string) => string,
  label: string,
): Promise<void> {
  const base = await weir.metric('weir_config_reloads_total\\{result="success"\\}');
  for (let swap = 1; swap <= swaps; swap++) {
    await replace(weir, config(`${label} ${swap}`));
    await swapsDone(weir, base + swap);
  }
}

async function swapsDone(weir: WeirSubject, count: number): Promise<void> {
  for (let tries = 0; tries < 400; tries++) {
    const done = await weir.metric('weir_config_reloads_total\\{result="success"\\}').catch(() => 0);
    if (done >= count) return;
    await pause(25);
  }
  throw new Error('The gateway did not reload within 10 seconds.');
}

function replace(weir: WeirSubject, text: string): Promise<void> {
  return replaceFile(weir.configFile, text);
}

/** As editors do it: a new file renamed over the old one. */
export async function replaceFile(file: string, text: string): Promise<void> {
  await writeFile(`${file}.new`, text);
  await rename(`${file}.new`, file);
}

/** Memory and upstream sockets, as the smallest of a few looks, so that a garbage collection under way does not count. */
async function calm(weir: WeirSubject): Promise<{ memory: number; sockets: number }> {
  const looks: { memory: number; sockets: number }[] = [];
  for (let look = 0; look < 8; look++) {
    await pause(500);
    looks.push({ memory: await weir.memory(), sockets: await weir.metric('weir_upstream_connections') });
  }
  return {
    memory: Math.min(...looks.map((look) => look.memory)),
    sockets: Math.min(...looks.map((look) => look.sockets)),
  };
}

/** Steady requests and always-open streams until it is stopped; bounded by its own count all the same. */
class Traffic {
  private readonly weir: WeirSubject;
  private running = false;
  private loops: Promise<void>[] = [];
  failedRequests = 0;
  cutStreams = 0;

  constructor(weir: WeirSubject) {
    this.weir = weir;
  }

  start(): void {
    this.running = true;
    this.loops = [this.requests(), this.streams()];
  }

  async stop(): Promise<void> {
    this.running = false;
    await Promise.all(this.loops);
  }

  private async requests(): Promise<void> {
    const bytes = requestBytes(this.weir.port, false);
    const perBurst = requestsPerSecond / 20;
    for (let burst = 0; this.running && burst < 20 * 600; burst++) {
      const begin = performance.now();
      this.failedRequests += (await load(this.weir.port, bytes, perBurst, perBurst)).failed;
      await pause(Math.max(0, 50 - (performance.now() - begin)));
    }
  }

  private async streams(): Promise<void> {
    const bytes = requestBytes(this.weir.port, true);
    for (let turn = 0; this.running && turn < 2000; turn++) {
      this.cutStreams += (await load(this.weir.port, bytes, openStreams, openStreams)).failed;
    }
  }
}
