package destroy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// TestSettingsOfAFreeIDSurvive: a volume outlived its VM, and its destroy is tried again later. Meanwhile an
// administrator has given a user a permission on the free id, or has written a firewall for the VM that is to come. PVE
// removes both with any VM of the id (qemu-server API2/Qemu.pm destroy_vm, remove_vm_access and remove_vmfw_conf), so
// the volume is freed without one. An identity that may not free it leaves it, and says why.
func TestSettingsOfAFreeIDSurvive(t *testing.T) {
	auths := map[string]func(*pve.Config, pvesim.Credentials){"token": asToken, "root": asRoot, "without Allocate": asToken}
	for name, auth := range auths {
		for _, set := range []string{"permission", "firewall", "IP set", "none"} {
			r := newRig(t, auth)
			may := name != "without Allocate"
			if !may {
				r.withoutAllocate()
			}
			ref := r.vm(300)
			r.change(func(w *state.World) { delete(w.Guests, 300) })
			entry := state.ACLEntry{Path: "/vms/300", Subject: "alice@pve", Role: "PVEVMUser", Propagate: true}
			r.change(func(w *state.World) {
				switch set {
				case "permission":
					w.ACL = append(w.ACL, entry)
				case "IP set":
					w.Firewall[300] = &state.FirewallFile{IPSets: map[string]*state.IPSet{"admins": {}}}
				case "firewall":
					w.Firewall[300] = &state.FirewallFile{Options: map[string]string{"enable": "1"}}
				}
			})
			noted := []saga.Residue{{Kind: "volume", Node: "pve1", ID: contested, What: "volume " + contested, Size: 1 << 30}}
			left, warnings, err := r.s.Delete(t.Context(), Request{Ref: guest.Ref{VMID: 300, Node: "pve1", Identity: ref.Identity},
				Left: noted})
			_, kept := r.has(300, contested)
			stands := set == "none"
			r.change(func(w *state.World) {
				stands = stands || set == "permission" && slices.Contains(w.ACL, entry) || set != "permission" && w.Firewall[300] != nil
			})
			if !stands {
				t.Errorf("%s: the %s is gone; left %v, said %v: %v", name, set, left, fmt.Sprint(warnings), err)
			}
			if freed := !kept && err == nil && len(left) == 0; freed != (may || set == "none") ||
				!freed && (len(left) == 0 || err == nil || !strings.Contains(err.Error(), "set for the id 300")) {
				t.Errorf("%s, %s: the volume is there: %t; left %v: %v", name, set, kept, left, err)
			}
		}
	}
}
