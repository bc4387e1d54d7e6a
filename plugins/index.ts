import type { AnyPlugin } from '../core/pipeline/plugin.ts';
import mcp from './mcp/index.ts';
import policies from './policies/index.ts';
import prompts from './prompts/index.ts';
import provider from './provider/index.ts';
import addPrefix from './add-prefix/index.ts';
import auth from './auth/index.ts';
import cache from './cache/index.ts';
import console from './console/index.ts';
import guardrails from './guardrails/index.ts';
import inlineImage from './inline-image/index.ts';
import litellm from './litellm/index.ts';
import localClassifier from './local-classifier/index.ts';
import logger from './logger/index.ts';
import management from './management/index.ts';
import rateLimit from './rate-limit/index.ts';
import requestParameters from './request-parameters/index.ts';
import storedResponses from './stored-responses/index.ts';

/** The plugins that a configuration may use by their name alone. */
export const builtInPlugins: readonly AnyPlugin[] = [
  auth,
  prompts,
  requestParameters,
  addPrefix,
  rateLimit,
  policies,
  inlineImage,
  localClassifier,
  guardrails,
  cache,
  storedResponses,
  mcp,
  provider,
  logger,
  management,
  litellm,
  console,
];
