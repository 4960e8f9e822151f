import { Button, type ButtonProps } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { PenLine } from "lucide-react";
import type { ReactNode } from "react";
import { Refusal } from "@/components/Refusal";
import { useRefusal } from "@/hooks/use-refusal";

interface Props {
  /** The job whose file the editor begins with. */
  from?: string;
  variant?: ButtonProps["variant"];
  testId: string;
  children: ReactNode;
}

/** A link to the editor of jobs; disabled, with the reason, while an administrator impersonates the user. */
export function ComposeLink({ from, variant = "filled", testId, children }: Props) {
  const refusal = useRefusal();
  const look = { variant, size: "sm", leftSection: <PenLine size={16} />, "data-testid": testId };
  return (
    <Refusal reason={refusal}>
      {refusal === null ? (
        <Button {...look} renderRoot={(props) => <Link {...props} to="/compose" search={from === undefined ? {} : { from }} />}>
          {children}
        </Button>
      ) : (
        <Button {...look} disabled>
          {children}
        </Button>
      )}
    </Refusal>
  );
}
