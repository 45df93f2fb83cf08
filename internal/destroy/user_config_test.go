package destroy

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
)

// TestDestroyThatDoesNotGetTheLockOfUserConfig: PVE has freed the disks, has put (lock: destroyed) in the place of the
// configuration, and then does not get the lock of user.cfg (qemu-server API2/Qemu.pm destroy_vm). Root takes that lock
// of its own task away, and destroys again. A token cannot, and the VM is named as its own.
func TestDestroyThatDoesNotGetTheLockOfUserConfig(t *testing.T) {
	for name, who := range map[string]func(*pve.Config, pvesim.Credentials){"token": asToken, "root": asRoot} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRigWith(t, who, pvesim.Options{Clock: clock.Real{}, Latency: -1})
				ref := r.vm(300)
				time.Sleep(20 * time.Second)
				pvesim.HoldUserConfig(r.sim, 15*time.Second)
				began := time.Now()
				left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
				said, wants := fmt.Sprint(left, warnings, err), ""
				if name == "token" {
					wants = "qm unlock 300"
				}
				if is, _ := r.has(300, contested); is != (name == "token") || (err != nil) != is || !strings.Contains(said, wants) {
					t.Errorf("the VM stands %t: %s", is, said)
				}
				if took := time.Since(began); took > 5*time.Minute || strings.Contains(said, "another user") {
					t.Errorf("after %v: %s", took, said)
				}
			})
		})
	}
}
