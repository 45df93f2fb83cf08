package storage_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file/nocloud"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

func discWithVM(line string) string {
	return rig.CloudInitISOBlock(line) + `
resource "proxmox_vm" "web" {
  node   = "pve1"
  vmid   = 300
  cdroms = { ide3 = { file = proxmox_cloud_init_iso.web.volume } }
}
`
}

func discOf(line string) (disc []byte, volume string) {
	disc = nocloud.Seed{UserData: "#cloud-config\n" + line + "\n"}.Image()
	return disc, "local:iso/web-1-" + rig.SHA256(disc)[:12] + ".iso"
}

// TestUploadCloudInitDisc: the disc is made and uploaded, stands in the drive of a running VM, is replaced there by another, and goes.
// No disc is removed that a guest uses, and none is left. It works with every identity; who may not remove files hears of it.
func TestUploadCloudInitDisc(t *testing.T) {
	t.Parallel()
	for _, who := range rig.Identities() {
		t.Run(string(who), func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, who, discWithVM("hostname: one"))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			first, firstVolume := discOf("hostname: one")
			if v := rig.VolumeOn(w, firstVolume); v == nil || !bytes.Equal(v.Raw, first) {
				t.Fatalf("%s is %v", firstVolume, v)
			}
			for n, line := range []string{"hostname: two", "hostname: three", "hostname: one"} {
				if _, volume := discOf("hostname: two"); n == 1 && who != rig.TokenNoAllocate { // another user's VM gets it, too
					w.Change(func(world *state.World) { world.Guests[8000].Config["ide2"] = volume + ",media=cdrom" })
				}
				w.Reconfigure(t, s, who, discWithVM(line))
				disc, volume := discOf(line)
				plan, err := s.Plan(t.Context())
				if err != nil || !strings.Contains(plan.String(), "update proxmox_cloud_init_iso.web") || !strings.Contains(plan.String(), "update proxmox_vm.web") || strings.Count(plan.String(), volume) < 2 {
					t.Fatalf("planned %v, %v", plan, err)
				}
				if err := s.Converge(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n == 2 {
					w.Change(func(world *state.World) { delete(world.Guests[8000].Config, "ide2") })
				}
				named := strings.Contains(fmt.Sprint(s.Diagnostics()), "An earlier disc stays for now")
				if want := who == rig.TokenNoAllocate && n > 0 || n == 2; named != want {
					t.Errorf("%d: an earlier disc that is not the VM's is named %t: %v", n, named, s.Diagnostics())
				}
				if v := rig.VolumeOn(w, volume); v == nil || !bytes.Equal(v.Raw, disc) {
					t.Errorf("%s is %v", volume, v)
				}
				if has := strings.Trim(terraformtest.ShowValue(s.Attr("proxmox_vm.web", "cdroms.ide3.file")), `"`); has != volume {
					t.Errorf("the VM has %s, want %s", has, volume)
				}
				if discs := rig.CloudInitISOs(w); who != rig.TokenNoAllocate && len(discs) != 2+n/2 {
					t.Errorf("%d: there are %v", n, discs)
				}
			}
			err := s.Destroy(t.Context())
			if who == rig.TokenNoAllocate {
				rig.MustSay(t, err, "Datastore.Allocate")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			w.MustBeClean(t)
		})
	}
}

// TestUploadCloudInitDiscThatIsThere: the same disc is used as it is and stays; a part of one, or another's file, is not written over.
func TestUploadCloudInitDiscThatIsThere(t *testing.T) {
	t.Parallel()
	disc, volume := discOf("hostname: one")
	put := func(w *rig.World, data []byte) {
		w.Change(func(world *state.World) {
			world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: strings.TrimPrefix(volume, "local:"), Content: "iso", Format: "iso",
				Size: int64(len(data)), Raw: data})
		})
		w.Mark()
	}
	w := rig.NewWorld(t)
	put(w, disc)
	s := w.Session(t, rig.TokenNoSSH, rig.CloudInitISOBlock("hostname: one"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Destroy(t.Context()); err != nil || !strings.Contains(fmt.Sprint(s.Diagnostics()), "The file stays: "+volume) {
		t.Errorf("%v, %v", err, s.Diagnostics())
	}
	w.MustBeClean(t)

	w = rig.NewWorld(t)
	put(w, disc[:4096])
	s = w.Session(t, rig.TokenNoSSH, rig.CloudInitISOBlock("hostname: one"))
	_, err := s.Plan(t.Context())
	rig.MustSay(t, err, "There is "+volume+" on node pve1 already", "It has 4096 bytes", "set name to another one")
	w.MustBeClean(t)
}

// TestUploadCloudInitDiscInUse: a disc that another guest has got hold of stays, and its resource with it.
func TestUploadCloudInitDiscInUse(t *testing.T) {
	t.Parallel()
	_, volume := discOf("hostname: one")
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.CloudInitISOBlock("hostname: one"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) { world.Guests[8000].Config["ide3"] = volume + ",media=cdrom" })
	w.Mark()
	rig.MustSay(t, s.Destroy(t.Context()), volume, "VM 8000", "(ide3)")
	if len(s.Addresses()) != 1 {
		t.Error("the disc is not in state any more")
	}
	w.MustBeClean(t)
	w.Change(func(world *state.World) { delete(world.Guests[8000].Config, "ide3") })
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := rig.CloudInitISOs(w); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestUploadCloudInitDiscFaults meets each request of a create with each fault: each leftover is in state or named, and so is each
// leftover of the next apply and destroy.
func TestUploadCloudInitDiscFaults(t *testing.T) {
	t.Parallel()
	for p, phase := range []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask} {
		for n := 1; ; n++ {
			if !share.Plays(n+p, 4, string(phase)) {
				continue
			}
			w := rig.NewWorld(t)
			w.Sim.ResetOps()
			w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Seq: n}, Phase: phase}})
			s := w.Session(t, rig.TokenNoSSH, rig.CloudInitISOBlock("hostname: one"))
			err := s.Converge(t.Context())
			hit, left := w.Sim.LastOp() >= n, rig.CloudInitISOs(w)
			said := fmt.Sprint(err, s.Diagnostics())
			if inState := len(s.Addresses()) == 1; len(left) > 0 && !inState && !strings.Contains(said, left[0][len("iso/"):]) {
				t.Errorf("%s at %d: %v is left, neither in state nor named: %s", phase, n, left, said)
			}
			w.Sim.SetFaults(nil)
			if err := s.Converge(t.Context()); err != nil {
				t.Errorf("%s at %d: the next apply: %v", phase, n, err)
			}
			if err := s.Destroy(t.Context()); err != nil {
				t.Errorf("%s at %d: destroy: %v", phase, n, err)
			}
			if left = rig.CloudInitISOs(w); len(left) > 0 && !strings.Contains(fmt.Sprint(s.Diagnostics()), "The file stays: local:"+left[0]) {
				t.Errorf("%s at %d: left: %v, said %v", phase, n, left, s.Diagnostics())
			}
			if !hit {
				break
			}
		}
	}
}

// TestImageCloudInitDocuments: what cloud-init would not understand is refused in the plan, and nothing is sent.
func TestImageCloudInitDocuments(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	for _, row := range [][2]string{
		{rig.CloudInitISOBlock("a: [1"), "no YAML"},
		{strings.Replace(rig.CloudInitISOBlock("a: 1"), "#cloud-config", "# cloud config", 1), "its first line is of no known kind"},
		{strings.Replace(rig.CloudInitISOBlock("a: 1"), "user_data", "network_config", 1), `no \"version\"`},
		{strings.Replace(rig.CloudInitISOBlock("a: 1"), "web-1", "../web", 1), "must begin with a letter or a digit"},
	} {
		s := w.Session(t, rig.TokenNoSSH, row[0])
		_, err := s.Plan(t.Context())
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `"`, `\"`), row[1]) {
			t.Errorf("%s\nis planned: %v", row[0], err)
		}
	}
	for _, op := range w.Sim.Ops() {
		if op.Method != http.MethodGet {
			t.Errorf("sent %s %s", op.Method, op.Path)
		}
	}
}

// TestEarlierDiscOfAnotherResource: a disc that a resource remembers, since a guest had it once, goes with the next change or
// the destroy. Where another resource has found it there meanwhile, the plan says so, whichever of them is planned first.
func TestEarlierDiscOfAnotherResource(t *testing.T) {
	t.Parallel()
	disc := func(name, line, more string) string {
		block := strings.Replace(rig.CloudInitISOBlock("hostname: "+line), `"web" {`, `"`+name+`" {`, 1)
		return strings.TrimSuffix(block, "}\n") + more + "}\n"
	}
	_, first := discOf("hostname: one")
	for name, c := range map[string]struct {
		maker, other string // as the last apply has them
		goes         bool
	}{
		"changed":                {disc("a", "three", ""), disc("b", "one", ""), true},
		"changed, planned first": {disc("a", "three", ""), disc("b", "one", "  depends_on = [proxmox_cloud_init_iso.a]\n"), true},
		"changed, planned last":  {disc("a", "three", "  depends_on = [proxmox_cloud_init_iso.b]\n"), disc("b", "one", ""), true},
		"destroyed":              {"", disc("b", "one", ""), true},
		"wanted again":           {disc("a", "one", ""), disc("b", "one", ""), false},
		"stays":                  {disc("a", "two", ""), disc("b", "one", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, disc("a", "one", ""))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) { world.Guests[8000].Config["ide3"] = first + ",media=cdrom" })
			w.Reconfigure(t, s, rig.TokenNoSSH, disc("a", "two", ""))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) { delete(world.Guests[8000].Config, "ide3") })
			w.Reconfigure(t, s, rig.TokenNoSSH, disc("a", "two", "")+disc("b", "one", ""))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, c.maker+c.other)
			plan, err := s.Plan(t.Context())
			rig.Must(t, err)
			if n := strings.Count(s.Diagnostics().String(), "A file of two resources goes: "+first); (n == 1) != c.goes {
				t.Errorf("the plan says %s", s.Diagnostics())
			}
			rig.Must(t, s.Apply(t.Context(), plan))
			if gone := rig.VolumeOn(w, first) == nil; gone != c.goes {
				t.Errorf("%s is gone: %t", first, gone)
			}
			rig.Must(t, s.Converge(t.Context()))
			if rig.VolumeOn(w, first) == nil {
				t.Errorf("%s is not there after the next apply", first)
			}
		})
	}
}

// TestDestroyOfADiscThatItsVMGivesUp: Terraform destroys a disc before it changes the VM that had it. The error says how both come about in one apply, and
// with create_before_destroy they do.
func TestDestroyOfADiscThatItsVMGivesUp(t *testing.T) {
	t.Parallel()
	const with, without = "cdroms = { ide0 = { file = proxmox_cloud_init_iso.d.volume } }\n", "cdroms = { ide0 = { file = \"none\" } }\n"
	w := rig.NewWorld(t)
	disc := func(lifecycle string) string {
		return "resource \"proxmox_cloud_init_iso\" \"d\" {\n  node = \"pve1\"\n  storage = \"local\"\n  name = \"d\"\n  user_data = \"#cloud-config\\n\"\n" + lifecycle + "}\n"
	}
	s := w.Session(t, rig.RootTicket, disc("")+rig.NodeVMBlock(rig.Stopped+with))
	rig.Must(t, s.Converge(t.Context()))
	w.Reconfigure(t, s, rig.RootTicket, rig.NodeVMBlock(rig.Stopped+without))
	for range 2 {
		rig.MustSay(t, s.Run(t.Context()), "is also used by VM 400", "create_before_destroy = true", "put the block back")
	}
	const first = "  lifecycle { create_before_destroy = true }\n"
	w.Reconfigure(t, s, rig.RootTicket, disc(first)+rig.NodeVMBlock(rig.Stopped+with))
	rig.Must(t, s.Converge(t.Context()))
	w.Reconfigure(t, s, rig.RootTicket, rig.NodeVMBlock(rig.Stopped+without))
	rig.Must(t, s.Converge(t.Context()))
}
