package preflight

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestOptionPrivileges compares the privileges of the attribute table with those of the simulated server: each option
// can be reset with any one of its privileges, and cannot be reset with all other privileges. Only root may set an
// option that has none.
func TestOptionPrivileges(t *testing.T) {
	w := newWorldOf(t, "9.2")
	all := []string{"VM.Allocate", "VM.Config.CPU", "VM.Config.Cloudinit", "VM.Config.Disk", "VM.Config.HWType",
		"VM.Config.Memory", "VM.Config.Network", "VM.Config.Options", "VM.PowerMgmt"}
	const vmid = 9000
	devices := map[string]string{"hostpci0": "mapping=gpu", "usb0": "spice", "serial0": "socket"}
	refused := func(option string, held []string) bool {
		w.change(func(all *state.World) {
			// The route itself takes any of VM.Config.*, whatever the option.
			always := []string{"VM.Audit", "VM.Config.CDROM", "Sys.Modify", "Mapping.Use", "SDN.Use"}
			all.Roles["TerraformProvider"] = slices.Concat(always, held)
			config := all.Guests[vmid].Config
			delete(config, "template")
			if vm.IsSlot(option) {
				config[option] = "local-zfs:base-9000-disk-0,size=8G"
			}
			if device, ok := devices[option]; ok {
				config[option] = device
			}
		})
		err := w.client.QEMU("pve1", vmid).UpdateConfig(t.Context(), pve.Params{"delete": option})
		var answer *pve.Error
		forbidden := errors.As(err, &answer) && answer.Status == http.StatusForbidden
		if err != nil && !forbidden && !strings.Contains(err.Error(), "only root") {
			t.Errorf("%s with %v: %v", option, held, err)
		}
		return err != nil
	}
	for _, a := range vm.Attributes() {
		option := strings.Replace(a.Option, "[n]", "0", 1)
		root := a.Root.Instead != "" && a.Root.Values == nil
		switch {
		case a.Key != "" || strings.HasSuffix(a.Path, ".*.device"):
		case root != (len(a.Privileges) == 0):
			t.Errorf("%s: privileges %v, only root %t: it takes either", option, a.Privileges, root)
		case option == "template": // which is a request of its own
		default:
			others := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(a.Privileges, p) })
			if !refused(option, others) {
				t.Errorf("%s: the server takes it without %v", option, a.Privileges)
			}
			for _, privilege := range a.Privileges {
				if refused(option, []string{privilege}) {
					t.Errorf("%s: the server refuses it with %s", option, privilege)
				}
			}
		}
	}
}

// TestAgentPrivilege: a plan whose apply fails without the guest agent asks for the privilege that the release has.
func TestAgentPrivilege(t *testing.T) {
	for release, privilege := range map[string]string{"8.4": "VM.Monitor", "9.0": "VM.GuestAgent.Audit"} {
		w := newWorldOf(t, release)
		w.change(func(all *state.World) { all.Roles["TerraformProvider"] = []string{"VM.Audit"} })
		found := w.Check(t.Context(), Request{ID: 8000, Node: "pve1", Agent: true})
		if len(found.Refused) != 1 || !strings.Contains(found.Refused[0].Detail, "It takes "+privilege) {
			t.Errorf("%s: %+v", release, found.Refused)
		}
		w.change(func(all *state.World) { all.Roles["TerraformProvider"] = []string{"VM.Audit", privilege} })
		w.as(w.sim.Credentials().Token)
		if found := w.Check(t.Context(), Request{ID: 8000, Node: "pve1", Agent: true}); len(found.Refused) > 0 {
			t.Errorf("%s with %s: %+v", release, privilege, found.Refused[0])
		}
	}
}

// TestPermitInAPool: a VM that is not there may be made in a pool whose privileges suffice. Those of a pool are no
// privileges on a VM that is there and in none.
func TestPermitInAPool(t *testing.T) {
	w := newWorld(t)
	w.change(func(all *state.World) {
		lose(all, "VM.PowerMgmt")
		all.Roles["Switcher"] = []string{"VM.PowerMgmt"}
		for _, entry := range slices.Clone(all.ACL) {
			entry.Path, entry.Role = "/pool/web", "Switcher"
			all.ACL = append(all.ACL, entry)
		}
	})
	for id, refused := range map[string]bool{"8000": true, "500": false} {
		lacks := w.Permit(t.Context(), Take{Path: "vm_ids", What: "switch the VM", On: "/vms/" + id, AnyOf: []string{"VM.PowerMgmt"}})
		if (len(lacks) > 0) != refused {
			t.Errorf("VM %s: refused with %v, want a refusal: %t", id, lacks, refused)
		}
	}
}
