import type { AnyCheck } from '../../../core/pipeline/plugin.ts';
import { callChecks } from './calls.ts';
import { heuristicChecks } from './heuristics.ts';
import { judge } from './judge.ts';
import { requestChecks } from './models-and-requests.ts';
import { findingChecks } from './personal-data.ts';
import { structureChecks } from './structure.ts';
import { textChecks } from './texts.ts';

/** The checks that the gateway brings. */
export const builtInChecks: readonly AnyCheck[] = [
  ...textChecks,
  ...structureChecks,
  ...requestChecks,
  ...findingChecks,
  ...heuristicChecks,
  ...callChecks,
  judge,
];
