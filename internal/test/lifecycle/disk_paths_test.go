package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestNodeOutsideNodes: a node that is none of nodes is refused before anything is made.
func TestNodeOutsideNodes(t *testing.T) {
	t.Parallel()
	w := threeNodes(t)
	for nodes, refused := range map[string]bool{`["pve2", "pve3"]`: true, `["pve2", "pve1"]`: false} {
		s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("name = \"x\"\nnode = \"pve1\"\nnodes = "+nodes+"\n"))
		if err := s.Validate(t.Context()); (err != nil) != refused || refused && !strings.Contains(err.Error(), "none of these") {
			t.Errorf("%s: %v", nodes, err)
		}
	}
	s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("name = \"x\"\nnode = \"pve1\"\nnodes = [\"pve2\", \"pve1\"]\n"))
	if err := s.Converge(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestPassedThroughDisk: a disk of the node that is passed through by its path is made, changed, imported and let go, by root; the
// destroy leaves it alone.
func TestPassedThroughDisk(t *testing.T) {
	t.Parallel()
	const device = "/dev/disk/by-id/ata-DISK_1"
	body := func(more string) string {
		return rig.VMBlock(`name = "x"
vmid = 400
node = "pve1"
disks = {
  scsi0 = { storage = "local-zfs", size = "1G" }
  scsi1 = { imported_disk = { volume = "` + device + `" }` + more + ` }
}`)
	}
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) { world.Nodes["pve1"].WriteFile(device, "a disk") })
	s := w.Session(t, rig.RootTicket, body(""))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Reconfigure(t, s, rig.RootTicket, body(", backup = false"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if has := rig.GuestOf(w, 400).Config["scsi1"]; !strings.HasPrefix(has, device) || !strings.Contains(has, "backup=0") {
		t.Errorf("scsi1: %s", has)
	}
	s.Forget(rig.VMAddress)
	if err := s.Import(t.Context(), rig.VMAddress, "400"); err != nil {
		t.Fatal(err)
	}
	if pl, err := s.Plan(t.Context()); err != nil || !pl.Empty() {
		t.Errorf("after the import: %v\n%s", err, pl)
	}
	if _, err := w.Session(t, rig.TokenNoSSH, strings.Replace(body(""), "400", "401", 1)).Plan(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "Only root@pam may set disks.scsi1.volume") {
		t.Errorf("a token: %v", err)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	w.Change(func(world *state.World) { delete(world.Nodes["pve1"].Files, device) })
	w.MustBeClean(t)
}

// TestWindowsPassword: the password of a clone is stored as its guest wants it, whether the configuration says what it is or not.
func TestWindowsPassword(t *testing.T) {
	t.Parallel()
	for ostype, plain := range map[string]bool{"win11": true, "l26": false} {
		w := rig.NewWorld(t)
		w.Change(func(world *state.World) { world.Guests[9000].Config["ostype"] = ostype })
		s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("name = \"x\"\nvmid = 400\nclone = { vmid = 9000 }\nprotection = false\n"+
			"cloud_init_password_wo = \"Secret-13\"\ncloud_init_password_wo_version = 1\n"))
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		stored := rig.GuestOf(w, 400).Config["cipassword"]
		if plain != (stored == "Secret-13") || !plain && !strings.HasPrefix(stored, "$") {
			t.Errorf("%s: stored as %q", ostype, stored)
		}
	}
}

// waitingExchange is a running VM in whose scsi1 another volume of it waits for the next stop, and a body of it. Its disk in force has two
// gigabytes, and the other one three.
func waitingExchange(t *testing.T) (l *rig.VM, inForce, waits string, body func(policy, scsi1 string) string) {
	t.Helper()
	body = func(policy, scsi1 string) string {
		return "power_state = \"running\"\nhotplug = [\"network\"]\n" + policy +
			"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, scsi1 = { " + scsi1 + " } }\n"
	}
	const two = "storage = \"local-zfs\", size = \"2G\""
	off := strings.NewReplacer("running", "stopped", "}, scsi1", "}, scsi2 = { storage = \"local-zfs\", size = \"3G\" }, scsi1")
	l = rig.NewVM(t, off.Replace(body(neverRestart, two)))
	inForce, waits = l.Volume("scsi1"), l.Volume("scsi2")
	l.To(strings.Replace(body(neverRestart, two), "running", "stopped", 1))
	l.To(body(neverRestart, two))
	l.To(body(neverRestart, importOf(waits)))
	l.WantWaiting("scsi1")
	return l, inForce, waits, body
}

func importOf(volume string) string { return fmt.Sprintf("imported_disk = { volume = %q }", volume) }

// TestSlotGoesBackToTheDiskInForce: another volume waits in the slot of a running guest, and the configuration names the disk in force again. The
// plan says that the apply takes the pending change back. Nothing is restarted, and the other volume is an unused disk.
func TestSlotGoesBackToTheDiskInForce(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]string{"never restarted": neverRestart, "restarted if need be": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, inForce, waits, body := waitingExchange(t)
			pl := l.Plan(body(policy, importOf(inForce)))
			said := pl.Diagnostics.String()
			if !strings.Contains(said, "takes back the pending change of scsi1") || strings.Contains(said, "restarted\n") ||
				strings.Contains(said, "running with the old values") {
				t.Errorf("the plan says: %s", said)
			}
			rig.Must(t, l.Session.Apply(t.Context(), pl))
			l.WantWaiting()
			if is, unused := l.Volume("scsi1"), l.Volume("unused0"); is != inForce || unused != waits {
				t.Errorf("scsi1 has %s, and %s is unused", is, unused)
			}
			if next, err := l.Session.Plan(t.Context()); err != nil || !next.Empty() {
				t.Errorf("the next plan: %v %s", err, next)
			}
		})
	}
}

// TestPlanTellsThatADiskWhichWaitsCannotBeShaped: a disk waits for the next stop and start of a guest, and none comes. PVE would move or grow the
// disk in force, so the apply refuses both, and the plan says so.
func TestPlanTellsThatADiskWhichWaitsCannotBeShaped(t *testing.T) {
	t.Parallel()
	for shaped, by := range map[string]string{"grown": "size = \"5G\"", "moved": "storage = \"local-lvm\""} {
		t.Run(shaped, func(t *testing.T) {
			t.Parallel()
			l, inForce, _, body := waitingExchange(t)
			pl := l.Plan(body(neverRestart, importOf(l.Attr("disks.scsi1.volume"))+", "+by))
			rig.MustSay(t, fmt.Errorf("%s", pl.Diagnostics), "scsi1 of VM 400", "cannot be "+shaped+" yet")
			if err := l.Session.Apply(t.Context(), pl); err == nil || l.Volume("scsi1") != inForce {
				t.Errorf("scsi1 has %s: %v", l.Volume("scsi1"), err)
			}
		})
	}
}

// TestPlanPromisesNoDestructionThatCannotCome: a running guest is not restarted, and PVE lets go of a disk in IDE or SATA, of an EFI disk and of the
// state of a TPM at its stop only. With removed_disks = "destroy" the plan says that the volume is not destroyed.
func TestPlanPromisesNoDestructionThatCannotCome(t *testing.T) {
	t.Parallel()
	const to = "removed_disks = \"destroy\"\n" + neverRestart + withoutFirmware
	for attribute, from := range map[string]string{
		`disks["sata1"]`: strings.Replace(to, "disks = {", "disks = { sata1 = { storage = \"local-zfs\", size = \"2G\" },", 1),
		"efi_disk":       to + "efi_disk = { storage = \"local-zfs\" }\n",
	} {
		t.Run(attribute, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, from)
			volume := l.Volume(map[string]string{"efi_disk": "efidisk0", `disks["sata1"]`: "sata1"}[attribute])
			pl := l.Plan(to)
			l.Warned(attribute, "is not destroyed", volume, "at its next stop only")
			if said := pl.Diagnostics.String(); strings.Contains(said, "for good") {
				t.Errorf("the plan says: %s", said)
			}
			rig.Must(t, l.Session.Apply(t.Context(), pl))
			l.Guest(func(world *state.World, _ *state.Guest) {
				if world.Volume("pve1", volume) == nil {
					t.Errorf("%s is gone", volume)
				}
			})
		})
	}
}

// TestImportBesideAnExchangeThatWaits: a running VM is imported while another volume waits in a slot of it. The apply of the import restarts nothing,
// and the plan after it is empty.
func TestImportBesideAnExchangeThatWaits(t *testing.T) {
	t.Parallel()
	l, _, waits, body := waitingExchange(t)
	l.Configure(body("removed_disks = \"destroy\"\n", importOf(waits)))
	l.Session.Forget(rig.VMAddress)
	rig.Must(t, l.Session.Import(t.Context(), rig.VMAddress, "400"))
	rig.Must(t, l.Session.Converge(t.Context()))
	l.WantRunning()
	l.WantWaiting("scsi1")
}
