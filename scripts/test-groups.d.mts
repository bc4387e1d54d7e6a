export declare const groups: Readonly<Record<'core' | 'plugins' | 'pure', readonly string[]>>;
export declare const suites: Readonly<Record<'deno' | 'postgres' | 'processes', RegExp>>;
export declare function hasOwnCommand(file: string): boolean;
