package lifecycle_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const startedVM = "name = \"x\"\nnode = \"pve1\"\npower_state = \"running\"\n" +
	"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"

func refusedAt(method, path string) fault.Rule {
	return fault.Rule{Match: fault.Match{Method: method, Path: "/nodes/{node}/qemu/{vmid}" + path}, Phase: fault.Before,
		Status: 500, Reason: "not now", Times: 60}
}

// untainted is a VM whose start failed in its create, which could not take it back. Its user has untainted it. The
// process of its create has ended.
func untainted(t *testing.T, body string) (*rig.World, *terraformtest.Session, int) {
	t.Helper()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(body))
	w.Sim.SetFaults([]fault.Rule{refusedAt(http.MethodPost, "/status/start"), refusedAt(http.MethodDelete, "")})
	if err := s.Run(t.Context()); err == nil {
		t.Fatal("the create has not failed")
	}
	w.Sim.SetFaults(nil)
	s.Taint(rig.VMAddress, false)
	left, cred := 0, w.Sim.Credentials()
	w.Change(func(world *state.World) {
		for vmid, g := range world.Guests {
			if g.Config["name"] == "x" {
				left, g.Config["description"] = vmid, rig.Resign(cred, g.Config["description"], rig.OfADeadProcess)
			}
		}
	})
	return w, s, left
}

func isProven(t *testing.T, s *terraformtest.Session) bool {
	t.Helper()
	i, err := s.Instance(rig.VMAddress)
	rig.Must(t, err)
	return strings.Contains(string(i.Private), `"proof":"`) && !strings.Contains(string(i.Private), `"proof":"bnVsbA=="`)
}

// TestUntaintedVMLosesItsMark: the plan of an untainted VM shows that the mark of its create goes. The apply takes it
// away, and with it what lets a destroy take back a create. Where that fails, the next apply does it.
func TestUntaintedVMLosesItsMark(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ more, power, want string }{
		"no description":         {"", "running", ""},
		"a description":          {"description = \"in use\"\n", "running", "in use"},
		"kept":                   {"on_failure = \"keep\"\n", "running", ""},
		"nothing else to change": {"", "stopped", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s, vmid := untainted(t, startedVM+c.more)
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock(strings.Replace(startedVM, "running", c.power, 1)+c.more))
			w.Sim.SetFaults([]fault.Rule{refusedAt(http.MethodPut, "/config")})
			if err := s.Run(t.Context()); err == nil || !isProven(t, s) {
				t.Errorf("the update did not fail, or the proof is gone: %v", err)
			}
			w.Sim.SetFaults(nil)
			if err := s.Converge(t.Context()); err != nil || rig.GuestOf(w, vmid).Config["description"] != c.want || isProven(t, s) {
				t.Errorf("%v, proof %t, VM %v", err, isProven(t, s), rig.GuestOf(w, vmid).Config)
			}
		})
	}
}

// TestUntaintedVMThatKeepsItsMark: ignore_changes hands the provider the mark for the configured description. The plan
// warns of it.
func TestUntaintedVMThatKeepsItsMark(t *testing.T) {
	t.Parallel()
	for more, warned := range map[string]bool{"lifecycle { ignore_changes = [description] }\n": true, "": false} {
		_, s, _ := untainted(t, startedVM+more)
		_, err := s.Plan(t.Context())
		rig.Must(t, err)
		if said := strings.Contains(s.Diagnostics().String(), "still bears the mark of its own create"); said != warned {
			t.Errorf("%q: warned %t", more, said)
		}
	}
}

// TestUntaintedVMIsOrdinary: an update makes an untainted VM an ordinary one, also where ignore_changes keeps its mark: its
// protection counts. An update whose plan has not refreshed it takes the mark for its own.
func TestUntaintedVMIsOrdinary(t *testing.T) {
	t.Parallel()
	t.Run("protected", func(t *testing.T) {
		t.Parallel()
		const ignored = "lifecycle { ignore_changes = [description] }\n"
		w, s, _ := untainted(t, startedVM+ignored)
		w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock(startedVM+"protection = true\n"+ignored))
		rig.Must(t, s.Converge(t.Context()))
		_, err := s.Plan(t.Context(), terraformtest.ToDestroy())
		rig.MustSay(t, err, "it is protected", "put back", "`qm set 100 --protection 0`")
	})
	t.Run("not refreshed", func(t *testing.T) {
		t.Parallel()
		w, s, vmid := untainted(t, startedVM)
		w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock(startedVM+"tags = [\"a\"]\n"))
		planned, err := s.Plan(t.Context(), terraformtest.WithoutRefresh())
		rig.Must(t, err)
		rig.Must(t, s.Apply(t.Context(), planned))
		rig.Must(t, s.Converge(t.Context()))
		if is := rig.GuestOf(w, vmid).Config; is["tags"] != "a" || is["description"] != "" {
			t.Errorf("the VM is %v", is)
		}
	})
}

// TestUntaintedVMIsNoLeftover: once it is applied, an untainted VM is no leftover of its create any more: no action
// removes it, no create of the same request takes it, and a replacement makes another one.
func TestUntaintedVMIsNoLeftover(t *testing.T) {
	t.Parallel()
	t.Run("orphan", func(t *testing.T) {
		t.Parallel()
		_, s, vmid := untainted(t, startedVM)
		rig.Must(t, s.Converge(t.Context()))
		_, err := rig.Invoke(t, s, "proxmox_orphan_delete", fmt.Sprintf("kind = \"expired_create\"\nid = \"%d\"", vmid), nil)
		rig.MustSay(t, err, "is no orphan of the kind expired_create")
	})
	for _, id := range []string{"vmid = 400\n", ""} {
		t.Run("another state, "+id, func(t *testing.T) {
			t.Parallel()
			w, s, vmid := untainted(t, id+startedVM)
			rig.Must(t, s.Converge(t.Context()))
			uuid := rig.GuestOf(w, vmid).Config["smbios1"]
			other := w.Session(t, rig.TokenNoSSH, rig.VMBlock(id+startedVM))
			if err := other.Run(t.Context()); err == nil != (id == "") || other.Attr(rig.VMAddress, "vmid").Equals(s.Attr(rig.VMAddress, "vmid")).True() {
				t.Error("the other state's create:", err)
			}
			if g := rig.GuestOf(w, vmid); g.Config["smbios1"] != uuid || g.Running == nil {
				t.Errorf("VM %d is %v", vmid, g.Config)
			}
		})
	}
	t.Run("replacement", func(t *testing.T) {
		t.Parallel()
		w, s, vmid := untainted(t, startedVM+"lifecycle { create_before_destroy = true }\n")
		rig.Must(t, s.Converge(t.Context()))
		pl, err := s.Plan(t.Context(), terraformtest.Replacing(rig.VMAddress))
		rig.Must(t, err)
		rig.Must(t, s.Apply(t.Context(), pl))
		if g := rig.GuestOf(w, vmid); g.VMID != 0 || rig.GuestOf(w, 101).Running == nil {
			t.Errorf("VM %d is there: %v", vmid, g.Config)
		}
	})
}

// TestUntaintedVMThatAnotherRunCompletes: between the plan and the apply of an untainted VM the create of another state
// completes it: it loses the mark and keeps its uuid. The apply changes nothing, and the next plan has it no more in
// this state. A kept VM no other create completes, so one without the mark is still that of the plan.
func TestUntaintedVMThatAnotherRunCompletes(t *testing.T) {
	t.Parallel()
	const kept = "on_failure = \"keep\"\n"
	for name, c := range map[string]struct {
		more    string
		options []terraformtest.PlanOption
	}{
		"refreshed":     {},
		"not refreshed": {options: []terraformtest.PlanOption{terraformtest.WithoutRefresh()}},
		"kept":          {more: kept},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s, vmid := untainted(t, startedVM+c.more)
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock(startedVM+c.more+"tags = [\"a\"]\n"))
			planned, err := s.Plan(t.Context(), c.options...)
			rig.Must(t, err)
			if c.more == kept {
				w.Change(func(world *state.World) { delete(world.Guests[vmid].Config, "description") })
				rig.Must(t, s.Apply(t.Context(), planned))
				rig.Must(t, s.Converge(t.Context()))
				if isProven(t, s) || rig.GuestOf(w, vmid).Config["tags"] != "a" {
					t.Errorf("proof %t, VM %v", isProven(t, s), rig.GuestOf(w, vmid).Config)
				}
				return
			}
			rig.Must(t, w.Session(t, rig.TokenNoSSH, rig.VMBlock(startedVM)).Run(t.Context()))
			before := rig.GuestOf(w, vmid).Config
			rig.MustSay(t, s.Apply(t.Context(), planned), "has changed since the plan", "Its configuration was not changed")
			rig.Must(t, s.Refresh(t.Context()))
			rig.Must(t, s.Destroy(t.Context()))
			if after := rig.GuestOf(w, vmid); !maps.Equal(after.Config, before) || len(s.Addresses()) > 0 {
				t.Errorf("the VM was %v, and is %v; in state is %v", before, after, s.Addresses())
			}
		})
	}
}

func theAwaited(more string) string {
	return strings.Replace(awaited("wait_for = { agent = true, timeout = \"40s\" }", more), `"web"`, `"x"`, 1)
}

// uncommitted is VM 500 whose create has waited for it, and whose commit the API was away for: before it arrived, or
// after that. It runs.
func uncommitted(t *testing.T, w *rig.World, more string, arrives bool) *terraformtest.Session {
	t.Helper()
	away := []fault.Rule{{Phase: fault.Before, Status: 596, Times: -1}}
	commit := fault.Rule{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.After, Status: 596}
	s := w.Session(t, rig.TokenNoSSH, theAwaited(more))
	rig.SilenceAgent(w, -1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		time.Sleep(30 * time.Second)
		if !arrives {
			w.Sim.SetFaults(away)
			return
		}
		w.Sim.SetFaults([]fault.Rule{commit})
		for w.Sim.FaultsFired() == 0 {
			time.Sleep(time.Millisecond)
		}
		w.Sim.SetFaults(away)
	}()
	rig.MustSay(t, s.Run(t.Context()), "Failed step: commit VM 500", "VM 500 is complete", "terraform untaint")
	<-over
	w.Sim.SetFaults(nil)
	if is := rig.GuestOf(w, 500); is.Running == nil || strings.HasPrefix(is.Config["description"], "Terraform is creating this VM") == arrives {
		t.Fatalf("the VM is %v", is.Config)
	}
	return s
}

// TestUntaintedVMWhoseCommitFailed: a create has waited for its guest, and the API is away for its last request. The VM
// stays. Its user untaints it, and the next apply sets what is missing, on the same VM, whose guest runs on. From then on
// it is an ordinary one. If he does not, the next apply replaces it.
func TestUntaintedVMWhoseCommitFailed(t *testing.T) {
	t.Parallel()
	const described = "description = \"complete\"\nprotection = true\n"
	for name, c := range map[string]struct {
		more    string
		arrives bool
		want    string // the description
	}{
		"neither configured": {"", false, ""},
		"both configured":    {described, false, "complete"},
		"its answer lost":    {described, true, "complete"},
		"a clone":            {"clone = { vmid = 9000 }\n", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(t *testing.T, w *rig.World) {
				w.Change(func(world *state.World) {
					delete(world.Guests[9000].Config, "protection")
					world.Guests[9000].Config["description"] = "golden"
				})
				s := uncommitted(t, w, c.more+"firewall = { enabled = true }\n", c.arrives)
				if says := strings.Contains(said(s), "Its source has some (description)"); says != strings.Contains(c.more, "clone") {
					t.Error("of its source is said:", said(s))
				}
				was := rig.GuestOf(w, 500)
				s.Taint(rig.VMAddress, false)
				rig.Must(t, s.Converge(t.Context()))
				is := rig.GuestOf(w, 500)
				if is.Running != was.Running || is.Config["smbios1"] != was.Config["smbios1"] ||
					is.Config["description"] != c.want || (is.Config["protection"] == "1") != (c.more == described) {
					t.Errorf("it was %v, and is %v", was.Config, is.Config)
				}
				if isProven(t, s) != c.arrives {
					t.Errorf("it is that of a failed create: %t", isProven(t, s))
				}
				if c.more == described {
					return
				}
				rig.Must(t, s.Destroy(t.Context()))
				if about := said(s); strings.Contains(about, "disks that the state does not have") {
					t.Error("its destroy says", about)
				}
			})
		})
	}
	t.Run("replaced", func(t *testing.T) {
		t.Parallel()
		inTime(t, func(t *testing.T, w *rig.World) {
			w.ExpectPowerOffs(state.PowerStop)
			s := uncommitted(t, w, described, false)
			was := rig.GuestOf(w, 500).Config["smbios1"]
			rig.Must(t, s.Converge(t.Context()))
			if is := rig.GuestOf(w, 500).Config; is["smbios1"] == was || is["description"] != "complete" {
				t.Errorf("it is %v", is)
			}
		})
	})
}

// TestUntaintedVMWhoseResumeFailed: a run ends, as if killed, while its VM waits for its commit. The next apply goes on
// with it, and PVE refuses the commit. The guest runs on, the VM is in state, and its user can keep it.
func TestUntaintedVMWhoseResumeFailed(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, w *rig.World) {
		const more = "description = \"complete\"\n"
		uncommitted(t, w, more, false)
		cred := w.Sim.Credentials()
		w.Change(func(world *state.World) {
			config := world.Guests[500].Config
			config["description"] = rig.Resign(cred, config["description"], rig.OfADeadProcess)
		})
		was := rig.GuestOf(w, 500).Running
		s := w.Session(t, rig.TokenNoSSH, theAwaited(more))
		commit := refusedAt(http.MethodPut, "/config")
		commit.Match.Nth = 2 // the first takes the VM over
		w.Sim.SetFaults([]fault.Rule{commit})
		rig.MustSay(t, s.Run(t.Context()), "not now", "VM 500 is complete but for its description", "terraform untaint")
		w.Sim.SetFaults(nil)
		s.Taint(rig.VMAddress, false)
		rig.Must(t, s.Converge(t.Context()))
		if is := rig.GuestOf(w, 500); is.Running != was || is.Config["description"] != "complete" || isProven(t, s) {
			t.Errorf("proof %t, VM %v", isProven(t, s), is.Config)
		}
	})
}

// TestNoCloneOfAKeptFailure: the VM golden of another state has failed and was kept for inspection. The plan of a clone by its name warns,
// and the apply refuses it with the transaction. When its own configuration has replaced it, the clone is made.
func TestNoCloneOfAKeptFailure(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
	made := w.Session(t, rig.TokenNoSSH, rig.VMBlock("name = \"golden\"\nnode = \"pve1\"\nvmid = 400\non_failure = \"keep\"\n"+
		"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }"))
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Before,
		Times: -1}})
	if err := made.Run(t.Context()); err == nil {
		t.Fatal("the start was to fail")
	}
	w.Sim.SetFaults(nil)
	clone := w.Session(t, rig.TokenNoSSH, rig.VMBlock("name = \"web\"\nnode = \"pve1\"\nvmid = 401\npower_state = \"stopped\"\n"+
		"clone = { name = \"golden\" }"))
	pl, err := clone.Plan(t.Context())
	rig.Must(t, err)
	rig.MustSayAll(t, clone.Diagnostics().String(), "VM 400 is not finished", "transaction")
	rig.MustSay(t, clone.Apply(t.Context(), pl), "VM 400 (golden) on node pve1 cannot be cloned", "on_failure = \"keep\" keeps it", "terraform apply")
	rig.Must(t, made.Run(t.Context()))
	rig.Must(t, clone.Converge(t.Context()))
}
