import { Page } from '@/ui/page';

export default function Home() {
  return <Page title="Home">{null}</Page>;
}
