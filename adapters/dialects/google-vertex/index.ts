export { googleVertexHost } from './host.ts';
