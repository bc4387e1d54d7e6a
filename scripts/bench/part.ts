// A process of the bench: `part.ts upstream`, the stand-in provider, or `part.ts bare PORT PROCESSES`, the proxy in front of it.
import { serveBare } from '../../main/bench-command/bare.ts';
import { serveUpstream } from '../../main/bench-command/upstream.ts';

const [part, port, processes] = process.argv.slice(2);
if (part === 'upstream') serveUpstream();
else serveBare(Number(port), Number(processes));
