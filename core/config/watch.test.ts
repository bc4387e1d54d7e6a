import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Log } from '../ports/log.ts';
import { systemClock as clock } from '../ports/clock.ts';
import { watchFiles } from './watch.ts';

const root = realpathSync(mkdtempSync(join(tmpdir(), 'weir-watch-')));
const stops: (() => void)[] = [];
afterEach(() => stops.splice(0).forEach((stop) => stop()));
after(() => rmSync(root, { recursive: true }));

let number = 0;
function newFolder(): string {
  const folder = join(root, String(number++));
  mkdirSync(folder);
  return folder;
}

async function until(condition: () => boolean, what: string): Promise<void> {
  for (const deadline = Date.now() + 10_000; !condition(); await sleep(5))
    if (Date.now() > deadline) assert.fail(`waited in vain for ${what}`);
}

/** A watch with what a test looks at: runs of `onChange`, looks at the list of files, and logged messages. */
function watching(
  files: () => readonly string[],
  onChange: () => void | Promise<void> = () => {},
  options: Partial<Parameters<typeof watchFiles>[2]> = {},
) {
  const state = { runs: 0, looks: 0, logged: [] as string[] };
  const note = (message: string): void => void state.logged.push(message);
  const log: Log = { debug: note, info: note, warn: note, error: note, child: () => log };
  const listed = (): readonly string[] => {
    state.looks++;
    return files();
  };
  const run = (): void | Promise<void> => {
    state.runs++;
    return onChange();
  };
  const stop = watchFiles(listed, run, { clock, log, pollMs: 40, settleMs: 10, ...options });
  stops.push(stop);
  /** Three more looks: whatever was done before has been seen. */
  const quiet = async (): Promise<void> => {
    const goal = state.looks + 3;
    await until(() => state.looks >= goal, 'looks');
  };
  const runsTo = (runs: number): Promise<void> => until(() => state.runs >= runs, `run ${runs}`);
  return { state, stop, quiet, runsTo };
}

/** Both ways to notice: with a poll so slow that only events count, and where no event comes. */
const slowPoll = { pollMs: 3_600_000 };

describe('watchFiles', () => {
  it('runs once for a burst of writes, and not for those before it started', async () => {
    const file = join(newFolder(), 'a.yaml');
    writeFileSync(file, 'before');
    const watch = watching(() => [file]);
    await watch.quiet();
    assert.equal(watch.state.runs, 0);
    for (let write = 0; write < 20; write++) writeFileSync(file, `content ${write}`);
    await watch.runsTo(1);
    await watch.quiet();
    assert.equal(watch.state.runs, 1);
  });

  it('needs no poll where events come', async () => {
    const folder = newFolder();
    const file = join(folder, 'a.yaml');
    writeFileSync(file, '1');
    const watch = watching(() => [file], undefined, slowPoll);
    await until(() => watch.state.looks > 0, 'the first look');
    await sleep(50);
    for (let run = 1; run <= 2; run++) {
      writeFileSync(join(folder, '.a.yaml.tmp'), `next ${run}`);
      renameSync(join(folder, '.a.yaml.tmp'), file);
      await watch.runsTo(run);
    }
  });

  it('needs no events: a changed target of a link is found by polling', async () => {
    const folder = newFolder();
    const elsewhere = newFolder();
    writeFileSync(join(elsewhere, 'one'), '1');
    symlinkSync(join(elsewhere, 'one'), join(folder, 'a.yaml'));
    const watch = watching(() => [join(folder, 'a.yaml')]);
    await watch.quiet();
    writeFileSync(join(elsewhere, 'one'), '2');
    await watch.runsTo(1);
  });

  it('does not run when only times change, or other files', async () => {
    const folder = newFolder();
    const file = join(folder, 'a.yaml');
    writeFileSync(file, 'same');
    const watch = watching(() => [file]);
    await watch.quiet();
    utimesSync(file, new Date(), new Date());
    writeFileSync(file, 'same');
    for (const name of ['.a.yaml.swp', 'a.yaml~', '4913', '#a.yaml#']) writeFileSync(join(folder, name), 'x');
    await watch.quiet();
    assert.equal(watch.state.runs, 0);
  });

  it('sees a file go and return, and not a return within the settling time', async () => {
    const file = join(newFolder(), 'a.yaml');
    writeFileSync(file, '1');
    const watch = watching(() => [file], undefined, { settleMs: 100 });
    await watch.quiet();
    rmSync(file);
    writeFileSync(file, '1');
    await watch.quiet();
    assert.equal(watch.state.runs, 0);
    rmSync(file);
    await watch.runsTo(1);
    writeFileSync(file, '1');
    await watch.runsTo(2);
  });

  it('sees a directory go and return', async () => {
    const folder = join(newFolder(), 'deep', 'er');
    const file = join(folder, 'a.yaml');
    const watch = watching(() => [file]);
    await watch.quiet();
    for (let run = 1; run <= 3; run += 2) {
      mkdirSync(folder, { recursive: true });
      writeFileSync(file, `${run}`);
      await watch.runsTo(run);
      await watch.quiet();
      rmSync(join(folder, '..'), { recursive: true });
      await watch.runsTo(run + 1);
      await watch.quiet();
    }
    assert.equal(watch.state.runs, 4);
  });

  it('sees files that begin to match a pattern, change, and go', async () => {
    const folder = newFolder();
    const watch = watching(() => [join(folder, 'conf.d', '*.yaml')]);
    await watch.quiet();
    mkdirSync(join(folder, 'conf.d'));
    writeFileSync(join(folder, 'conf.d', 'note.txt'), 'x');
    await watch.quiet();
    assert.equal(watch.state.runs, 0);
    writeFileSync(join(folder, 'conf.d', 'a.yaml'), '1');
    await watch.runsTo(1);
    writeFileSync(join(folder, 'conf.d', 'a.yaml'), '2');
    await watch.runsTo(2);
    rmSync(join(folder, 'conf.d', 'a.yaml'));
    await watch.runsTo(3);
    await watch.quiet();
    assert.equal(watch.state.runs, 3);
  });

  it('runs once more for all that changed during a run, and never twice at a time', async () => {
    const folder = newFolder();
    const files = ['a', 'b'].map((name) => join(folder, name));
    for (const file of files) writeFileSync(file, '0');
    const gates: (() => void)[] = [];
    let running = 0;
    const watch = watching(
      () => files,
      async () => {
        assert.equal(++running, 1);
        if (gates.length < 1) await new Promise<void>((resolve) => gates.push(resolve));
        running--;
      },
    );
    await watch.quiet();
    writeFileSync(files[0] ?? '', '1');
    await until(() => gates.length === 1, 'the first run');
    for (const content of ['2', '3', '4']) for (const file of files) writeFileSync(file, content);
    await sleep(100);
    assert.equal(watch.state.runs, 1);
    gates[0]?.();
    await watch.runsTo(2);
    await watch.quiet();
    assert.equal(watch.state.runs, 2);
  });

  it('does not take a file that a run adds to the list for a change, but sees it change', async () => {
    const folder = newFolder();
    const [main, included] = [join(folder, 'main'), join(folder, 'included')];
    writeFileSync(main, '1');
    let list = [main];
    const watch = watching(
      () => list,
      () => {
        list = [main, included];
      },
    );
    await watch.quiet();
    writeFileSync(included, '1');
    await watch.quiet();
    writeFileSync(main, '2');
    await watch.runsTo(1);
    await watch.quiet();
    assert.equal(watch.state.runs, 1);
    writeFileSync(included, '2');
    await watch.runsTo(2);
  });

  it('sees what changed while the run that added it to the list was going on', async () => {
    const folder = newFolder();
    const [main, included] = [join(folder, 'main'), join(folder, 'included')];
    writeFileSync(main, '1');
    writeFileSync(included, '1');
    let list = [main];
    const watch = watching(
      () => list,
      async () => {
        if (list.length === 2) return;
        await sleep(50);
        writeFileSync(included, '2');
        list = [main, included];
      },
    );
    await watch.quiet();
    writeFileSync(main, '2');
    await watch.runsTo(2);
    await watch.quiet();
    assert.equal(watch.state.runs, 2);
  });

  it('counts what changed since a time that is given', async () => {
    const file = join(newFolder(), 'a.yaml');
    const since = clock.now();
    await sleep(30);
    writeFileSync(file, '1');
    const watch = watching(() => [file], undefined, { since });
    await watch.runsTo(1);
    await watch.quiet();
    assert.equal(watch.state.runs, 1);
  });

  it('logs what goes wrong and goes on', async () => {
    const file = join(newFolder(), 'a.yaml');
    writeFileSync(file, '0');
    let list = (): readonly string[] => [file];
    const watch = watching(
      () => list(),
      () => Promise.reject(new Error('broken')),
    );
    await watch.quiet();
    writeFileSync(file, '1');
    await watch.runsTo(1);
    list = () => {
      throw new Error('no list');
    };
    await until(() => watch.state.logged.length >= 2, 'two lines');
    list = () => [file];
    writeFileSync(file, '2');
    await watch.runsTo(2);
    assert.deepEqual([...new Set(watch.state.logged)].slice(0, 2), [
      'Reacting to a changed file failed',
      'Looking for changed files failed',
    ]);
  });

  it('is silent after stop', async () => {
    const file = join(newFolder(), 'a.yaml');
    writeFileSync(file, '0');
    const watch = watching(() => [file]);
    await watch.quiet();
    writeFileSync(file, '1');
    watch.stop();
    await sleep(150);
    assert.equal(watch.state.runs, 0);
    const { looks } = watch.state;
    await sleep(100);
    assert.equal(watch.state.looks, looks);
  });

  it('keeps no process alive', async () => {
    const file = join(newFolder(), 'a.yaml');
    writeFileSync(file, '0');
    const module = (name: string): string => JSON.stringify(fileURLToPath(new URL(name, import.meta.url)));
    const script = `
      import { watchFiles } from ${module('./watch.ts')};
      import { systemClock as clock } from ${module('../ports/clock.ts')};
      const log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
      await new Promise((resolve) => {
        const list = () => { setTimeout(resolve, 20); return [${JSON.stringify(file)}]; };
        watchFiles(list, () => {}, { clock, log });
      });`;
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', script], {
      stdio: 'inherit',
    });
    const timer = setTimeout(() => child.kill(), 20_000);
    const [code] = await once(child, 'exit');
    clearTimeout(timer);
    assert.equal(code, 0);
  });
});
