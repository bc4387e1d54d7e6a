import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';

/**
 * Where a model runs, below a base URL that ends in `/ai`. Its name keeps its slashes and its `@`. Throws
 * `invalid_request` for a name that would lead elsewhere.
 */
export function runPath({ model }: HostFacts): string {
  return `/run/${model.split('/').map(segment).join('/')}`;
}

function segment(text: string): string {
  if (text === '.' || text === '..') {
    throw new GatewayError(
      'invalid_request',
      'model must be the name of a model of Workers AI (@cf/…); found one with a dot segment.',
      { param: 'model' },
    );
  }
  return encodeURIComponent(text).replaceAll('%40', '@');
}
