// A client that asks for one path after the other until it is stopped, and then reports the number of answers.
import os from 'node:os';

// It stands for a client on another machine, so it takes only spare processor time.
os.setPriority(os.constants.priority.PRIORITY_LOW);
const [first = '', key = '', ...paths] = process.argv.slice(2);
let stopped = false;
process.once('message', () => (stopped = true));
let answered = 0;
process.send?.('asking');
while (!stopped) {
  const path = paths[answered % paths.length] ?? '';
  const answer = await fetch(first + path, { headers: { 'x-service-api-key': key } });
  if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
  await answer.arrayBuffer();
  answered += 1;
}
process.send?.(answered, () => process.disconnect());
