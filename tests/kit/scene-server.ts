/** A provider on real sockets that plays scenes. */
import { STATUS_CODES } from 'node:http';
import net, { type AddressInfo, type Socket } from 'node:net';
import type { UpstreamScene } from './upstream-scenes.ts';

/** It listens on 127.0.0.1. */
export interface SceneServer {
  readonly origin: string;
  /** The same port under `https:`, where no handshake is ever answered. */
  readonly deafOrigin: string;
  /** Connections that are open now. */
  readonly open: ReadonlySet<Socket>;
  /** Bodies of the requests that came whole, as they came on the wire. */
  readonly bodies: readonly Buffer[];
  close(): Promise<void>;
}

/** Starts a server that plays one scene per request, and the last one again for further ones. */
export async function startSceneServer(scenes: readonly UpstreamScene[]): Promise<SceneServer> {
  const open = new Set<Socket>();
  const bodies: Buffer[] = [];
  let next = 0;
  const server = net.createServer((socket) => {
    open.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => open.delete(socket));
    let received: Buffer = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      const length = requestLength(received);
      if (length === undefined || received.length < length) return;
      bodies.push(received.subarray(received.indexOf('\r\n\r\n') + 4, length));
      received = received.subarray(length);
      const scene = scenes[Math.min(next++, scenes.length - 1)];
      if (scene !== undefined) play(socket, scene);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    deafOrigin: `https://127.0.0.1:${port}`,
    open,
    bodies,
    close() {
      for (const socket of open) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** Bytes of the first request; undefined while that is not known. */
function requestLength(received: Buffer): number | undefined {
  const end = received.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const text = received.toString('latin1');
  if (/^transfer-encoding: chunked$/im.test(text.slice(0, end))) {
    const last = text.indexOf('0\r\n\r\n', end + 4);
    return last < 0 ? undefined : last + 5;
  }
  return end + 4 + Number(/^content-length: (\d+)$/im.exec(text.slice(0, end))?.[1] ?? 0);
}

function play(socket: Socket, { steps }: UpstreamScene): void {
  let chunked = false;
  const from = (at: number): void => {
    const step = steps[at];
    if (step === undefined || socket.destroyed) return;
    if ('wait' in step) {
      setTimeout(from, step.wait, at + 1);
      return;
    }
    if ('head' in step) {
      const lines = step.headers.flatMap((name, i) =>
        i % 2 === 0 ? [`${name}: ${step.headers[i + 1]}\r\n`] : [],
      );
      chunked = lines.includes('transfer-encoding: chunked\r\n');
      socket.write(`HTTP/1.1 ${step.head} ${STATUS_CODES[step.head] ?? ''}\r\n${lines.join('')}\r\n`);
    } else if ('data' in step) {
      if (chunked) socket.write(`${step.data.length.toString(16)}\r\n`);
      socket.write(step.data);
      if (chunked) socket.write('\r\n');
    } else if (step.then === 'end') socket.write('0\r\n\r\n');
    else if (step.then === 'close') socket.end();
    else socket.resetAndDestroy();
    from(at + 1);
  };
  socket.cork();
  from(0);
  socket.uncork();
}
