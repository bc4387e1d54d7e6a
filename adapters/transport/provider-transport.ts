import type {
  Transport,
  UpgradeCall,
  UpstreamCall,
  UpstreamHandler,
  UpstreamRequest,
} from '../../core/ports/transport.ts';

/** Prefix of the built-in provider's origins. */
const inProcessScheme = 'mock:';

/**
 * Carries requests to all providers: requests to the built-in provider are answered in this process, all others use the
 * network.
 */
export class ProviderTransport implements Transport {
  readonly #network: Transport & Required<Pick<Transport, 'upgrade'>>;
  readonly #inProcess: Transport;

  constructor(network: Transport & Required<Pick<Transport, 'upgrade'>>, inProcess: Transport) {
    this.#network = network;
    this.#inProcess = inProcess;
  }

  send(request: UpstreamRequest, handler: UpstreamHandler): UpstreamCall {
    const transport = request.origin.startsWith(inProcessScheme) ? this.#inProcess : this.#network;
    return transport.send(request, handler);
  }

  /** Over the network, also for the built-in provider where it has no such connections. */
  upgrade(request: UpstreamRequest): UpgradeCall {
    if (request.origin.startsWith(inProcessScheme) && this.#inProcess.upgrade !== undefined)
      return this.#inProcess.upgrade(request);
    return this.#network.upgrade(request);
  }

  async close(): Promise<void> {
    await Promise.all([this.#network.close(), this.#inProcess.close()]);
  }
}
