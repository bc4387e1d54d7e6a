/** Requests through providers that are stored. */
import type { TestContext } from 'node:test';
import type { TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { send, type Answering } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { key, ours, routed } from '../../tests/kit/routing-kit.ts';
import type { StoredRecord } from '../ports/records.ts';
import type { RouteConfigInput } from '../organisation/route-config.ts';
import { integration, provider, recordsDirectory } from './stored-records.test-support.ts';

/** Path of the tests' requests. */
export const path = '/v1/chat/completions';
/** Body of the tests' requests. */
export const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
/** A config in its header. */
export const asHeader = (config: RouteConfigInput) => ({ 'x-service-config': JSON.stringify(config) });
/** A key of another workspace, `ws-2`. */
export const theirs = 'wk_of-another-workspace';

/** A gateway with these stored records, in front of one upstream server. */
export async function started(
  t: TestContext,
  records: readonly StoredRecord[] = [integration({ key: 'sk-stored' }), provider()],
  options: TestGatewayOptions & { answer?: Answering } = {},
) {
  const directory = recordsDirectory(records);
  const all = await routed(t, {
    directory,
    keys: { [ours]: testKey(), [theirs]: testKey({ id: 'key-2', workspaceId: 'ws-2' }) },
    ...options,
  });
  const ask = (headers: Record<string, string>, asked: object = body) =>
    send(all.gateway.url, { path, headers: { ...key, ...headers }, body: asked });
  return { ...all, directory, ask };
}

/** The credential that an upstream server received. */
export const bearer = (text: string) => ({
  authorization: `Bearer ${text}`,
  boxed: undefined,
  azure: undefined,
});
/** Status, code and message of a refusal. */
export const refusal = (answer: Awaited<ReturnType<typeof send>>) => {
  const { error } = answer.json() as { error: { code: string; message: string } };
  const { code, message } = error;
  return { status: answer.status, code, message };
};
