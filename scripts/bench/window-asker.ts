// Asks what open windows of the console ask, in their place: a list of calls begins it, `rest` ends it.
import http from 'node:http';
import os from 'node:os';
import type { WindowCalls } from './beside-consoles.ts';

// It stands for browsers on other machines, so it takes only spare processor time.
os.setPriority(os.constants.priority.PRIORITY_LOW);
const agent = new http.Agent({ keepAlive: true });
/** Until the streams deliver what is new. */
const settleMs = 3000;
const restMs = 1000;
let open: http.ClientRequest[] = [];
let timers: NodeJS.Timeout[] = [];

process.on('message', (message: WindowCalls | 'rest') => {
  if (message === 'rest') rest();
  else begin(message);
});

function begin({ url, streams, calls, periodMs }: WindowCalls): void {
  for (const stream of streams) ask(url, stream);
  for (const call of calls) {
    const start = (): void => {
      ask(url, call);
      timers.push(setTimeout(start, periodMs));
    };
    timers.push(setTimeout(start, call.at));
  }
  setTimeout(() => process.send?.('done'), settleMs);
}

function rest(): void {
  for (const timer of timers) clearTimeout(timer);
  for (const request of open) request.destroy();
  [open, timers] = [[], []];
  setTimeout(() => process.send?.('done'), restMs);
}

function ask(url: string, { path, method, headers, body }: WindowCalls['streams'][number]): void {
  const request = http.request(url + path, { method, headers: { ...headers }, agent });
  open.push(request);
  const end = (): void => void (open = open.filter((one) => one !== request));
  request.on('response', (answer) => {
    if (answer.statusCode !== 200) process.send?.(`${path} answered ${answer.statusCode}`);
    answer.on('close', end).resume();
  });
  request.on('error', end);
  request.end(body ?? undefined);
}
