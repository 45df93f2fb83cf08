// Package ownership judges whose a guest or a volume is. Callers collect facts; the verdict is a value with a reason.
// It asks nothing, changes nothing and knows no clock.
//
// A text that others can write proves nothing by itself: VM.Config.Options is enough to write a description, and
// clones, backups and people copy it (qemu-server API2/Qemu.pm, $generaloptions). So a mark counts only together with
// a signature by this identity's own secret, and with PVE's own record of the task that made the guest. A fact
// that cannot be seen makes the verdict unknown, and unknown is never ours.
package ownership
