import { useMutation } from "@tanstack/react-query";
import { useEffect } from "react";
import { reportActivity } from "@/api/actions";
import { watchActivity } from "@/lib/activity";

/** Keeps the login from ending as unused while the user is at work in this page. */
export function useActivity(): void {
  const { mutate } = useMutation({ mutationFn: reportActivity });
  useEffect(() => watchActivity(document, () => mutate()), [mutate]);
}
