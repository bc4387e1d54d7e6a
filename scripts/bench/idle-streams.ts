import net from 'node:net';
import type { RequestSource } from '../../main/bench-command/load.ts';

/** Connections that are opened at the same time; the rest waits, so that no listener's backlog overflows. */
const openedAtOnce = 64;
/** Longest wait for the first event of one stream. */
const firstEventMs = 20_000;
const firstEvent = Buffer.from('\ndata: ');

/** Streams without data after their first event. */
export class IdleStreams {
  private readonly port: number;
  private readonly request: RequestSource;
  private readonly sockets: net.Socket[] = [];
  private endedCount = 0;

  /** Loopback only. Each connection sends `request`, or the one of its number. */
  constructor(port: number, request: RequestSource) {
    this.port = port;
    this.request = request;
  }

  /** Streams that ended by themselves, which an idle one must not. */
  get ended(): number {
    return this.endedCount;
  }

  /** Opens this many more. Rejects when one of them is refused, or brings no event in time. */
  async open(count: number): Promise<void> {
    let left = count;
    const worker = async (): Promise<void> => {
      while (left-- > 0) await this.openOne();
    };
    await Promise.all(Array.from({ length: openedAtOnce }, worker));
  }

  /** Cuts all of them. Resolves when every socket has closed. */
  async close(): Promise<void> {
    const sockets = this.sockets.splice(0);
    await Promise.all(sockets.map((socket) => this.closeOne(socket)));
  }

  private closeOne(socket: net.Socket): Promise<void> {
    return new Promise((resolve) => {
      socket.removeListener('close', this.count);
      if (socket.closed) resolve();
      else socket.once('close', () => resolve());
      socket.destroy();
    });
  }

  private openOne(): Promise<void> {
    return new Promise((resolve, reject) => {
      const number = this.sockets.length;
      const socket = net.connect({ port: this.port, host: '127.0.0.1', noDelay: true });
      this.sockets.push(socket);
      let received = '';
      const refuse = (why: string): void => {
        clearTimeout(timer);
        reject(new Error(`A stream did not begin: ${why}. It had received: ${received.slice(0, 300)}`));
      };
      const timer = setTimeout(() => refuse(`no event within ${firstEventMs} ms`), firstEventMs);
      const early = (): void => refuse('its connection was closed');
      socket.once('close', early);
      socket.on('error', (error) => refuse(error.message));
      socket.on('data', (chunk: Buffer) => {
        received += chunk.toString('latin1');
        if (!received.includes(firstEvent.toString())) return;
        clearTimeout(timer);
        socket.removeAllListeners('data');
        socket.removeListener('close', early);
        socket.on('close', this.count);
        socket.resume();
        resolve();
      });
      const { request } = this;
      const bytes = typeof request === 'function' ? request(number) : request;
      socket.once('connect', () => socket.write(bytes));
    });
  }

  private readonly count = (): void => {
    this.endedCount++;
  };
}
