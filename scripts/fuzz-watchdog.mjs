// A thread beside the fuzzed one: when a case blocks the event loop for good, nothing in that thread can say so.
import { writeSync } from 'node:fs';
import { workerData } from 'node:worker_threads';

const { shared, names } = workerData;
const longestMs = 60_000;
let seen = -1;
let since = Date.now();

setInterval(() => {
  const cases = Atomics.load(shared, 0);
  const target = Atomics.load(shared, 1);
  if (cases !== seen || target < 0) {
    seen = cases;
    since = Date.now();
    return;
  }
  if (Date.now() - since < longestMs) return;
  const [name, seed, path] = [names[target], Atomics.load(shared, 2), Atomics.load(shared, 3)];
  writeSync(2, `FAILED ${name}: a case hangs for ${longestMs / 1000} s: seed ${seed}, path ${path}\n`);
  writeSync(2, `Replay: npm run fuzz -- --only ${name} --seed ${seed} --path ${path}\n`);
  process.kill(process.pid, 'SIGKILL');
}, 1000);
