import { Skeleton, Stack } from "@mantine/core";
import { useTranslation } from "react-i18next";

/** Placeholder while a page's code or the login is fetched. */
export function PageLoading() {
  const { t } = useTranslation();
  return (
    <Stack gap="md" p="lg" maw={1240} mx="auto" w="100%" aria-busy="true">
      <span className="visually-hidden" role="status">
        {t("Loading")}
      </span>
      <Skeleton h={34} w={220} />
      <Skeleton h={150} />
      <Skeleton h={90} />
    </Stack>
  );
}
