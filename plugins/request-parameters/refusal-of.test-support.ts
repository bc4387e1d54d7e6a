import type { GatewayError } from '../../core/errors/gateway-error.ts';
import { contextFor, testScope, type TestRequest } from '../../tests/kit/plugin-kit.ts';
import requestParameters, { type RequestParametersOptions } from './index.ts';

/** The refusal of this request under these options, or undefined when it passes. */
export async function refusalOf(
  options: RequestParametersOptions,
  request: TestRequest,
): Promise<GatewayError | undefined> {
  const hooks = await requestParameters.create(options, testScope().scope);
  try {
    await hooks.request?.(await contextFor(requestParameters, request));
    return undefined;
  } catch (error) {
    return error as GatewayError;
  }
}
