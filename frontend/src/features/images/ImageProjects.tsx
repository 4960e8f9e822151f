import { MultiSelect, Radio, Stack } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { catalogKeys, changeImage, type Image } from "@/api/catalog";
import { projectsQuery } from "@/api/projects";
import { FormDialog } from "@/components/FormDialog";
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
  return (
    <FormDialog
      title={t("Visibility of {{name}} {{version}}", { name: image.name, version: image.version })}
      action={t("Save")}
      testId="image-projects-save"
      size="sm"
      busy={save.isPending}
      disabled={!allUsers && projects.length === 0}
      error={save.error}
      cancels
      onClose={onClose}
      onSubmit={save.mutate}
    >
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
    </FormDialog>
  );
}
