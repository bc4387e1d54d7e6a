export declare const groups: Readonly<Record<'core' | 'plugins' | 'pure' | 'rules', readonly string[]>>;
export declare const suites: Readonly<Record<'analytics' | 'deno' | 'postgres' | 'processes', RegExp>>;
export declare function hasOwnCommand(file: string): boolean;
export declare function testFiles(root: string): string[];
