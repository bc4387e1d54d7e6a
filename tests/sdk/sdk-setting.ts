/** What every official SDK is tested against: a whole gateway with service keys, in front of one provider per wire. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { DialectName } from '../../core/dialects/endpoint.ts';
import auth from '../../plugins/auth/index.ts';
import { startFakeProviders, fakeWires, type Script } from '../kit/fake-providers/fake-providers.ts';
import type { SeenRequest } from '../kit/fake-providers/fake-wire.ts';
import {
  providerPlugin,
  startTestGateway,
  type PlacedPlugin,
  type TestGatewayOptions,
} from '../kit/gateway-kit.ts';
import { startFakeVectors } from './fake-vectors.ts';

/** The only credential that the SDKs know. */
export const serviceKey = 'wk_sdk_0123456789abcdef';

/** The proof of thinking in every `grid-reasoning` fixture. */
export const signature = 'EqQBCkgIChABGAIqQGdyaWQtc2lnbmF0dXJlLW9mLXRoZS10aGlua2luZy1ibG9jay0wMQ==';

/** Text of the `grid-text` fixtures, with everything that JSON and UTF-8 make difficult. */
export const riverText = 'The Danube flows through Vienna, Budapest and Belgrade. 🌊\n"Ünïcode" \\ stays.';

/** The model that is asked for at the provider of a wire. */
export const modelOf = {
  'openai-chat': 'gpt-5.1',
  'openai-responses': 'gpt-5.1',
  'anthropic-messages': 'claude-sonnet-4-5',
  'google-gemini': 'gemini-2.5-flash',
  'bedrock-converse': 'eu.anthropic.claude-sonnet-4-5-20250929-v1:0',
  'cohere-v2': 'command-a-reasoning-08-2025',
} as const satisfies Partial<Record<DialectName, string>>;

/** A wire that a provider of the setting speaks; the provider is called `p-<wire>`. */
export type ProviderWire = keyof typeof modelOf;

/** The provider that is part of the gateway, spoken to in OpenAI's wire as `@mock`. */
export const mockHeaders = { 'x-service-provider': '@p-mock' };

/** The gateway and what stands behind it. */
export interface SdkSetting {
  /** Without `/v1`. */
  readonly url: string;
  /** With `/v1`. */
  readonly baseUrl: string;
  /** What the providers answer from now on; forgets the requests that came before. */
  play(fixture: string, fault?: Script['fault']): void;
  /** The requests since `play`, each of which its vendor would take. */
  seen(): readonly SeenRequest[];
  /** The last of them. */
  lastSeen(): SeenRequest;
  /** Requests to the providers of embeddings and rankings. */
  readonly vectorRequests: readonly SeenRequest[];
}

/** What stands in the gateway beside the provider. */
export interface SdkSettingOptions extends Pick<TestGatewayOptions, 'cacheStore' | 'keys'> {
  /** Between `auth` and `provider`. */
  readonly plugins?: readonly PlacedPlugin[];
}

/** Starts it; it ends with the test. */
export async function startSdkSetting(
  t: TestContext,
  { plugins = [], ...options }: SdkSettingOptions = {},
): Promise<SdkSetting> {
  const providers = await startFakeProviders(t);
  const vectors = await startFakeVectors(t);
  const { url } = providers;
  const api_key = 'sk-held-by-the-gateway';
  const gateway = await startTestGateway(t, {
    providers: {
      'p-mock': { base_url: 'mock:', credentials: 'none' },
      'p-openai-chat': { dialect: 'openai-chat', base_url: `${url}/openai/v1`, api_key },
      'p-openai-responses': { dialect: 'openai-responses', base_url: `${url}/openai/v1`, api_key },
      'p-anthropic-messages': { dialect: 'anthropic-messages', base_url: `${url}/anthropic/v1`, api_key },
      'p-google-gemini': { dialect: 'google-gemini', base_url: url, api_key },
      'p-bedrock-converse': {
        dialect: 'bedrock-converse',
        base_url: url,
        aws_region: 'eu-central-1',
        aws_access_key_id: 'AKIAGRID',
        aws_secret_access_key: 'wJalrXUtnFEMI',
      },
      'p-cohere-v2': { dialect: 'cohere-v2', base_url: url, api_key },
      'v-google-gemini': { dialect: 'google-gemini', base_url: vectors.url, api_key },
      'v-cohere-v2': { dialect: 'cohere-v2', base_url: vectors.url, api_key },
      'v-bedrock-converse': {
        dialect: 'bedrock-converse',
        base_url: vectors.url,
        aws_region: 'eu-central-1',
        aws_access_key_id: 'AKIAGRID',
        aws_secret_access_key: 'wJalrXUtnFEMI',
      },
    },
    ...options,
    plugins: [
      { plugin: auth, options: { keys: [{ name: 'sdk', key: serviceKey }] } },
      ...plugins,
      providerPlugin(),
    ],
    security: { trusted_hosts: [`127.0.0.1:${providers.port}`, `127.0.0.1:${vectors.port}`] },
  });
  const seen = (): readonly SeenRequest[] => {
    for (const request of providers.seen) {
      assert.doesNotMatch(JSON.stringify(request.headers), /wk_sdk/, 'the service key went to a provider');
      const wire = fakeWires.find((one) => one.asked(request) !== undefined);
      assert.deepEqual(
        wire?.violations(request),
        [],
        `${wire?.dialect} would refuse ${request.bytes.toString()}`,
      );
    }
    return providers.seen;
  };
  return {
    url: gateway.url,
    baseUrl: `${gateway.url}/v1`,
    vectorRequests: vectors.requests,
    seen,
    play(fixture, fault) {
      providers.play(fault === undefined ? { fixture } : { fixture, fault });
    },
    lastSeen() {
      const last = seen().at(-1);
      assert.ok(last, 'the provider got no request');
      return last;
    },
  };
}

/** Default headers with which an SDK reaches the provider of a wire. */
export function providerHeaders(wire: ProviderWire): Record<string, string> {
  return { 'x-service-provider': `@p-${wire}` };
}

/** What the promise is rejected with. Fails when it is fulfilled, showing its value. */
export async function failureOf(promise: PromiseLike<unknown>): Promise<Error> {
  const failure: unknown = await promise.then(
    (value) => assert.fail(`it succeeded: ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
  assert.ok(failure instanceof Error);
  return failure;
}
