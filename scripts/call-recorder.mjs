// Loaded with NODE_OPTIONS=--import into test files and into the gateways that they start: records which requests reach
// a gateway, and in which test. `scripts/record-calls.ts` runs the suites with it.
import { subscribe } from 'node:diagnostics_channel';
import { appendFileSync } from 'node:fs';
import { Server } from 'node:http';
import path from 'node:path';
import { beforeEach } from 'node:test';

const folder = process.env['WEIR_RECORD_CALLS'];
const entry = process.argv[1] ?? '';
// Child processes of a test file inherit the name of that file.
const isTest = entry.endsWith('.test.ts');
if (isTest) process.env['WEIR_RECORDED_TEST'] = path.relative(process.cwd(), entry);
const file = process.env['WEIR_RECORDED_TEST'];

if (folder !== undefined && file !== undefined) {
  let test = '';
  if (isTest)
    beforeEach((context) => {
      test = context.fullName ?? context.name;
    });
  const written = new Set();
  subscribe('http.server.response.finish', ({ request, response, server }) => {
    // Fake providers run in the same process; only gateways answer `Expect: 100-continue` themselves.
    if (server.listenerCount('checkContinue') > 0) write(request, response.statusCode);
  });
  // No channel reports upgrades.
  const { emit } = Server.prototype;
  Server.prototype.emit = function (event, ...rest) {
    if (event === 'upgrade' && this.listenerCount('checkContinue') > 0) write(rest[0], 101);
    return emit.call(this, event, ...rest);
  };

  function write({ method, url }, status) {
    const line = `${JSON.stringify([method, url.split('?')[0], status, file, test])}\n`;
    if (written.has(line)) return;
    written.add(line);
    appendFileSync(path.join(folder, `${process.pid}.jsonl`), line);
  }
}
