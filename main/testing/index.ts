/**
 * `weir-gateway/testing`: a gateway in the process of a test, with the plugin under test and a provider that answers as
 * the test says.
 * @module
 */
import type { GatewayOptions, TestGateway } from './contract.ts';
import { inspectGateway } from './gateway.ts';

export * from './contract.ts';

/** Starts a gateway. Rejects with everything that is wrong with the plugin or its options. */
export async function startGateway(options: GatewayOptions): Promise<TestGateway> {
  return (await inspectGateway(options)).gateway;
}

/** Every way of cutting a text in two, and the text letter by letter: for `answer` of `ask`. */
export function cutsOf(text: string): readonly (readonly string[])[] {
  const letters = [...text];
  const halves = letters
    .slice(1)
    .map((_, at) => [letters.slice(0, at + 1).join(''), letters.slice(at + 1).join('')]);
  return [...halves, letters];
}
