import { Button, Group, Modal, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { drainNode, resumeNode } from "@/api/actions";
import { keys } from "@/api/queries";
import type { ClusterNode } from "@/api/types";
import { notifyDone, notifyProblem } from "@/components/notify";
import { CLOSED } from "@/lib/nodes";

/** Drain and resume, for administrators. */
export function NodeActions({ node }: { node: ClusterNode }) {
  const cache = useQueryClient();
  const [asking, setAsking] = useState(false);
  const settled = () => void cache.invalidateQueries({ queryKey: keys.nodes });
  const resume = useMutation({
    mutationFn: () => resumeNode(node.name),
    onSuccess: () => notifyDone(`${node.name} takes work again.`),
    onError: (error) => notifyProblem(`${node.name} was not resumed`, error),
    onSettled: settled,
  });
  const drain = useMutation({
    mutationFn: (reason: string) => drainNode(node.name, reason),
    onSuccess: () => {
      setAsking(false);
      notifyDone(`${node.name} gets no new work.`);
    },
    onError: (error) => notifyProblem(`${node.name} was not drained`, error),
    onSettled: settled,
  });
  if (CLOSED.has(node.state)) {
    return (
      <Button
        variant="subtle"
        size="compact-sm"
        loading={resume.isPending}
        onClick={() => resume.mutate()}
        aria-label={`Resume ${node.name}`}
        data-testid="node-resume"
      >
        Resume
      </Button>
    );
  }
  return (
    <>
      <Button
        variant="subtle"
        size="compact-sm"
        onClick={() => setAsking(true)}
        aria-label={`Drain ${node.name}`}
        data-testid="node-drain"
      >
        Drain
      </Button>
      {asking && (
        <DrainModal
          name={node.name}
          busy={drain.isPending}
          onClose={() => setAsking(false)}
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
  const [reason, setReason] = useState("");
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    onDrain(reason.trim());
  };
  return (
    <Modal opened onClose={onClose} title={<strong>Drain {name}?</strong>} size="sm">
      <form onSubmit={submit}>
        <Text size="sm" mb="md">
          What runs there goes on to its end; nothing new starts until somebody resumes it.
        </Text>
        <TextInput
          label="Reason"
          description="Everybody who looks at the cluster sees it."
          value={reason}
          maxLength={200}
          required
          onChange={(event) => setReason(event.currentTarget.value)}
          data-autofocus
          data-testid="drain-reason"
        />
        <Group justify="flex-end" mt="lg" gap="xs">
          <Button variant="default" onClick={onClose}>
            Keep it open
          </Button>
          <Button type="submit" loading={busy} disabled={reason.trim() === ""} data-testid="drain-yes">
            Drain
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
