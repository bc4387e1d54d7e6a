/** Run as a program: shakes hands with the MCP server that its arguments name, and writes what was heard as JSON. */
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { silentLog } from '../../adapters/transport/transport.test-support.ts';
import { systemClock } from '../../core/ports/clock.ts';

const [url = '', transport = ''] = process.argv.slice(2);
const clients = createMcpClients({ log: silentLog, clock: systemClock, trustedHosts: [new URL(url).host] });
const said = await clients
  .describe({ url, transport: transport === 'sse' ? 'sse' : 'http', headers: ['x-token', 'a'] })
  .catch((error: unknown) => String(error));
process.stdout.write(JSON.stringify(said));
