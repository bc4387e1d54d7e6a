import type { AnyCheck } from '../../../core/pipeline/plugin.ts';
import { jwt, log, validUrls, webhook } from './calls.ts';
import {
  allLowercase,
  allUppercase,
  characterCount,
  contains,
  endsWith,
  notNull,
  regexMatch,
  regexReplace,
  sentenceCount,
  wordCount,
} from './texts.ts';
import { gibberish, language, promptInjection } from './heuristics.ts';
import {
  allowedRequestTypes,
  modelRules,
  modelWhitelist,
  requiredMetadataKeys,
  requiredMetadataKeyValuePairs,
} from './models-and-requests.ts';
import { judge } from './judge.ts';
import { pii, secrets } from './personal-data.ts';
import { containsCode, jsonKeys, jsonSchema, sql } from './structure.ts';

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
