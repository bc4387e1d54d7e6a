import { parseArgs } from 'node:util';

/** `weir explain …`. */
export interface ExplainCommand {
  readonly name: 'explain';
  /** Slug of a config, a file with one, or one as JSON. */
  readonly config: string;
  /** File with the request. */
  readonly request: string;
  /** The gateway's configuration; undefined for the usual one. */
  readonly file: string | undefined;
  readonly json: boolean;
}

export const explainUsage = `weir explain: how a request would be routed by a config, without sending anything

  weir explain --config X --request FILE [--file CONFIGURATION] [--json]

  X is the name of a config under "configs:", a file with a config (JSON or YAML), or a config as JSON.
  FILE holds the request as JSON: { "method": "POST", "path": "/v1/chat/completions", "headers": {}, "body": {} };
  all of it is optional, and x-service-metadata may be written as an object.
  CONFIGURATION is the gateway's file; default: gateway.config.yaml or WEIR_CONFIG.

  Prints what each branch decides and why, the order of tries with the settings of each, and where a failure leads.
  Ends with 1 when the config, the configuration or the request cannot be used.`;

/** Reads what follows `explain`. Throws an error with the reason for anything unclear. */
export function readExplainArguments(args: readonly string[], file: string | undefined): ExplainCommand {
  const { values } = parseArgs({
    args: [...args],
    options: {
      config: { type: 'string' },
      request: { type: 'string' },
      file: { type: 'string' },
      json: { type: 'boolean' },
    },
  });
  const { config, request } = values;
  if (!config) throw new Error('weir explain needs --config: a name, a file or a config as JSON.');
  if (!request) throw new Error('weir explain needs --request: a file with the request.');
  return { name: 'explain', config, request, file: values.file ?? file, json: values.json ?? false };
}
