import { notifications } from "@mantine/notifications";
import { CircleCheck, TriangleAlert } from "lucide-react";
import { langOf, messageOf } from "@/api/problem";
import { CodeText } from "@/components/CodeText";

export function notifyProblem(title: string, error: unknown): void {
  notifications.show({
    title,
    message: <span lang={langOf(error)}><CodeText>{messageOf(error)}</CodeText></span>,
    color: "red",
    icon: <TriangleAlert size={17} />,
    autoClose: 10_000,
    role: "alert",
  });
}

export function notifyDone(message: string): void {
  notifications.show({ message, color: "moon", icon: <CircleCheck size={17} />, role: "status" });
}
