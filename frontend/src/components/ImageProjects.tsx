import { Alert, Button, Group, Modal, MultiSelect, Radio, Stack } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { catalogKeys, changeImage, type Image } from "@/api/catalog";
import { messageOf } from "@/api/problem";
import { projectsQuery } from "@/api/projects";
import { notifyDone } from "@/components/notify";

/** Which projects see an image: everybody, or the members of some. */
export function ImageProjects({ image, onClose }: { image: Image; onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const known = useQuery(projectsQuery).data?.items.map((project) => project.name) ?? [];
  const [everybody, setEverybody] = useState(image.projects.length === 0);
  const [projects, setProjects] = useState(image.projects);
  const save = useMutation({
    mutationFn: () => changeImage(image, { projects: everybody ? [] : projects }),
    onSuccess: () => {
      notifyDone(t("It is saved who sees the image."));
      onClose();
    },
    onSettled: () => void cache.invalidateQueries({ queryKey: catalogKeys.images }),
  });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Modal opened onClose={onClose} title={<strong>{t("Who sees {{name}} {{version}}?", { name: image.name, version: image.version })}</strong>} size="sm">
      <form onSubmit={submit}>
        <Stack gap="md">
          {save.error !== null && (
            <Alert color="red" role="alert">
              {messageOf(save.error)}
            </Alert>
          )}
          <Radio.Group aria-label={t("Who sees it")} value={everybody ? "all" : "some"} onChange={(value) => setEverybody(value === "all")}>
            <Stack gap={8}>
              <Radio value="all" label={t("Everybody")} data-autofocus={everybody || undefined} />
              <Radio value="some" label={t("Only members of these projects")} />
            </Stack>
          </Radio.Group>
          {!everybody && (
            <MultiSelect
              label={t("Projects")}
              data={[...new Set([...known, ...projects])].sort()}
              value={projects}
              onChange={setProjects}
              searchable
              data-testid="image-project-choice"
            />
          )}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>
              {t("Leave it")}
            </Button>
            <Button type="submit" loading={save.isPending} disabled={!everybody && projects.length === 0} data-testid="image-projects-save">
              {t("Save")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
