package destroy

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestFileOfTwoStorages: two storages are one directory, and a guest has the file by the name that it has on the
// other: it is in use. Another file of that name is not it.
func TestFileOfTwoStorages(t *testing.T) {
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		other state.Volume
		off   bool
		want  string
	}{
		"the same":              {other: state.Volume{Size: 1 << 20, Created: made}, want: "local:iso/disc-0123456789ab.iso (as twin:iso/disc-0123456789ab.iso) is also used by VM 300"},
		"another":               {other: state.Volume{Size: 1 << 20, Created: made.Add(time.Second)}},
		"of another size":       {other: state.Volume{Size: 2 << 20, Created: made}},
		"not to be looked at":   {other: state.Volume{Size: 1 << 20, Created: made}, off: true, want: "cannot be told"},
		"not in the other, too": {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, asRoot)
			r.vm(300)
			r.change(func(w *state.World) {
				twin := *w.Storages["local"]
				twin.ID, twin.Path, twin.Offline = "twin", "/srv/link", c.off
				w.Storages["twin"] = &twin
				put := func(storage string, like state.Volume) {
					v := &state.Volume{Storage: storage, Node: "pve1", Name: "iso/disc-0123456789ab.iso", Content: "iso", Format: "iso", Size: like.Size}
					w.Put(v)
					v.Created = like.Created
				}
				put("local", state.Volume{Size: 1 << 20, Created: made})
				if c.other.Size != 0 {
					put("twin", c.other)
				}
				w.Guests[300].Config["ide2"] = "twin:iso/disc-0123456789ab.iso,media=cdrom"
			})
			err := r.s.Files().Free(t.Context(), &request.Tasks{}, guard.MadeFile{Node: "pve1", Volume: "local:iso/disc-0123456789ab.iso", Size: 1 << 20, CreatedAt: made})
			r.change(func(w *state.World) {
				kept := w.Volume("pve1", "local:iso/disc-0123456789ab.iso") != nil
				if kept != (c.want != "") || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v; it is there %t", err, kept)
				}
			})
		})
	}
}

// TestBackingFilesAreListedAgain: where the listing of their storage fails, the next that asks lists it again.
func TestBackingFilesAreListedAgain(t *testing.T) {
	r := newRig(t, asRoot)
	r.change(func(w *state.World) {
		for name, backing := range map[string]string{"300/vm-300-disk-0.qcow2": "", "600/vm-600-disk-0.qcow2": "../300/vm-300-disk-0.qcow2"} {
			vmid := map[bool]int{true: 300, false: 600}[backing == ""]
			w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: name, VMID: vmid, Content: "images", Format: "qcow2", Size: 1 << 30,
				Backing: backing})
		}
	})
	check := func() error {
		return guard.CheckBases(t.Context(), r.s.Guard, "pve1", []string{"local:300/vm-300-disk-0.qcow2", "local:300/vm-300-disk-1.qcow2"})
	}
	r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/storage/{storage}/content"},
		Phase: fault.Before, Status: 500, Reason: "no", Times: -1}})
	away := check()
	r.sim.SetFaults(nil)
	var used *guard.InUseError
	if err := check(); away != nil || !errors.As(err, &used) {
		t.Errorf("%v, then %v", away, err)
	}
}

// TestBackingFilesOnAStorageThatIsAway: storages that have none of the volumes delay the first who asks, together a few seconds, and no one
// after. Of a volume on a share those of the other node are asked, too.
func TestBackingFilesOnAStorageThatIsAway(t *testing.T) {
	for volume, first := range map[string]int{"local:300/vm-300-disk-0.qcow2": 3, "shared-nfs:300/vm-300-disk-0.qcow2": 2} {
		synctest.Test(t, func(t *testing.T) {
			r := newRigWith(t, asRoot, pvesim.Options{Clock: clock.Real{}, Latency: -1})
			r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/storage/{storage}/content", Nth: first},
				Phase: fault.Before, Status: 596, Reason: "Connection timed out", DelayMS: 30_000, Times: -1}})
			began := time.Now()
			for range 3 {
				if err := guard.CheckBases(t.Context(), r.s.Guard, "pve1", []string{volume}); err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(began); took < 5*time.Second || took > 7*time.Second {
				t.Errorf("%s: after %s", volume, took)
			}
		})
	}
}
