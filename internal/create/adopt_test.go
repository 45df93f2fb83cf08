package create

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

const lost = "local-zfs:vm-200-disk-7"

// leave puts volumes of a VM 200 on the node whose configuration is gone.
func (b bench) leave(names ...string) {
	b.change(func(w *state.World) {
		for _, name := range names {
			w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: name, Content: "images", VMID: 200, Format: "raw",
				Size: 1 << 30, Data: name})
		}
	})
}

// holds are the volumes with that id that are there.
func (b bench) holds() (names []string) {
	b.change(func(w *state.World) {
		for _, v := range w.Volumes {
			if v.VMID == 200 {
				names = append(names, v.Name)
			}
		}
	})
	return names
}

func adoption(more ...Adopted) Request {
	return Request{Node: "pve1", VMID: 200, Spec: vm.Spec{Options: vm.Options{Name: new("x")}},
		Adopts: append([]Adopted{{Slot: "scsi0", Volume: lost}}, more...)}
}

// sums is a node on which every volume has one checksum.
type sums struct {
	sum string
	err error
}

func (s sums) SHA256(context.Context, string, string) (string, error) { return s.sum, s.err }

// TestAdoptedIsLeftAlone: a volume to adopt is neither a leftover that forbids the create, nor one that is destroyed
// with the others, nor part of the new VM.
func TestAdoptedIsLeftAlone(t *testing.T) {
	b := newBench(t, token)
	b.leave("vm-200-disk-7", "vm-200-disk-8")
	_, err := b.Create(t.Context(), adoption())
	if err == nil || !strings.Contains(err.Error(), "vm-200-disk-8") || strings.Contains(err.Error(), "disk-7") {
		t.Errorf("with a leftover: %v", err)
	}
	r := adoption()
	r.OnOrphans = DestroyOrphans
	if _, err := b.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if left := b.holds(); len(left) != 1 || left[0] != "vm-200-disk-7" {
		t.Errorf("there are %v", left)
	}
	for option, value := range b.vms()[200] {
		if strings.Contains(value, "vm-200-disk-7") {
			t.Errorf("the new VM has %s: %s", option, value)
		}
	}
}

// TestAdoptedSurvivesTheRollback: what fails after the VM was made takes the VM back, and not the volume.
func TestAdoptedSurvivesTheRollback(t *testing.T) {
	b := newBench(t, token)
	b.leave("vm-200-disk-7")
	b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT", Path: "/nodes/{node}/qemu/{vmid}/config"},
		Phase: fault.Before, Times: 4, Reason: "no quorum"}})
	if _, err := b.Create(t.Context(), adoption()); err == nil {
		t.Fatal("the create went well")
	}
	if b.vms()[200] != nil || len(b.holds()) != 1 {
		t.Errorf("left are %v and %v", b.vms()[200], b.holds())
	}
}

// TestAdoptedIsLookedAt: a volume that is not there, that a third party uses, or that holds something else is refused
// before anything is made.
func TestAdoptedIsLookedAt(t *testing.T) {
	right := strings.Repeat("a", 64)
	for what, c := range map[string]struct {
		request Request
		hasher  Hasher
		used    bool
		words   string // "" where it is to go well
	}{
		"it is there": {request: adoption()},
		"it is not there": {request: adoption(Adopted{Slot: "scsi1", Volume: "local-zfs:vm-200-disk-3"}),
			words: "vm-200-disk-3 is not there"},
		"on no storage": {request: adoption(Adopted{Slot: "scsi1", Volume: "nowhere:vm-200-disk-3"}),
			words: "vm-200-disk-3 cannot be looked at"},
		"another VM uses it": {request: adoption(), used: true, words: "8000"},
		"without SSH": {request: adoption(Adopted{Slot: "scsi1", Volume: lost, SHA256: right}),
			words: "Give the provider ssh"},
		"another checksum": {request: adoption(Adopted{Slot: "scsi1", Volume: lost, SHA256: right}),
			hasher: sums{sum: strings.Repeat("b", 64)}, words: "bbbb"},
		"the checksum": {request: adoption(Adopted{Slot: "scsi1", Volume: lost, SHA256: strings.ToUpper(right)}),
			hasher: sums{sum: right}},
		"no checksum to be had": {request: adoption(Adopted{Slot: "scsi1", Volume: lost, SHA256: right}),
			hasher: sums{err: errors.New("host unreachable")},
			words:  "host unreachable"},
	} {
		b := newBench(t, token)
		b.leave("vm-200-disk-7")
		b.hasher = c.hasher
		if c.used {
			b.change(func(w *state.World) { w.Guests[8000].Config["scsi5"] = lost + ",size=1G" })
		}
		_, err := b.Create(t.Context(), c.request)
		if c.words == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", what, err)
		}
		if made := b.vms()[200] != nil; made != (err == nil) || len(b.holds()) != 1 {
			t.Errorf("%s: made %t, there are %v", what, made, b.holds())
		}
	}
}
