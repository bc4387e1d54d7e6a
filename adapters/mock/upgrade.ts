import type { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import type { UpgradeAnswer, UpgradeCall, UpstreamRequest } from '../../core/ports/transport.ts';
import { bodyFromBytes } from './body.ts';
import { headTimedOut, reset } from './call.ts';
import type { Conversation, MockService, ServedAnswer } from './service.ts';
import { acceptOf, MockSocket } from './web-socket.ts';

/** One request for WebSocket: the Realtime API switches, every other path answers in HTTP as it would without the wish. */
export class MockUpgrade implements UpgradeCall {
  readonly answer: Promise<UpgradeAnswer>;
  readonly #request: UpstreamRequest;
  readonly #clock: Clock;
  readonly #onOver: () => void;
  #settle: { resolve(answer: UpgradeAnswer): void; reject(error: GatewayError): void } | undefined;
  #connection: MockSocket | undefined;
  #stopWaiting: (() => void) | undefined;

  /** `onOver` runs when the call has failed, was declined, or its connection has closed. */
  constructor(request: UpstreamRequest, clock: Clock, onOver: () => void) {
    this.#request = request;
    this.#clock = clock;
    this.#onOver = onOver;
    this.answer = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
  }

  run(service: MockService): void {
    const { origin, method, path: target, headers, headTimeoutMs: bound } = this.#request;
    const received = { origin, method, target, headers, body: bodyFromBytes(new Uint8Array()) };
    const found = service.converse(received);
    const { faults } = found;
    const wait = faults.stall_before_head === true ? Infinity : (faults.latency_ms ?? 0);
    if (bound > 0 && bound < wait) this.#after(bound, () => this.#fail(headTimedOut(bound)));
    else if (wait !== Infinity) this.#after(wait, () => this.#head(found));
  }

  abort(error: GatewayError): void {
    if (this.#connection === undefined) this.#fail(error);
    else this.#connection.destroy();
  }

  #after(ms: number, run: () => void): void {
    if (ms > 0) this.#stopWaiting = this.#clock.after(ms, run);
    else queueMicrotask(run);
  }

  #head(found: Conversation | ServedAnswer): void {
    if (this.#settle === undefined) return;
    if (found.faults.reset_before_head === true) {
      this.#fail(reset('before its head', 'reset_before_head'));
    } else if ('session' in found) {
      this.#switch(found);
    } else {
      const { answer } = found;
      const body = answer.kind === 'plain' ? answer.body : Buffer.alloc(0);
      this.#resolve({ kind: 'declined', status: answer.status, headers: answer.headers, body });
      this.#onOver();
    }
  }

  #switch({ session, faults }: Conversation): void {
    const { headers } = this.#request;
    const connection = new MockSocket({
      ...{ session, clock: this.#clock, pauseMs: faults.chunk_latency_ms },
      resetAfter: faults.reset_after_chunks,
    });
    this.#connection = connection;
    connection.once('close', this.#onOver);
    const offered =
      headerValue(headers, 'sec-websocket-protocol')
        ?.split(',')
        .map((one) => one.trim()) ?? [];
    const protocol = offered.includes('realtime') ? 'realtime' : offered[0];
    this.#resolve({
      ...{ kind: 'switched', connection },
      headers: [
        ...['upgrade', 'websocket', 'connection', 'Upgrade'],
        ...['sec-websocket-accept', acceptOf(headerValue(headers, 'sec-websocket-key') ?? '')],
        ...(protocol === undefined ? [] : ['sec-websocket-protocol', protocol]),
      ],
    });
  }

  #resolve(answer: UpgradeAnswer): void {
    this.#settle?.resolve(answer);
    this.#settle = undefined;
  }

  #fail(error: GatewayError): void {
    this.#stopWaiting?.();
    if (this.#settle === undefined) return;
    this.#settle.reject(error);
    this.#settle = undefined;
    this.#onOver();
  }
}
