import type { TestContext } from 'node:test';
import { delta, done, finish, pieces, role, usage } from '../../tests/kit/chat-stream-kit.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { startUpstream, type Answering } from '../../tests/kit/http-kit.ts';

/** A whole chat stream: a comment, three texts, the usage and the end marker. */
export const whole = [': ping\n\n', role, delta('one '), delta('two '), delta('three'), finish, usage, done];

/** A gateway whose answers pass through these plugins' taps. */
export async function tapped(
  t: TestContext,
  plugins: NonNullable<TestGatewayOptions['plugins']>,
  answer: Answering = pieces(whole),
  options: TestGatewayOptions = {},
) {
  const upstream = await startUpstream(t, answer);
  const gateway = await startTestGateway(t, {
    plugins: [...plugins, providerPlugin({ default: 'up' })],
    providers: { up: { base_url: upstream.url } },
    ...options,
  });
  return { gateway, upstream };
}
