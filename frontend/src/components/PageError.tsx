import { Button, Code, Stack, Text, Title } from "@mantine/core";
import { CloudOff, RotateCw, SearchX, ShieldX, TriangleAlert } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { ApiProblem, langOf, messageOf } from "@/api/problem";
import { CodeText } from "@/components/CodeText";

interface Props {
  error: unknown;
  /** Its result, if a promise, is awaited: the button shows that the retry is under way. */
  onRetry?: (() => unknown) | undefined;
  compact?: boolean;
  /** Whether the error replaces the whole page: its title is then the page's heading. */
  whole?: boolean;
}

/** An error with its description and a retry button where retrying can help. */
export function PageError({ error, onRetry, compact, whole }: Props) {
  const { t } = useTranslation();
  const [retrying, setRetrying] = useState(false);
  const retry = async () => {
    setRetrying(true);
    await onRetry?.();
    setRetrying(false);
  };
  const problem = error instanceof ApiProblem ? error : null;
  const Icon = problem?.unreachable
    ? CloudOff
    : problem?.status === 404
      ? SearchX
      : problem?.status === 403
        ? ShieldX
        : TriangleAlert;
  return (
    <Stack align="center" gap="xs" py={compact ? "lg" : 72} px="md" ta="center" role="alert">
      <Icon size={whole ? 40 : 26} strokeWidth={1.5} color="var(--neutral)" aria-hidden />
      <Title order={whole ? 1 : compact ? 3 : 2} size={whole ? "h3" : "h5"}>
        {problem?.status === 403 ? t("Not allowed") : (problem?.title ?? t("This section could not be displayed"))}
      </Title>
      <Text c="dimmed" size="sm" maw={520} lang={langOf(error)}>
        <CodeText>{messageOf(error)}</CodeText>
      </Text>
      {problem && problem.status >= 500 && !problem.unreachable && <Code>{problem.code}</Code>}
      {onRetry && problem?.status !== 404 && problem?.status !== 403 && (
        <Button variant="default" size="sm" mt="xs" leftSection={<RotateCw size={15} />} loading={retrying} onClick={() => void retry()}>
          {t("Try again")}
        </Button>
      )}
    </Stack>
  );
}
