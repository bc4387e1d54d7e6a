/** A feature of an answer: the text to find in the provider's answer and in the client's. */
export interface AnswerFeature {
  readonly name: string;
  /** `tests/fixtures/wire/<dialect>/grid-<fixture>.json`. */
  readonly fixture: string;
  readonly marker: RegExp;
}

/** Features of answers. */
export const answerFeatures: readonly AnswerFeature[] = [
  { name: 'text', fixture: 'text', marker: /The Danube flows/ },
  { name: 'tool call', fixture: 'tool-call', marker: /get_weather/ },
  { name: 'parallel tool calls', fixture: 'parallel-tools', marker: /get_tide/ },
  { name: 'thinking', fixture: 'reasoning', marker: /minus 9 is 42/ },
  { name: 'signature of thinking', fixture: 'reasoning', marker: /EqQBCkgIChABGAIq/ },
  { name: 'sources of citations', fixture: 'citations', marker: /rivers\.example\/danube/ },
  { name: 'refusal', fixture: 'refusal', marker: /flooding a village/ },
  {
    name: 'stopped by a filter',
    fixture: 'content-filter',
    marker: /"(content_filter|refusal|SAFETY|content_filtered)"/,
  },
  {
    name: 'stopped by length',
    fixture: 'max-tokens',
    marker: /"(length|max_output_tokens|max_tokens|MAX_TOKENS)"/,
  },
  { name: 'tokens from the cache', fixture: 'usage-details', marker: /[^0-9]1920[^0-9]/ },
  { name: 'tokens into the cache', fixture: 'usage-details', marker: /[^0-9]64[^0-9]/ },
  { name: 'tokens of thinking', fixture: 'usage-details', marker: /[^0-9]256[^0-9]/ },
  {
    name: 'tools that the provider ran',
    fixture: 'provider-tool',
    marker: /web_search_call|server_tool_use|executableCode|provider_tool/,
  },
];
