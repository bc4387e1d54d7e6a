// docs/guides, line by line as a reader follows them: files are saved, configurations replace each other while one gateway
// runs, commands run in one shell after the other, and print what the page shows. `…` in a page stands for anything.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readdir, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { runsWithItsPage, samplesOf, shown } from '../kit/document-samples.ts';
import {
  eventually,
  ownerKey,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));
/** The one that begins with the configuration of a fresh clone comes first. */
const guides = ['start.md', ...(await readdir(path.join(root, 'docs/guides'))).sort()];
/** It is about stores on other machines. */
const notTried = new Set(['production.md']);

describe('a guide does what it says', { skip: chdbMissing, timeout: 300_000 }, () => {
  let gateway: WeirProcess;
  let home = '';

  before(async () => {
    home = await temporaryFolder();
    await copyFile(path.join(root, 'gateway.config.yaml'), path.join(home, 'gateway.config.yaml'));
    const config = path.join(home, 'gateway.config.yaml');
    gateway = await startWeir({ config, cwd: home, data: path.join(home, 'data') });
  });
  after(stopEverything);

  /** As an editor saves: a new file in the place of the old one. Resolves when the gateway serves it. */
  async function configure(text: string, place: string): Promise<void> {
    const status = async () =>
      (await (await fetch(`${gateway.url}/status`)).json()) as {
        generation: string;
        config_error: { problems: string[] } | null;
      };
    const { generation } = await status();
    await writeFile(path.join(home, 'new.yaml'), text);
    await rename(path.join(home, 'new.yaml'), path.join(home, 'gateway.config.yaml'));
    await eventually(
      async () => {
        const now = await status();
        assert.deepEqual(now.config_error?.problems ?? [], [], place);
        return now.generation !== generation || undefined;
      },
      () => `the configuration of ${place}; the log: ${gateway.stderr()}`,
    );
  }

  /** Runs the block in a shell that knows the variables of the blocks before it. */
  async function typed(block: string): Promise<string> {
    const script = block
      .replaceAll('http://127.0.0.1:8787', gateway.url)
      .replaceAll('npx weir ', `"${process.execPath}" "${path.join(root, 'scripts/weir.mjs')}" `);
    const env = { ...process.env, WEIR_KEY: ownerKey };
    const { stdout, stderr } = await run('bash', ['-c', script], { cwd: home, env }).catch(
      (error: unknown) => error as { stdout: string; stderr: string },
    );
    return stdout + stderr;
  }

  for (const guide of new Set(guides))
    if (!notTried.has(guide))
      test(guide, async () => {
        let printed = '';
        let commands = 0;
        for (const sample of await samplesOf(`docs/guides/${guide}`)) {
          const { language, text, place } = sample;
          const [, file] = /^(?:#|\/\/) ([\w./-]+\.(?:ts|yaml))\n/.exec(text) ?? [];
          if (file !== undefined) {
            await mkdir(path.dirname(path.join(home, file)), { recursive: true });
            await writeFile(path.join(home, file), text);
          } else if (language === 'yaml' && text.startsWith('version: 1\n')) await configure(text, place);
          else if (language === 'sh' && runsWithItsPage(sample)) {
            printed = await typed(text);
            commands++;
          } else if (language === 'text') assert.match(printed, shown(text), place);
        }
        assert.ok(commands > 0);
      });
});
