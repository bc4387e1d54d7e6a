export type Group =
  | 'adapters'
  | 'core'
  | 'integration'
  | 'journal'
  | 'lifecycle'
  | 'plugins'
  | 'pure'
  | 'rules'
  | 'sdk'
  | 'storage';
export declare const groups: Readonly<Record<Group, readonly string[]>>;
export declare function fileOfGroup(group: Group): string;
export declare function groupFiles(group: Group): string[];
export declare const suites: Readonly<
  Record<'analytics' | 'chaos' | 'deno' | 'postgres' | 'processes', RegExp>
>;
export type Shared = 'console' | 'management';
export declare function sharedFiles(name: Shared, process: number, isBounded: boolean): string[];
export declare function runOfSuite(suite: string, isBounded: boolean): string[];
export declare const unbounded: Readonly<Record<'deno' | 'postgres', RegExp>>;
export declare const runnerArguments: readonly string[];
export declare function hasOwnCommand(file: string): boolean;
export declare function testFiles(root: string): string[];
/** Files of `-- --bounded` by release. */
export declare const newerNodes: Readonly<Record<string, readonly string[]>>;
