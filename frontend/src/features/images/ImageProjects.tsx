import { Alert, Button, Group, MultiSelect, Radio, Stack } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { catalogKeys, changeImage, type Image } from "@/api/catalog";
import { messageOf } from "@/api/problem";
import { projectsQuery } from "@/api/projects";
import { ChangeButton } from "@/components/ChangeButton";
import { CodeText } from "@/components/CodeText";
import { Modal } from "@/components/Modal";
import { notifyDone } from "@/components/notify";

/** The visibility of an image: all users, or the members of selected projects. */
export function ImageProjects({ image, onClose }: { image: Image; onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const projectNames = useQuery(projectsQuery).data?.items.map((project) => project.name) ?? [];
  const [allUsers, setAllUsers] = useState(image.projects.length === 0);
  const [projects, setProjects] = useState(image.projects);
  const save = useMutation({
    mutationFn: () => changeImage(image, { projects: allUsers ? [] : projects }),
    onSuccess: () => {
      notifyDone(t("Visibility saved."));
      onClose();
    },
    onSettled: () => void cache.invalidateQueries({ queryKey: catalogKeys.images }),
  });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Modal opened onClose={onClose} title={<strong>{t("Visibility of {{name}} {{version}}", { name: image.name, version: image.version })}</strong>} size="sm">
      <form onSubmit={submit}>
        <Stack gap="md">
          {save.error !== null && (
            <Alert color="red" role="alert">
              <CodeText>{messageOf(save.error)}</CodeText>
            </Alert>
          )}
          <Radio.Group aria-label={t("Visibility")} value={allUsers ? "all" : "some"} onChange={(value) => setAllUsers(value === "all")}>
            <Stack gap={8}>
              <Radio value="all" label={t("All users")} data-autofocus={allUsers || undefined} />
              <Radio value="some" label={t("Members of selected projects")} />
            </Stack>
          </Radio.Group>
          {!allUsers && (
            <MultiSelect
              label={t("Projects")}
              data={[...new Set([...projectNames, ...projects])].sort()}
              value={projects}
              onChange={setProjects}
              searchable
              limit={100}
              data-testid="image-project-choice"
            />
          )}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>
              {t("Cancel")}
            </Button>
            <ChangeButton type="submit" loading={save.isPending} disabled={!allUsers && projects.length === 0} data-testid="image-projects-save">
              {t("Save")}
            </ChangeButton>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
