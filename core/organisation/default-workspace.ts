/** Slug of the workspace that the gateway makes itself: requests without a workspace of their own belong to it. */
export const defaultWorkspaceSlug = 'ws-default';
