import { describeRuntime } from './suite.ts';

describeRuntime('deno');
