import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Orbit } from "lucide-react";
import { EmptyState } from "@/components/EmptyState";

export function NotFoundPage() {
  return (
    <main style={{ paddingTop: "10vh" }}>
      <EmptyState
        icon={Orbit}
        heading
        title="There is no such page"
        action={
          <Button component={Link} to="/" mt="sm">
            Go to the front page
          </Button>
        }
      >
        The address may be mistyped, or it is of another version of the portal.
      </EmptyState>
    </main>
  );
}
