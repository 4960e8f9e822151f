import { Alert } from "@mantine/core";
import { CircleAlert } from "lucide-react";
import { Trans } from "react-i18next";
import { langOf, messageOf } from "@/api/problem";
import { CodeText } from "@/components/CodeText";
import { formatTicking } from "@/lib/time";

/** The error of a form, and the delay before the next attempt if there is one. */
export function FormProblem({ error, wait = 0, id }: { error: unknown; wait?: number; id?: string }) {
  if (error === null || error === undefined) return null;
  return (
    <Alert color="red" icon={<CircleAlert size={18} />} role="alert" data-testid={id}>
      <span lang={langOf(error)}><CodeText>{typeof error === "string" ? error : messageOf(error)}</CodeText></span>{" "}
      {wait > 0 && (
        <Trans
          i18nKey="Try again in <strong>{{time}}</strong>."
          values={{ time: formatTicking(wait) }}
          components={{ strong: <strong className="tabular" /> }}
        />
      )}
    </Alert>
  );
}
