/**
 * Members of requests that rules read, by their places. Some providers take `Model` for `model` (Go's decoder does): a
 * rule that looks for `model` would not see it, so another spelling of a known member is refused. All other
 * places are free: JSON schemas, arguments, metadata, answers of tools.
 */
interface KnownMembers {
  /** By the hash of their bytes: the names themselves, and their lower-case spellings where these are others. */
  readonly byHash: ReadonlyMap<number, KnownMember>;
  /** By their folded names. */
  readonly byFolded: ReadonlyMap<string, KnownMember>;
}

/** One of them. */
interface KnownMember {
  readonly name: string;
  readonly bytes: Uint8Array;
  /** These bytes are a spelling that is refused. */
  readonly isMisspelled: boolean;
  /** Known members of the object that is its value, or of the objects in the list that is its value. */
  readonly below: KnownMembers | undefined;
  /** Objects that are its value themselves, without a list, are free. */
  readonly inLists: boolean;
}

/** The hash of a name's bytes, as the guard computes it while it reads. */
function hashOf(bytes: Uint8Array): number {
  let hash = bytes.length;
  for (const byte of bytes) hash = (Math.imul(hash, 31) + byte) | 0;
  return hash;
}

/** Folds a name as case-insensitive decoders do: Go's also folds the long s and the kelvin sign. */
export function folded(name: string): string {
  return name.toLowerCase().replaceAll('ſ', 's').replaceAll('\u212a', 'k');
}

class Members implements KnownMembers {
  readonly byHash = new Map<number, KnownMember>();
  readonly byFolded = new Map<string, KnownMember>();

  /** `names`: words with spaces between them. `below`: the known members of their values. */
  constructor(names: string, below: Readonly<Record<string, KnownMembers>> = {}) {
    for (const name of names.split(' ')) this.add(name, undefined);
    for (const [name, members] of Object.entries(below)) this.add(name, members);
  }

  add(name: string, below: KnownMembers | undefined, inLists = false): void {
    const member = { name, bytes: Buffer.from(name), isMisspelled: false, below, inLists };
    const lower = folded(name);
    this.byFolded.set(lower, member);
    this.byHash.set(hashOf(member.bytes), member);
    if (lower === name) return;
    const bytes = Buffer.from(lower);
    this.byHash.set(hashOf(bytes), { ...member, bytes, isMisspelled: true });
  }
}

const cacheControl = new Members('type ttl');
const call = new Members('id name arguments args input response');
const toolCall = new Members('id type index', { function: call, custom: call });
const inlineData = new Members('mimeType mime_type data displayName');
const fileData = new Members('mimeType mime_type fileUri file_uri displayName');

/** Messages, the items of Responses, Gemini's contents, and the parts of all of them. */
const spoken = new Members(
  'role name type id status text refusal reasoning_content thinking signature data title context citations ' +
    'tool_call_id tool_use_id call_id is_error input arguments encrypted_content file_id file_url filename detail ' +
    'thought thoughtSignature thought_signature audio action',
  {
    tool_calls: toolCall,
    function_call: call,
    functionCall: call,
    functionResponse: call,
    function_response: call,
    image_url: new Members('url detail'),
    input_audio: new Members('data format'),
    file: new Members('file_data file_id filename'),
    inlineData,
    inline_data: inlineData,
    fileData,
    file_data: fileData,
    cache_control: cacheControl,
  },
);
for (const name of ['content', 'parts', 'output', 'summary']) spoken.add(name, spoken);
const source = new Members('type media_type data url file_id');
source.add('content', spoken);
spoken.add('source', source);

const declaration = new Members(
  'name description parameters parametersJsonSchema response strict behavior input_schema format',
);
const tool = new Members(
  'type name description parameters input_schema strict format max_uses allowed_domains blocked_domains ' +
    'googleSearch codeExecution urlContext server_label server_url',
  {
    function: declaration,
    custom: declaration,
    cache_control: cacheControl,
    functionDeclarations: declaration,
    function_declarations: declaration,
  },
);
const allowedTools = new Members('mode', { tools: tool });
const toolChoice = new Members('type name mode disable_parallel_tool_use', {
  function: call,
  custom: call,
  tools: tool,
  allowed_tools: allowedTools,
});
const callingConfig = new Members('mode allowedFunctionNames allowed_function_names');
const toolConfig = new Members('includeServerSideToolInvocations', {
  functionCallingConfig: callingConfig,
  function_calling_config: callingConfig,
});
const thinkingConfig = new Members('includeThoughts thinkingBudget thinkingLevel');
const generationConfig = new Members(
  'temperature topP topK candidateCount maxOutputTokens stopSequences responseMimeType responseSchema ' +
    'responseJsonSchema seed presencePenalty frequencyPenalty responseLogprobs logprobs responseModalities ' +
    'speechConfig mediaResolution top_p top_k candidate_count max_output_tokens stop_sequences response_mime_type ' +
    'response_schema',
  { thinkingConfig, thinking_config: thinkingConfig },
);

const request = new Members(
  'model models prompt stream n user metadata max_tokens max_completion_tokens max_output_tokens ' +
    'max_tokens_to_sample temperature top_p top_k stop seed store previous_response_id',
  {
    messages: spoken,
    system: spoken,
    instructions: spoken,
    contents: spoken,
    systemInstruction: spoken,
    system_instruction: spoken,
    tools: tool,
    functions: declaration,
    tool_choice: toolChoice,
    function_call: call,
    toolConfig,
    tool_config: toolConfig,
    generationConfig,
    generation_config: generationConfig,
    response_format: new Members('type', {
      json_schema: new Members('name description schema strict'),
    }),
    reasoning: new Members('effort summary generate_summary max_tokens enabled exclude'),
    thinking: new Members('type budget_tokens display'),
    stream_options: new Members('include_usage include_obfuscation'),
  },
);
// Models of Replicate and DashScope take an object: every model has members of its own.
request.add('input', spoken, true);

/** Known members of the body of a request. */
export const requestMembers: KnownMembers = request;
