import { Download, ThumbsUp } from 'lucide-react';
import type { Place } from '@/shell/places';
import { common } from '@/texts/common';

const { nav } = common;

/** Places that follow the log and the traces. */
export const watchPlaces: readonly Place[] = [
  {
    ...{ path: '/feedback', text: nav.feedback, group: 'watch', icon: ThumbsUp, scopes: ['analytics.view'] },
    words: 'scores thumbs quality',
    page: () => import('@/pages/feedback/feedback'),
  },
  {
    ...{ path: '/exports', text: nav.exports, group: 'watch', icon: Download, scopes: ['logs.export'] },
    words: 'csv parquet file download logs',
    page: () => import('@/pages/exports/exports'),
  },
];
