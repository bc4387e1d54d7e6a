export declare const groups: Readonly<Record<'core' | 'plugins' | 'pure', readonly string[]>>;
