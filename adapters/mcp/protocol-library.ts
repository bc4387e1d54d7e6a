/** What of the protocol's library a handshake needs. */
export type ProtocolLibrary = Awaited<ReturnType<typeof importLibrary>>;

let library: Promise<ProtocolLibrary> | undefined;

/** The library, loaded the first time that it is asked for: hundreds of modules, which a start shall not wait for. */
export function protocolLibrary(): Promise<ProtocolLibrary> {
  library ??= importLibrary();
  return library;
}

async function importLibrary() {
  const [client, http, sse, types] = await Promise.all([
    import('@modelcontextprotocol/sdk/client/index.js'),
    import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    import('@modelcontextprotocol/sdk/client/sse.js'),
    import('@modelcontextprotocol/sdk/types.js'),
  ]);
  return {
    Client: client.Client,
    StreamableHTTPClientTransport: http.StreamableHTTPClientTransport,
    SSEClientTransport: sse.SSEClientTransport,
    McpError: types.McpError,
    methodNotFound: types.ErrorCode.MethodNotFound,
    /** By method; what an answer has beside what they name is dropped. */
    listSchemas: {
      'tools/list': types.ListToolsResultSchema,
      'prompts/list': types.ListPromptsResultSchema,
      'resources/list': types.ListResourcesResultSchema,
      'resources/templates/list': types.ListResourceTemplatesResultSchema,
    },
  };
}
