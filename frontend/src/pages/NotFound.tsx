import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Orbit } from "lucide-react";
import { useTranslation } from "react-i18next";
import { EmptyState } from "@/components/EmptyState";

export function NotFoundPage() {
  const { t } = useTranslation();
  return (
    <main style={{ paddingTop: "10vh" }}>
      <EmptyState
        icon={Orbit}
        heading
        title={t("There is no such page")}
        action={
          <Button component={Link} to="/" mt="sm">
            {t("Go to the front page")}
          </Button>
        }
      >
        {t("The address may be mistyped, or it is of another version of the portal.")}
      </EmptyState>
    </main>
  );
}
