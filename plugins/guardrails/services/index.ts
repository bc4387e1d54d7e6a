import type { AnyCheck } from '../../../core/pipeline/plugin.ts';
import { serviceCheck } from './ask-service.ts';
import { cloudServices } from './rows-clouds.ts';
import { qualityServices } from './rows-quality.ts';
import { securityServices } from './rows-security.ts';
import type { ServiceRow } from './service.ts';

/** Every service that can be asked: one row for each check. */
export const services: readonly ServiceRow[] = [...cloudServices, ...securityServices, ...qualityServices];

/** The checks that ask them. */
export const serviceChecks: readonly AnyCheck[] = services.map(serviceCheck);
