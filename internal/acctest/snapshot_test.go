package acctest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func withSnapshot(vm, more string) string {
	return "resource \"proxmox_vm\" \"x\" {\n  node = \"pve1\"\n  vmid = 200\n  disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n" + vm + "\n}\n" +
		"resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.x.vmid\n  name = \"before\"\n" + more + "\n}\n"
}

// TestSnapshotLife takes a snapshot of a running VM with its memory, describes it anew, imports it and removes it, and each plan after
// is empty.
func TestSnapshotLife(t *testing.T) {
	t.Parallel()
	ctx, w := t.Context(), acctest.NewWorld(t)
	w.Mark()
	s := w.Session(t, acctest.TokenNoSSH, withSnapshot("", `description = "one"`+"\n  vmstate = true"))
	if err := s.Converge(ctx); err != nil {
		t.Fatal(err)
	}
	snaps := guestOf(w, 200).Snaps
	if snaps["before"]["description"] != "one" || snaps["before"]["vmstate"] == "" {
		t.Fatalf("the snapshots are %v", snaps)
	}
	w.Reconfigure(t, s, acctest.TokenNoSSH, withSnapshot("", "vmstate = true"))
	if err := s.Converge(ctx); err != nil {
		t.Fatal(err)
	}
	if got := guestOf(w, 200).Snaps["before"]["description"]; got != "" {
		t.Errorf("the description is %q", got)
	}
	taken := drive.ShowValue(s.Attr("proxmox_vm_snapshot.s", "snaptime"))
	s.Forget("proxmox_vm_snapshot.s")
	w.Reconfigure(t, s, acctest.TokenNoSSH, withSnapshot("", "")) // what was saved is kept where nothing is said of it
	if err := s.Import(ctx, "proxmox_vm_snapshot.s", "200/before"); err != nil {
		t.Fatal(err)
	}
	if err := s.Converge(ctx); err != nil {
		t.Fatal(err)
	}
	if now := drive.ShowValue(s.Attr("proxmox_vm_snapshot.s", "snaptime")); now != taken {
		t.Errorf("the snapshot of %s is one of %s after an import", taken, now)
	}
	if err := s.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	w.MustBeClean(t)
}

// TestSnapshotRefusals: what PVE would refuse, or do without a word, is told before anything is done.
func TestSnapshotRefusals(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, c := range map[string]struct{ vm, snapshot, want string }{
		"reserved":   {"", "", "PVE uses this name itself"},
		"stopped":    {`power_state = "stopped"`, "vmstate = true", "does not run, so it has no memory to save"},
		"template":   {`template = true` + "\n  power_state = \"stopped\"", "", "is a template, of which there are no snapshots"},
		"blank end":  {"", `description = "one\n"`, "PVE drops what is blank at its end"},
		"no storage": {"", `description = ""`, "PVE does not store it"},
	} {
		w := acctest.NewWorld(t)
		hcl := withSnapshot(c.vm, c.snapshot)
		if name == "reserved" {
			hcl = strings.Replace(hcl, `"before"`, `"current"`, 1)
		}
		s := w.Session(t, acctest.TokenNoSSH, hcl)
		mustRefuse(t, s.Run(ctx), []string{c.want})
	}
}

// TestSnapshotOfSomebodyElse: a name that is taken is refused with the way to take it over; one that was taken anew under the name of ours
// leaves the state, and is neither taken for ours nor removed.
func TestSnapshotOfSomebodyElse(t *testing.T) {
	t.Parallel()
	ctx, w := t.Context(), acctest.NewWorld(t)
	s := w.Session(t, acctest.TokenNoSSH, withSnapshot("", ""))
	if err := s.Converge(ctx); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) { world.Guests[200].Snaps["before"]["snaptime"] = "77" })
	mustRefuse(t, s.Run(ctx), []string{"has a snapshot before already", "import proxmox_vm_snapshot.NAME 200/before"})
	if len(guestOf(w, 200).Snaps) != 1 {
		t.Errorf("the snapshots are %v", guestOf(w, 200).Snaps)
	}
	w.Reconfigure(t, s, acctest.TokenNoSSH, fmt.Sprintln(strings.Split(withSnapshot("", ""), "resource \"proxmox_vm_snapshot\"")[0]))
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if len(guestOf(w, 200).Snaps) != 1 {
		t.Errorf("the stranger's snapshot is gone")
	}
}
