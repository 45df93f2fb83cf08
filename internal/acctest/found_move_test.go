package acctest_test

import (
	"strings"
	"testing"
)

// TestFound26MoveToBlockStorage: what moves from a directory with qcow2 to a storage that has raw only, where nobody has
// configured a format, moves once. The simulator, as PVE, refuses a second move.
func TestFound26MoveToBlockStorage(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"disk":             `disks = { scsi0 = { storage = "STORAGE", size = "1G" FORMAT } }`,
		"EFI disk":         "bios = \"ovmf\"\nefi_disk = { storage = \"STORAGE\" FORMAT }\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }",
		"cloud-init drive": "cloud_init = { storage = \"STORAGE\", user = \"me\" }\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }",
	}
	formats := map[string]string{"disk": `, format = "qcow2"`, "EFI disk": `, format = "qcow2"`}
	for name, body := range bodies {
		for _, to := range []string{"local-zfs", "local-lvm"} {
			for _, power := range []string{"", stopped} {
				t.Run(strings.TrimSpace(name+" to "+to+" "+power), func(t *testing.T) {
					t.Parallel()
					on := func(storage, format string) string {
						return power + strings.NewReplacer("STORAGE", storage, " FORMAT", format).Replace(body) + "\n"
					}
					l := newLife(t, on("local", formats[name]))
					l.to(on(to, ""))
					moves := 0
					for _, op := range l.w.Sim.Ops() {
						if strings.HasSuffix(op.Path, "/move_disk") {
							moves++
						}
					}
					if moves != 1 {
						t.Errorf("moved %d times", moves)
					}
					l.steady()
				})
			}
		}
	}
}

// TestFound26FormatThatTheStorageLacks: a format that is configured and that the storage does not have is an error once the disk
// is there, never a second move. The next apply without it changes nothing.
func TestFound26FormatThatTheStorageLacks(t *testing.T) {
	t.Parallel()
	disk := func(storage, format string) string {
		return `disks = { scsi0 = { storage = "` + storage + `", size = "1G"` + format + " } }\n"
	}
	l := newLife(t, disk("local", `, format = "qcow2"`))
	l.fails(disk("local-zfs", `, format = "qcow2"`), "has no format qcow2 on storage local-zfs")
	l.to(disk("local-zfs", ""))
	l.steady()
}
