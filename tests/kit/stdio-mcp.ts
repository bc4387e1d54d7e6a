/** Run as a program: the server of scenes over its standard input and output. */
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { sceneMcp } from './scene-mcp.ts';

await sceneMcp().connect(new StdioServerTransport());
