import type { RequestFeature } from './request-feature.ts';

/** Caller, billing, and members of a single wire. */
export const accountFeatures: readonly RequestFeature[] = [
  {
    name: 'end user',
    marker: /user-7Qm2/,
    said: {
      'openai-chat': { user: 'user-7Qm2' },
      'openai-responses': { user: 'user-7Qm2' },
      'anthropic-messages': { metadata: { user_id: 'user-7Qm2' } },
      'openai-completions': { user: 'user-7Qm2' },
    },
  },
  {
    name: 'safety identifier',
    marker: /safe-7Qm2/,
    said: {
      'openai-chat': { safety_identifier: 'safe-7Qm2' },
      'openai-responses': { safety_identifier: 'safe-7Qm2' },
    },
  },
  {
    name: 'prompt cache key',
    marker: /key-7Qm2/,
    said: {
      'openai-chat': { prompt_cache_key: 'key-7Qm2' },
      'openai-responses': { prompt_cache_key: 'key-7Qm2' },
    },
  },
  {
    name: 'metadata',
    marker: /harbour-7Qm2/,
    said: {
      'openai-chat': { metadata: { place: 'harbour-7Qm2' } },
      'openai-responses': { metadata: { place: 'harbour-7Qm2' } },
    },
  },
  {
    name: 'service tier',
    said: {
      'openai-chat': { service_tier: 'priority' },
      'openai-responses': { service_tier: 'priority' },
      'anthropic-messages': { service_tier: 'standard_only' },
    },
  },
  {
    name: 'answer stored by the provider',
    marker: /"store":true/,
    said: { 'openai-chat': { store: true }, 'openai-responses': { store: true } },
  },
  {
    name: 'predicted output',
    marker: /Hello back\./,
    said: { 'openai-chat': { prediction: { type: 'content', content: 'Hello back.' } } },
  },
  {
    name: 'continued answer (`previous_response_id`), without [`stored-responses`](stored-responses.md)',
    marker: /resp_7Qm2/,
    said: { 'openai-responses': { previous_response_id: 'resp_7Qm2' } },
  },
  {
    name: 'cached content by name',
    marker: /cachedContents\/7Qm2/,
    said: { 'google-gemini': { cachedContent: 'cachedContents/7Qm2' } },
  },
  {
    name: 'safety settings',
    marker: /BLOCK_NONE/,
    said: {
      'google-gemini': {
        safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }],
      },
    },
  },
  {
    name: 'members that the gateway does not know',
    marker: /unknown-7Qm2/,
    said: {
      'openai-chat': { x_unknown: 'unknown-7Qm2' },
      'openai-responses': { x_unknown: 'unknown-7Qm2' },
      'anthropic-messages': { x_unknown: 'unknown-7Qm2' },
      'google-gemini': { xUnknown: 'unknown-7Qm2' },
      'openai-completions': { x_unknown: 'unknown-7Qm2' },
    },
  },
  {
    name: '`provider_options` for this provider',
    marker: /option-7Qm2/,
    saidTo: (egress) => ({ provider_options: { [egress]: { x_option: 'option-7Qm2' } } }),
    said: {
      'openai-chat': {},
      'openai-responses': {},
      'anthropic-messages': {},
      'google-gemini': {},
      'openai-completions': {},
    },
  },
];
