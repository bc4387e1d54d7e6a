import { readFile } from 'node:fs/promises';
import type { TestContext } from 'node:test';
import type { JsonObject } from '../../adapters/dialects/json-reading.ts';
import { startFakeProviders, type FakeProviders } from '../kit/fake-providers/fake-providers.ts';
import type { FakeWire } from '../kit/fake-providers/fake-wire.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../kit/gateway-kit.ts';
import { send, type Received } from '../kit/http-kit.ts';
import { chatClient } from '../../main/testing/clients/chat.ts';
import { geminiClient } from '../../main/testing/clients/gemini.ts';
import { messagesClient } from '../../main/testing/clients/messages.ts';
import { responsesClient } from '../../main/testing/clients/responses.ts';
import type { WireClient } from '../../main/testing/heard.ts';

/** Every caller of the grid. */
export const goldenClients: readonly WireClient[] = [
  chatClient,
  responsesClient,
  messagesClient,
  geminiClient,
];

/** The model that is asked for at the provider of a wire. */
export const askedModels: Readonly<Record<string, string>> = {
  'openai-chat': 'gpt-5.1',
  'openai-responses': 'gpt-5.1',
  'anthropic-messages': 'claude-sonnet-4-5',
  'google-gemini': 'gemini-2.5-flash',
  'bedrock-converse': 'eu.anthropic.claude-sonnet-4-5-20250929-v1:0',
  'cohere-v2': 'command-a-reasoning-08-2025',
};

/** A gateway in front of the fake providers. */
export interface GridGateway {
  readonly providers: FakeProviders;
  /** Sends a body to the provider of a wire, as this client does. */
  ask(
    client: WireClient,
    wire: FakeWire,
    body: string,
    options: { readonly stream: boolean; readonly headers?: Readonly<Record<string, string>> },
  ): Promise<Received>;
}

/** Starts both; they end with the test. */
export async function startGridGateway(
  t: TestContext,
  options: Pick<TestGatewayOptions, 'largeTranslation' | 'server'> = {},
): Promise<GridGateway> {
  const providers = await startFakeProviders(t);
  const gateway = await startTestGateway(t, {
    providers: providersAt(providers.url),
    plugins: [providerPlugin()],
    security: { trusted_hosts: [`127.0.0.1:${providers.port}`] },
    ...options,
  });
  return {
    providers,
    ask: (client, wire, body, { stream, headers }) =>
      send(gateway.url, {
        method: 'POST',
        path: client.path(askedModels[wire.dialect] as string, stream),
        body,
        headers: {
          'content-type': 'application/json',
          'x-service-provider': `@p-${wire.dialect}`,
          ...headers,
        },
      }),
  };
}

/** What a client asks in a scenario, without model and stream. */
export async function readRequest(client: WireClient, name: string): Promise<JsonObject> {
  const file = new URL(`./requests/${client.name}/${name}.json`, import.meta.url);
  return JSON.parse(await readFile(file, 'utf8')) as JsonObject;
}

function providersAt(url: string): NonNullable<TestGatewayOptions['providers']> {
  const key = 'sk-held-by-the-gateway';
  return {
    'p-openai-chat': { dialect: 'openai-chat', base_url: `${url}/openai/v1`, api_key: key },
    'p-openai-responses': { dialect: 'openai-responses', base_url: `${url}/openai/v1`, api_key: key },
    'p-anthropic-messages': { dialect: 'anthropic-messages', base_url: `${url}/anthropic/v1`, api_key: key },
    'p-google-gemini': { dialect: 'google-gemini', base_url: url, api_key: key },
    'p-bedrock-converse': {
      dialect: 'bedrock-converse',
      base_url: url,
      aws_region: 'eu-central-1',
      aws_access_key_id: 'AKIAGRID',
      aws_secret_access_key: 'wJalrXUtnFEMI',
    },
    'p-cohere-v2': { dialect: 'cohere-v2', base_url: url, api_key: key },
  };
}
