import v8 from 'node:v8';
import vm from 'node:vm';

v8.setFlagsFromString('--expose-gc');

/** Collects the garbage of this process, of its young generation alone with `minor`. */
export const collectGarbage = vm.runInNewContext('gc') as (options?: { readonly type: 'minor' }) => void;
