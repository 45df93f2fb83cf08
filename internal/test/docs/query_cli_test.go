package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const queryExample = rig.ExamplesDir + "/list-resources/proxmox_vm/list-resource.tfquery.hcl"

// TestQueryExample runs the example of the documentation.
func TestQueryExample(t *testing.T) {
	t.Parallel()
	w := webWorld(t)
	for _, id := range rig.Identities() {
		s := w.Session(t, id, "")
		found, err := s.Query(t.Context(), rig.ReadFile(t, queryExample), true)
		rig.Must(t, err)
		if ds := s.Diagnostics(); len(ds) != 1 || ds[0].Error || ds[0].Summary != leftOut {
			t.Errorf("%s: it says %v", id, ds)
		}
		var all []string
		for _, f := range found {
			all = append(all, f.Block+" "+f.DisplayName)
		}
		if got := strings.Join(all, ", "); got != "list.proxmox_vm.templates template on pve1, list.proxmox_vm.web web-1 on pve1, list.proxmox_vm.web web-2 on pve1" {
			t.Errorf("%s: found %s", id, got)
		}
	}
	w.MustBeClean(t)
}

// leftOut is the message about the unfinished VM.
const leftOut = "VM 203 on pve1 was left out"

// webWorld is a cluster with two VMs made by hand, and an unfinished one.
func webWorld(t *testing.T, options ...pvesim.Options) *rig.World {
	t.Helper()
	w := rig.NewWorld(t, options...)
	w.Change(func(world *state.World) {
		for n := 1; n <= 3; n++ {
			vmid := 200 + n
			disk := fmt.Sprintf("vm-%d-disk-0", vmid)
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: disk, Content: "images", VMID: vmid, Format: "raw", Size: 8 << 30})
			world.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: "pve1", Config: map[string]string{
				"name": fmt.Sprintf("web-%d", n), "smbios1": fmt.Sprintf("uuid=11111111-2222-3333-4444-%012d", vmid), "memory": "2048", "cores": "2",
				"scsihw": "virtio-scsi-single", "scsi0": "local-zfs:" + disk + ",iothread=1,size=8G", "boot": "order=scsi0",
				"net0": fmt.Sprintf("virtio=BC:24:11:00:00:%02X,bridge=vmbr0,firewall=1", n), "ostype": "l26", "tags": "web"}}
			world.Pools["web"].Guests = append(world.Pools["web"].Guests, vmid)
		}
		world.Guests[203].SetLock("create", "state")
	})
	w.Sim.Advance(time.Minute)
	w.Mark()
	return w
}

// canQuery skips a test where the CLI has no query: Terraform has it since 1.14, OpenTofu has not.
func canQuery(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), os.Getenv("TF_ACC_TERRAFORM_PATH"), "query", "-help").CombinedOutput()
	switch {
	case strings.Contains(string(out), `has no command named "query"`):
		t.Skipf("%s has no query: Terraform has it since 1.14, OpenTofu 1.12 has not", os.Getenv("TF_ACC_TERRAFORM_PATH"))
	case err != nil:
		t.Fatalf("query -help: %v\n%s", err, out)
	}
}

// TestAccQuery has a real Terraform find VMs, write their configuration, plan and import it. The plan has no changes, and nothing on
// the server changes. A list names the VMs that it leaves out.
func TestAccQuery(t *testing.T) {
	atHome(t)
	rig.UseCLI(t)
	canQuery(t)
	rig.WithoutEnvironment(t)
	w := webWorld(t, pvesim.Options{RealNetwork: true})
	ws := rig.NewWorkspace(t, w, rig.DevOverride(t, t.TempDir()), map[string]string{
		"main.tf": rig.ReadFile(t, filepath.Join(rig.ExamplesDir, "provider", "provider.tf")), "find.tfquery.hcl": rig.ReadFile(t, queryExample)})
	wants := func(want string, args ...string) {
		t.Helper()
		out := strings.Join(strings.Fields(ws.Says(t, args...)), " ")
		if !strings.Contains(out, want) {
			t.Errorf("%s says %s, want %s", strings.Join(args, " "), out, want)
		}
	}
	wants("The configuration is valid", "validate", "-query")
	wants("vmid=201 web-1 on pve1 list.proxmox_vm.web node=<null>,uuid=<null>,vmid=202 web-2 on pve1", "query")
	wants("Warning: "+leftOut, "query")
	wants("vmid=9000 template on pve1", "query", "-generate-config-out=found.tf")
	wants("Plan: 3 to import, 0 to add, 0 to change, 0 to destroy.", "plan")
	wants("Apply complete! Resources: 3 imported, 0 added, 0 changed, 0 destroyed.", "apply", "-auto-approve")
	wants("No changes.", "plan")
	wants("vmid=202 web-2 on pve1", "query") // what it has already is listed, too
	bad := strings.Replace(rig.ReadFile(t, queryExample), `pool     = "web"`, `pool     = "no pool"`, 1)
	rig.Must(t, os.WriteFile(filepath.Join(ws.Dir, "find.tfquery.hcl"), []byte(bad), 0o600))
	for _, args := range [][]string{{"validate", "-query"}, {"query"}} {
		if out, err := ws.Try(t, args...); err == nil || !strings.Contains(out, "must be the name of a resource pool") {
			t.Errorf("%v with a pool that is none: %v\n%s", args, err, out)
		}
	}
	w.MustBeClean(t)
}
