package storage_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestImageImport: a file of the name that its checksum gives is adopted without a request that writes, whatever made it, and
// stays when the resource goes. A file of another name is not adopted, nor one that is not there.
func TestImageImport(t *testing.T) {
	t.Parallel()
	data := rig.QCOW2("one")
	name := "debian-" + rig.SHA256(data)[:12] + ".qcow2"
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) {
		for _, file := range []string{name, "plain.qcow2"} {
			world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "import/" + file, Content: "import", Format: "qcow2",
				Size: 1 << 30, Raw: data})
		}
	})
	w.Mark()
	s := w.Session(t, rig.TokenNoSSH, rig.DownloadedImage("https://example.org/debian.qcow2", rig.SHA256(data)))
	for id, words := range map[string][]string{
		"pve1/local:import/plain.qcow2":               {"twelve digits of its checksum"},
		"local:import/" + name:                        {"The id is node/volume"},
		"pve1/local:import/gone-0123456789ab.qcow2":   {"there is no local:import/gone-0123456789ab.qcow2 on node pve1"},
		"pve2/local:import/" + name:                   {"there is no local:import/" + name + " on node pve2"},
		"pve1/local-zfs:import/a-0123456789ab.qcow2":  {"Storage local-zfs is not for import content"},
		"pve1/local:snippets/a-0123456789ab.yaml":     {"The id is node/volume"},
		"pve7/local:import/gone-0123456789ab.qcow2":   {`Unknown node "pve7"`},
		"pve1/nowhere:import/gone-0123456789ab.qcow2": {"has no storage nowhere"},
	} {
		rig.MustSay(t, s.Import(t.Context(), "proxmox_image.disk", id), words...)
	}
	if err := s.Import(t.Context(), "proxmox_image.disk", "pve1/local:import/"+name); err != nil {
		t.Fatal(err)
	}
	plan, err := s.Plan(t.Context())
	if err != nil || strings.Contains(plan.String(), "replace") {
		t.Fatalf("planned %v, %v", plan, err)
	}
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Destroy(t.Context()); err != nil || !strings.Contains(fmt.Sprint(s.Diagnostics()), "The file stays: "+
		"local:import/"+name) {
		t.Errorf("%v, %v", err, s.Diagnostics())
	}
	for _, op := range w.Sim.Ops() {
		if op.Method != http.MethodGet {
			t.Errorf("sent %s %s", op.Method, op.Path)
		}
	}
	w.MustBeClean(t)
}

// TestImageOfThisApplyThatIsLargerThanItsDisk: the image is made by the same apply. Once it is there the VM is refused
// by its plan, before anything of it is made.
func TestImageOfThisApplyThatIsLargerThanItsDisk(t *testing.T) {
	t.Parallel()
	data := rig.QCOW2("an image")
	url := rig.ServeFiles(t, map[string][]byte{"/debian.qcow2": data})
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.DownloadedImage(url+"/debian.qcow2", rig.SHA256(data))+rig.VMBlock(
		"node = \"pve1\"\nvmid = 300\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"8M\", "+
			"import_from = proxmox_image.disk.volume } }\n"))
	rig.MustSay(t, s.Run(t.Context()), "cannot shrink a disk to 8M")
	for _, op := range w.Sim.Ops() {
		if op.Method == http.MethodPost && strings.HasSuffix(op.Path, "/qemu") {
			t.Errorf("sent %s %s", op.Method, op.Path)
		}
	}
}
