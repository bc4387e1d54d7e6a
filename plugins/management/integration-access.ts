import { sharedAccess } from './shared-access.ts';

const access = sharedAccess('integration', { noun: 'integration', resource: 'integrations' });

/** The scopes one of which is needed to do something with integrations. */
export const integrationScopes = access.scopes;

/** Throws `scope_missing` when the key may not do this with integrations of the workspace, or of the organisation. */
export const requireIntegrationScope = access.require;

/** The integration that a path names. Throws `resource_not_found` or `scope_missing` for what the key may not. */
export const visibleIntegration = access.visible;

/** A page of the integrations that a key sees. */
export const seenIntegrations = access.seen;

/** The integration that a body names. Throws `invalid_request` for one that the workspace may not use. */
export const usableIntegration = access.usable;
