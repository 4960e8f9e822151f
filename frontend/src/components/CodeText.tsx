/** A text whose parts between backticks are shown as code: commands, settings and values in sentences. */
export function CodeText({ children }: { children: string }) {
  return children.split(/`([^`]+)`/).map((part, index) =>
    index % 2 === 1 ? (
      <code key={index} className="mono">
        {part}
      </code>
    ) : (
      part
    ),
  );
}
