import { GatewayError } from '../../errors/gateway-error.ts';
import type { Resources } from '../../ports/resources.ts';

/** For repeated jobs. None while the store is away: others tell of that, once for each outage, and the job comes again. */
export async function organisationsOf(
  resources: Pick<Resources, 'read'>,
): Promise<readonly { readonly id: string }[]> {
  try {
    return await resources.read(({ organisations }) => organisations.list());
  } catch (error) {
    if (GatewayError.is(error) && error.code === 'store_unavailable') return [];
    throw error;
  }
}
