import { Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { drainNode, resumeNode } from "@/api/actions";
import { keys } from "@/api/queries";
import type { ClusterNode } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { FormDialog } from "@/components/FormDialog";
import { notifyDone, notifyProblem } from "@/components/notify";
import { CLOSED } from "./nodes";

/** Drain and resume buttons for administrators. */
export function NodeActions({ node }: { node: ClusterNode }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [confirming, setConfirming] = useState(false);
  const refresh = () => void cache.invalidateQueries({ queryKey: keys.nodes });
  const resume = useMutation({
    mutationFn: () => resumeNode(node.name),
    onSuccess: () => notifyDone(t("{{name}} resumed.", { name: node.name })),
    onError: (error) => notifyProblem(t("{{name}} was not resumed", { name: node.name }), error),
    onSettled: refresh,
  });
  const drain = useMutation({
    mutationFn: (reason: string) => drainNode(node.name, reason),
    onSuccess: () => {
      setConfirming(false);
      notifyDone(t("{{name}} is draining.", { name: node.name }));
    },
    onError: (error) => notifyProblem(t("{{name}} was not drained", { name: node.name }), error),
    onSettled: refresh,
  });
  if (CLOSED.has(node.state)) {
    return (
      <ChangeButton
        variant="subtle"
        size="compact-sm"
        loading={resume.isPending}
        onClick={() => resume.mutate()}
        aria-label={t("Resume {{name}}", { name: node.name })}
        data-testid="node-resume"
      >
        {t("Resume")}
      </ChangeButton>
    );
  }
  return (
    <>
      <ChangeButton
        variant="subtle"
        size="compact-sm"
        onClick={() => setConfirming(true)}
        aria-label={t("Drain {{name}}", { name: node.name })}
        data-testid="node-drain"
      >
        {t("Drain")}
      </ChangeButton>
      {confirming && (
        <DrainModal
          name={node.name}
          busy={drain.isPending}
          onClose={() => setConfirming(false)}
          onDrain={(reason) => drain.mutate(reason)}
        />
      )}
    </>
  );
}

interface ModalProps {
  name: string;
  busy: boolean;
  onClose: () => void;
  onDrain: (reason: string) => void;
}

function DrainModal({ name, busy, onClose, onDrain }: ModalProps) {
  const { t } = useTranslation();
  const [reason, setReason] = useState("");
  return (
    <FormDialog
      title={t("Drain {{name}}?", { name })}
      action={t("Drain")}
      testId="drain-yes"
      size="sm"
      busy={busy}
      disabled={reason.trim() === ""}
      error={null}
      cancels
      onClose={onClose}
      onSubmit={() => onDrain(reason.trim())}
    >
      <Text size="sm">{t("Running jobs continue. No new jobs start on this node until it is resumed.")}</Text>
      <TextInput
        label={t("Reason")}
        description={t("Visible to all users.")}
        value={reason}
        maxLength={200}
        required
        onChange={(event) => setReason(event.currentTarget.value)}
        data-autofocus
        data-testid="drain-reason"
      />
    </FormDialog>
  );
}
