import { Skeleton } from "@mantine/core";

/** What stands in a tab of a card while its content is loaded: as wide as the tab inside of its margin. */
export function TabSkeleton({ h }: { h: number }) {
  return <Skeleton h={h} m={20} w="auto" aria-busy="true" />;
}
