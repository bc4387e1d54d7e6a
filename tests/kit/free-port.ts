import { once } from 'node:events';
import { randomInt } from 'node:crypto';
import net from 'node:net';

// Below the ports that systems give to outgoing connections and to `listen(0)`: until the caller listens on its port,
// neither takes it.
const lowest = 12_000;
const highest = 32_000;

/** A port on loopback that nothing listens on at this moment. */
export async function freePort(): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const port = randomInt(lowest, highest);
    const probe = net.createServer().listen(port, '127.0.0.1');
    try {
      await once(probe, 'listening');
    } catch (error) {
      if (attempt === 20) throw error;
      continue;
    }
    probe.close();
    await once(probe, 'close');
    return port;
  }
}
