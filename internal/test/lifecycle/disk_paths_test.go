package lifecycle_test

import (
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
