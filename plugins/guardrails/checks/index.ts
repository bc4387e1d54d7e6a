import type { AnyCheck } from '../../../core/pipeline/plugin.ts';
import { jwt, log, validUrls, webhook } from './calls.ts';
import {
  allLowercase,
  allUppercase,
  characterCount,
  endsWith,
  notNull,
  sentenceCount,
  wordCount,
} from './counts.ts';
import { gibberish, language, promptInjection } from './heuristics.ts';
import {
  allowedRequestTypes,
  modelRules,
  modelWhitelist,
  requiredMetadataKeys,
  requiredMetadataKeyValuePairs,
} from './models-and-requests.ts';
import { judge } from './judge.ts';
import { pii } from './personal-data.ts';
import { secrets } from './secrets.ts';
import { containsCode, jsonKeys, jsonSchema, sql } from './structure.ts';
import { contains, regexMatch, regexReplace } from './texts.ts';

/** The checks that the gateway brings. */
export const builtInChecks: readonly AnyCheck[] = [
  ...[regexMatch, regexReplace, contains],
  ...[sentenceCount, wordCount, characterCount, allUppercase, allLowercase, endsWith, notNull],
  ...[jsonSchema, jsonKeys, containsCode, sql],
  ...[modelWhitelist, modelRules, allowedRequestTypes, requiredMetadataKeys, requiredMetadataKeyValuePairs],
  ...[pii, secrets],
  ...[promptInjection, gibberish, language],
  ...[webhook, log, jwt, validUrls, judge],
];
