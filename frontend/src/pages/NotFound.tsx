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
        title={t("Page not found")}
        action={
          <Button component={Link} to="/" mt="sm">
            {t("Go to home page")}
          </Button>
        }
      >
        {t("The address may be incorrect or belong to another version of the portal.")}
      </EmptyState>
    </main>
  );
}
