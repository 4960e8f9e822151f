import { ActionIcon, Menu, UnstyledButton } from "@mantine/core";
import { Bookmark, Ellipsis, PenLine, Trash2 } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Preset, TemplatesChange } from "@/api/preferences";
import { Confirm } from "@/components/Confirm";
import { useRefusal } from "@/hooks/use-refusal";
import { describeFile } from "./describe-file";
import { renamedPreset, withoutPreset } from "./templates";
import classes from "@/components/Dashboard.module.css";

/** Loaded when it opens: the front page has no other dialog with a form. */
const RenamePreset = lazy(async () => ({ default: (await import("./RenamePreset")).RenamePreset }));

interface Props {
  /** The template's title. */
  title: string;
  presets: readonly Preset[];
  onOpen: (preset: Preset) => void;
  onPrepare: () => void;
  onChange: (change: TemplatesChange) => void;
}

/** The presets of a template: each opens the launch form with its values. */
export function PresetList({ title, presets, onOpen, onPrepare, onChange }: Props) {
  const { t } = useTranslation();
  const refusal = useRefusal();
  const [renaming, setRenaming] = useState<Preset | null>(null);
  const [deleting, setDeleting] = useState<Preset | null>(null);
  return (
    <>
      <ul className={classes.presets} aria-label={t("Presets of {{title}}", { title })}>
        {presets.map((preset) => (
          <li key={preset.name}>
            <UnstyledButton className={classes.preset} onClick={() => onOpen(preset)} onPointerEnter={onPrepare} onFocus={onPrepare} data-testid="preset">
              <Bookmark size={14} aria-hidden />
              <span className="truncate">{preset.name}</span>
              <span className={`${classes.presetText ?? ""} truncate`}>{describeFile(preset.file)}</span>
            </UnstyledButton>
            <Menu position="bottom-end">
              <Menu.Target>
                <ActionIcon variant="subtle" color="gray" aria-label={t("Actions for preset {{name}}", { name: preset.name })} data-testid="preset-menu">
                  <Ellipsis size={16} />
                </ActionIcon>
              </Menu.Target>
              <Menu.Dropdown>
                {refusal !== null && <Menu.Label>{refusal}</Menu.Label>}
                <Menu.Item leftSection={<PenLine size={15} />} disabled={refusal !== null} onClick={() => setRenaming(preset)}>
                  {t("Rename")}
                </Menu.Item>
                <Menu.Item color="red" leftSection={<Trash2 size={15} />} disabled={refusal !== null} onClick={() => setDeleting(preset)} data-testid="preset-delete">
                  {t("Delete")}
                </Menu.Item>
              </Menu.Dropdown>
            </Menu>
          </li>
        ))}
      </ul>
      {renaming && (
        <Suspense>
          <RenamePreset
            preset={renaming}
            taken={presets.map((preset) => preset.name)}
            onClose={() => setRenaming(null)}
            onRename={(name) => onChange((old) => ({ ...old, presets: renamedPreset(old.presets, renaming, name) }))}
          />
        </Suspense>
      )}
      <Confirm
        opened={deleting !== null}
        title={t("Delete preset {{name}}?", { name: deleting?.name ?? "" })}
        action={t("Delete preset")}
        onClose={() => setDeleting(null)}
        onConfirm={() => {
          if (deleting) onChange((old) => ({ ...old, presets: withoutPreset(old.presets, deleting) }));
          setDeleting(null);
        }}
      >
        {t("The saved values are removed. Jobs that were started with them are not affected.")}
      </Confirm>
    </>
  );
}
