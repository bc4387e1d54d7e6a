import { Page } from '@/ui/page';

export default function Playground() {
  return <Page title="Playground">{null}</Page>;
}
