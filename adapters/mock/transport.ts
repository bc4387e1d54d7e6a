import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Transport } from '../../core/ports/transport.ts';
import { MockCall, MockUpgrade } from './call.ts';
import { FileStore, idsFrom, JobStore } from './stores.ts';
import { MockService } from './service.ts';

/** Dependencies of a mock provider. */
interface MockTransportOptions {
  readonly clock: Clock;
  /** Numbers from 0 to below 1, for identifiers. Default: the system's random source. */
  readonly random?: () => number;
}

/**
 * The built-in `mock` provider: a transport that answers in this process. Serves requests with origin `mock:` or
 * `mock:?latency_ms=200&…`. Uploaded files and created jobs exist as long as the transport.
 */
export function createMockTransport(options: MockTransportOptions): Transport {
  const { clock } = options;
  const service = new MockService({
    newId: idsFrom(options.random),
    nowSeconds: () => Math.floor(clock.now() / 1000),
    files: new FileStore(),
    jobs: new JobStore(),
  });
  const open = new Set<MockCall | MockUpgrade>();
  let closed = false;
  const goingAway = () => new GatewayError('shutting_down', 'The mock provider has been closed.');
  return {
    send(request, handler) {
      const call: MockCall = new MockCall(request, handler, clock, () => open.delete(call));
      open.add(call);
      if (closed) queueMicrotask(() => call.abort(goingAway()));
      else void call.run(service);
      return call;
    },
    upgrade(request) {
      const call: MockUpgrade = new MockUpgrade(request, clock, () => open.delete(call));
      open.add(call);
      if (closed) queueMicrotask(() => call.abort(goingAway()));
      else call.run(service);
      return call;
    },
    close() {
      closed = true;
      for (const call of open) call.abort(goingAway());
      return Promise.resolve();
    },
  };
}
