/** Where a value stands in what is known of a request: `metadata.user`, `params.tools[0].type`, `url.pathname`. */
export type FieldPath = readonly (string | number)[];
