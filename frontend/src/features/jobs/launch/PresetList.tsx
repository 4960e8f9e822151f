import { ActionIcon, Menu, TextInput, UnstyledButton } from "@mantine/core";
import { Bookmark, Ellipsis, PenLine, Trash2 } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Preset, TemplatesChange } from "@/api/preferences";
import { Confirm } from "@/components/Confirm";
import { FormModal } from "@/components/FormModal";
import { useRefusal } from "@/hooks/use-refusal";
import { describeFile } from "./describe-file";
import { renamedPreset, withoutPreset } from "./templates";
import classes from "@/components/Dashboard.module.css";

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
        <RenameModal
          preset={renaming}
          taken={presets.map((preset) => preset.name)}
          onClose={() => setRenaming(null)}
          onRename={(name) => onChange((old) => ({ ...old, presets: renamedPreset(old.presets, renaming, name) }))}
        />
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

function RenameModal({ preset, taken, onClose, onRename }: { preset: Preset; taken: string[]; onClose: () => void; onRename: (name: string) => void }) {
  const { t } = useTranslation();
  const [name, setName] = useState(preset.name);
  const next = name.trim();
  const exists = next !== preset.name && taken.includes(next);
  return (
    <FormModal
      title={t("Rename preset")}
      action={t("Rename")}
      busy={false}
      disabled={next === "" || exists}
      error={null}
      onClose={onClose}
      onSubmit={() => {
        onRename(next);
        onClose();
      }}
    >
      <TextInput
        label={t("Name")}
        value={name}
        maxLength={60}
        error={exists ? t("A preset of this name exists. Choose another name.") : null}
        onChange={(event) => setName(event.currentTarget.value)}
        data-autofocus
      />
    </FormModal>
  );
}
