import { Skeleton, Stack } from "@mantine/core";

/** While a page's own code or the login is being fetched. */
export function PageLoading() {
  return (
    <Stack gap="md" p="lg" maw={1240} mx="auto" w="100%" aria-busy="true">
      <span className="visually-hidden" role="status">
        Loading
      </span>
      <Skeleton h={34} w={220} />
      <Skeleton h={150} />
      <Skeleton h={90} />
    </Stack>
  );
}
